"""What a release publishes, built by the script that its workflow calls."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.support.chart import KUBERNETES, helm, values_named

pytestmark = pytest.mark.thorough("Helm")

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "release"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


HOME = "https://github.com/example/retentiond"

IMAGE, DIGEST = "registry.example/tools/retentiond", f"sha256:{'1' * 64}"

RUNBOOK = f"{HOME}/blob/v{VERSION}/docs/runbook.md"


def release(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "scripts" / "release", *arguments],
        env={**os.environ, "RELEASE_HOME": HOME, "IMAGE": IMAGE, "IMAGE_DIGEST": DIGEST},
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_that_the_workflow_publishes_is_built_and_has_a_checksum() -> None:
    assert helm("version").returncode == 0
    done = release("--dry-run")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in (BUILT / "SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    assert sums == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in BUILT.iterdir()
        if path.name != "SHA256SUMS"
    }
    stem = f"retentiond-{VERSION}"
    assert sums.keys() == {
        f"{stem}-py3-none-any.whl",
        f"{stem}.tar.gz",
        f"{stem}.tgz",
        "alerts.yml",
        "recording_rules.yml",
        "retentiond.json",
    }
    with zipfile.ZipFile(BUILT / f"{stem}-py3-none-any.whl") as wheel:
        assert "retentiond/config/retentiond.schema.json" in wheel.namelist()
        about = wheel.read(f"{stem}.dist-info/METADATA").decode()
    assert f"Project-URL: Homepage, {HOME}" in about
    assert re.findall(r"\]\((?!https://)[^)#]+\)", about) == []
    assert f"({HOME}/blob/v{VERSION}/docs/kubernetes.md)" in about
    with tarfile.open(BUILT / f"{stem}.tgz") as chart:
        described = chart.extractfile("retentiond/Chart.yaml")
        assert described is not None
        chart_of = yaml.safe_load(described)
        assert (chart_of["version"], chart_of["home"]) == (VERSION, HOME)
        assert chart_of["appVersion"] == VERSION
    rendered = helm(
        *("template", "r", BUILT / f"{stem}.tgz", "--values", values_named("minimal")),
        *("--kube-version", KUBERNETES),
    )
    assert f"image: {IMAGE}@{DIGEST}\n" in rendered.stdout
    rules = yaml.safe_load((BUILT / "alerts.yml").read_text())["groups"][0]["rules"]
    assert {rule["annotations"]["runbook_url"].partition("#")[0] for rule in rules} == {RUNBOOK}
    board = (BUILT / "retentiond.json").read_text()
    assert board.count("docs/runbook.md") == board.count(RUNBOOK) > 0


@pytest.mark.parametrize("arguments", [(), ("--tag", "v0.0.0"), ("--tag",), ("--publish",)])
def test_a_tag_of_another_version_and_any_other_word_are_refused(
    arguments: tuple[str, ...],
) -> None:
    done = release(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("release: ")


def test_the_workflows_call_the_scripts_that_are_tested() -> None:
    workflows = ROOT / ".github" / "workflows"
    jobs = {path.name: yaml.safe_load(path.read_text())["jobs"] for path in workflows.iterdir()}
    commands = {
        name: {step.get("run", "") for job in of_file.values() for step in job["steps"]}
        for name, of_file in jobs.items()
    }
    assert {".ci/run", "scripts/test --all"} <= commands["test.yml"]
    assert {"scripts/test --all", 'scripts/release --tag "$GITHUB_REF_NAME"'} <= commands[
        "release.yml"
    ]


def test_every_action_is_pinned_by_its_commit() -> None:
    for workflow in (ROOT / ".github" / "workflows").iterdir():
        used = re.findall(r"uses: (\S+)", workflow.read_text())
        assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", each)] == []
