"""``python -m tests.support.versions [RELEASE ...]``: runs `tests.integration.test_releases` on
every release, or on those named, prints the table of docs/compatibility.md, and puts it there.

What is not run keeps its cell, so that a long run can be made in parts: by releases, or by
``PYTEST_ADDOPTS="-k ..."``. Ends with 1 where a test fails.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from retentiond.model import GroupKind
from tests.support.releases import ALL, COUNTS, Release

ROOT = Path(__file__).parents[2]

TESTS = ROOT / "tests" / "integration" / "test_releases.py"

PAGE = ROOT / "docs" / "compatibility.md"

KINDS = (GroupKind.CLASSIC, GroupKind.CONSUMER, GroupKind.SHARE, GroupKind.STREAMS)

JOBS = (
    *("test_the_main_job", "test_the_first_look", "test_explain", "test_the_doctor"),
    *("test_delete_records", "test_orphans", "test_the_daemon"),
)

ALL_JOBS = "main job, commands"

COLUMNS = (ALL_JOBS, *(f"{kind} groups" for kind in KINDS))

WORKS, HELD, NONE, FAILS, NOT_RUN = "yes", "held", "-", "**no**", "?"

Cells = dict[tuple[str, str], str]
"""By the release's label and the column."""


class Collected:
    """A plugin of pytest: what became of each test."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            name = report.nodeid.split("::")[1]
            self.passed[name] = self.passed.get(name, True) and report.passed


def cells(passed: Mapping[str, bool], releases: Iterable[Release]) -> Cells:
    """``passed``: by the test's name with its parameters."""
    found: Cells = {}
    for release in releases:
        label = str(release)
        jobs = [passed.get(f"{name}[{label}]") for name in JOBS]
        found[label, ALL_JOBS] = _cell(None if None in jobs else all(jobs), WORKS)
        for kind in KINDS:
            counts = release.kinds.get(kind)
            test = passed.get(f"test_a_group_of_each_kind[{label}-{kind}]")
            found[label, f"{kind} groups"] = (
                NONE if counts is None else _cell(test, WORKS if counts is COUNTS else HELD)
            )
    return found


def _cell(passed: bool | None, as_expected: str) -> str:
    return NOT_RUN if passed is None else as_expected if passed else FAILS


def table(found: Cells) -> str:
    """Markdown, the oldest release first."""
    lines = ["| Kafka | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for release in ALL:
        row = [found.get((str(release), column), NOT_RUN) for column in COLUMNS]
        lines.append(f"| {_title(release)} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def read(page: str) -> Cells:
    """The table as the page has it."""
    rows = re.findall(r"^\| (\d[^|]*) \|(.*)\|$", page, re.MULTILINE)
    labels = {_title(release): str(release) for release in ALL}
    return {
        (labels[title], column): cell.strip()
        for title, row in rows
        if title in labels
        for column, cell in zip(COLUMNS, row.split("|"), strict=True)
    }


def _title(release: Release) -> str:
    return f"{release.version} {'ZooKeeper' if release.zookeeper else 'KRaft'}"


def main() -> int:
    labels = sys.argv[1:]
    os.environ["RETENTIOND_RELEASES"] = ",".join(labels) or "all"
    collected = Collected()
    pytest.main([str(TESTS), "-q", "-n0", "-p", "no:cacheprovider"], plugins=[collected])
    run = [release for release in ALL if not labels or str(release) in labels]
    page = PAGE.read_text()
    came = cells(collected.passed, run)
    found = read(page) | {at: cell for at, cell in came.items() if cell != NOT_RUN}
    made = table(found)
    print(made)
    PAGE.write_text(
        re.sub(r"^\| Kafka \|.*?\|$(?!\n\|)", made, page, flags=re.MULTILINE | re.DOTALL)
    )
    return int(FAILS in found.values())


if __name__ == "__main__":
    sys.exit(main())
