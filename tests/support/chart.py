"""The Helm chart as it is packaged, and what Helm makes of it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate.utils import latest_version

from devkit.chart import CHART as SOURCE
from devkit.chart import ROOT, complete

Document = dict[str, Any]

BUILT = ROOT / "build" / "helm"
CASES = ROOT / "tests" / "unit" / "chart"

_FOLDER = tempfile.TemporaryDirectory(prefix="retentiond-chart-")
CHART = Path(_FOLDER.name) / "retentiond"
shutil.copytree(SOURCE, CHART)
complete(CHART)
VALUES = sorted([*(CASES / "values").glob("*.yaml"), *(CHART / "ci").glob("*.yaml")])
RELEASE, NAMESPACE = "clicks", "kafka"
KUBERNETES = latest_version()
"""What Helm takes the cluster's version for, where a test names none."""


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs Helm, the built one before any other; without one the test is skipped."""
    built = [str(folder) for folder in sorted(BUILT.glob("v*"), reverse=True)]
    found = shutil.which("helm", path=":".join(built)) or shutil.which("helm")
    if found is None:
        pytest.skip("helm is missing: scripts/helm builds it where there is Go")
    return subprocess.run(
        [found, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def template(
    values: Path,
    *options: str,
    chart: Path = CHART,
    release: str = RELEASE,
    kubernetes: str = KUBERNETES,
) -> list[Document]:
    """Every object of a release, in Helm's order. Raises AssertionError with Helm's error."""
    done = helm(
        *("template", release, chart, "--namespace", NAMESPACE, "--values", values),
        *("--kube-version", kubernetes, *options),
    )
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def values_named(name: str) -> Path:
    return CASES / "values" / f"{name}.yaml"


def only(documents: list[Document], kind: str) -> Document:
    """The one of that kind."""
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def daemon(documents: list[Document]) -> Document:
    """The pod of the daemon, as its template."""
    found: Document = only(documents, "StatefulSet")["spec"]["template"]
    return found


def config_of(documents: list[Document]) -> str:
    """The text of retentiond.yaml."""
    (found,) = [each for each in documents if "retentiond.yaml" in each.get("data", {})]
    return str(found["data"]["retentiond.yaml"])
