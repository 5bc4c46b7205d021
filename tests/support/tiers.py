"""Which tests the quick tier (`scripts/test`, ``--quick``) leaves to `scripts/test --all`.

Facts decide, and they stand here: what a test needs (its fixtures, or the folder it is in), or what
its ``thorough`` marker says. A test of the quick tier needs no more than the one shared broker of
the newest release, the shared Spark session, and what `scripts/setup` installs.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from tests.support.releases import Release

OwnKafka = type[EmbeddedKafka]
"""The fixture ``own_kafka``."""

OTHER_RELEASES = "other releases"

THOROUGH_FIXTURES = {
    "old_driver": OTHER_RELEASES,
    "own_kafka": "a cluster of its own",
    "three_kafka": "three brokers",
    "clusters": "two clusters",
    "far": "a cluster of its own",
    "secured": "a secured cluster",
    "guarded": "a secured cluster",
    "store": "an object store",
    "prometheus": "Prometheus",
}

THOROUGH_PATHS = {
    "tests/browser": "a browser",
    "tests/unit/chart": "Helm",
    "tests/unit/test_prometheus_rules.py": "Prometheus",
    "tests/unit/devkit": "proofs of test tools",
    "tests/integration/test_embedded_kafka": "proofs of test tools",
}
"""By the beginning of a path."""

ROOT = Path(__file__).parents[2]

LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick", action="store_true", help="leave out what only `scripts/test --all` runs"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()
    _Tier.quick = config.getoption("quick")


class _Tier:
    quick = False


def runs(thorough: int, *, quick: int) -> int:
    """How many random cases a property test tries in this tier. Ask when a module is imported."""
    return quick if _Tier.quick else thorough


def why_thorough(item: pytest.Item) -> str | None:
    """What keeps a test out of the quick tier; None: nothing does."""
    if marker := item.get_closest_marker("thorough"):
        return str(marker.args[0])
    path = item.path.relative_to(ROOT).as_posix()
    by_path = (why for start, why in THOROUGH_PATHS.items() if path.startswith(start))
    by_fixture = (THOROUGH_FIXTURES.get(name) for name in getattr(item, "fixturenames", ()))
    parameters = (
        item.callspec.params.values()
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else ()
    )
    by_release = (
        OTHER_RELEASES for each in parameters if isinstance(each, Release) and not each.is_default
    )
    return next((why for why in (*by_path, *by_fixture, *by_release) if why), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("quick"):
        return
    reasons = {item: why_thorough(item) for item in items}
    config.stash[LEFT_OUT] = Counter[str](why for why in reasons.values() if why)
    left_out = [item for item, why in reasons.items() if why]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item, why in reasons.items() if not why]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Every worker of pytest-xdist collects all tests, so one of them tells."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        left_out = session.config.stash[LEFT_OUT]
        output["left_out"] = dict(left_out)


class _LeftOutByWorkers:
    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        told = getattr(node, "workeroutput", {}).get("left_out", {})
        config: pytest.Config = node.config  # type: ignore[attr-defined] # pytest-xdist's, untyped
        config.stash[LEFT_OUT] = Counter[str](told)


def pytest_plugin_registered(plugin: object, manager: pytest.PytestPluginManager) -> None:
    if type(plugin).__name__ == "DSession":
        manager.register(_LeftOutByWorkers(), "left-out-by-workers")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if left_out := config.stash[LEFT_OUT]:
        reasons = ", ".join(f"{why} {count:,}" for why, count in left_out.most_common())
        terminalreporter.write_line(
            f"left out: {left_out.total():,} tests ({reasons}). `scripts/test --all` runs them."
        )
