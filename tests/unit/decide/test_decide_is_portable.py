"""The plan keeps to what runs on every master: expressions of the DataFrame API."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from retentiond import decide, spark

FILES = sorted(file for it in (decide, spark) for file in Path(str(it.__path__[0])).glob("*.py"))
FORBIDDEN = {
    *("udf", "pandas_udf", "arrow_udf", "udtf", "mapInPandas", "mapInArrow", "applyInPandas"),
    *("applyInArrow", "rdd", "sparkContext", "_jdf", "_jvm", "_jsparkSession", "toPandas"),
    *("pandas_api", "collect", "foreach", "foreachPartition", "parallelize"),
}
ALLOWED = {
    "jvm.py": {"_jvm"},  # its declared purpose
    "session.py": {"_jvm"},  # an attribute of its own by that name
}


def names_in(source: str) -> set[str]:
    """Every name and attribute, also those that are imported."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.name for alias in node.names)
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_step_leaves_the_dataframe_api(file: Path) -> None:
    found = names_in(file.read_text()) & FORBIDDEN

    assert found <= ALLOWED.get(file.name, set())


def test_the_check_sees_what_it_looks_for() -> None:
    source = "from pyspark.sql.functions import udf\nframe.rdd.map(f)\nframe.toPandas()"

    assert names_in(source) & FORBIDDEN == {"udf", "rdd", "toPandas"}


def test_only_one_file_touches_the_jvm() -> None:
    importers = [file.name for file in FILES if "java_gateway" in file.read_text()]

    assert importers == ["jvm.py"]
