"""The facts that decide a test's tier are true of the tests."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.tiers import ROOT, THOROUGH_FIXTURES, THOROUGH_PATHS

TESTS = ROOT / "tests"

MAKES_A_CLUSTER = re.compile(r"\b(?:EmbeddedKafka|secured_kafka|guarded_kafka)\(|\.broker\(\)")

FIXTURE = re.compile(r"^@pytest\.fixture.*?^def (\w+)", re.MULTILINE | re.DOTALL)


def in_long_paths(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(tuple(THOROUGH_PATHS))


def test_a_module_makes_a_cluster_only_by_a_fixture_that_tells_its_tier() -> None:
    told = tuple(f"def {fixture}(" for fixture in THOROUGH_FIXTURES)
    texts = {
        path: path.read_text("utf-8")
        for pattern in ("test_*.py", "*/conftest.py")
        for path in TESTS.rglob(pattern)
    }
    makers = [
        path
        for path, text in texts.items()
        if MAKES_A_CLUSTER.search(text) and not in_long_paths(path)
    ]
    assert makers
    assert [path for path in makers if not any(name in texts[path] for name in told)] == []


def test_every_fixture_and_path_that_makes_a_test_thorough_is_there() -> None:
    texts = (path.read_text("utf-8") for path in TESTS.rglob("*.py"))
    fixtures = {name for text in texts for name in FIXTURE.findall(text)}
    assert THOROUGH_FIXTURES.keys() - fixtures == set()
    assert [start for start in THOROUGH_PATHS if not [*ROOT.glob(f"{start}*")]] == []
