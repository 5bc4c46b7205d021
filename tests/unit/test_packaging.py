"""What the package declares: every import, and nothing that it does not import."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]
OF_AN_EXTRA = {
    "retentiond/spark/session.py": "connect",
    "retentiond/kafka/settings/oauth.py": "aws",
}
"""The files that import what an extra brings, where it is installed and needed."""


@cache
def providers() -> Mapping[str, list[str]]:
    """The distributions of each top-level module. Not at import: it reads what each one installed,
    for seconds, in every process that collects this file."""
    return importlib.metadata.packages_distributions()


def names(requirements: list[str]) -> set[str]:
    """Of the distributions, as they are compared."""
    return {normal(re.split(r"[\[<>=!~; ]", each)[0]) for each in requirements}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(file: Path) -> Iterator[str]:
    """Top-level modules that are neither Python's own nor ours."""
    for node in ast.walk(ast.parse(file.read_text())):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        for module in modules:
            top = module.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "retentiond":
                yield top


def test_every_import_is_declared() -> None:
    for file in (ROOT / "retentiond").rglob("*.py"):
        extra = OF_AN_EXTRA.get(str(file.relative_to(ROOT)))
        extras = PROJECT["optional-dependencies"][extra] if extra else []
        declared = names(PROJECT["dependencies"]) | names(extras)
        for module in imported(file):
            assert declared & set(map(normal, providers()[module])), f"{file}: {module}"


def test_every_dependency_is_imported_somewhere() -> None:
    modules = {module for file in (ROOT / "retentiond").rglob("*.py") for module in imported(file)}
    used = {normal(name) for module in modules for name in providers()[module]}
    extras = [each for extra in PROJECT["optional-dependencies"].values() for each in extra]
    assert names(PROJECT["dependencies"] + extras) - used == UNIMPORTED


UNIMPORTED = {"pandas"}  # deltalake and PySpark hand over and take in its frames
