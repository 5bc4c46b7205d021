"""The processor time of a run, and which files took most: what the quick tier is measured by.

It counts user and system time of this process and of all that it started, Spark's and the brokers'
JVMs included. After `exec` a process keeps the time of what it had started before, so the figure of
`scripts/test` includes its checks. What many files share counts for the file that runs meanwhile.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

MOST = 10
"""So many files are named."""

SECONDS = pytest.StashKey[defaultdict[str, float]]()

BEFORE = pytest.StashKey[float]()
"""Seconds until pytest began: those of the checks, and of an installation."""

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(root: int) -> float:
    """What a process, its living descendants and those they have waited for took so far."""
    children: dict[int, list[int]] = defaultdict(list)
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(entry.name)
        children[int(fields[1])].append(pid)
        seconds[pid] = sum(map(int, fields[11:15])) / _TICKS  # its own, and of ended children
    left, total = [root], 0.0
    while left:
        pid = left.pop()
        total += seconds.get(pid, 0.0)
        left += children[pid]
    return total


class _Files:
    """Runs in each worker, or in the one process of a run without workers."""

    def __init__(self, found: defaultdict[str, float]) -> None:
        self._found = found
        self._before = processor_seconds(os.getpid())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        result = yield
        if nextitem is None or nextitem.path != item.path:
            now = processor_seconds(os.getpid())
            self._found[item.location[0]] += now - self._before
            self._before = now
        return result


class _Workers:
    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        config: pytest.Config = node.config  # type: ignore[attr-defined] # pytest-xdist's, untyped
        for file, seconds in getattr(node, "workeroutput", {}).get("seconds", {}).items():
            config.stash[SECONDS][file] += seconds


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SECONDS] = defaultdict(float)
    config.stash[BEFORE] = processor_seconds(os.getpid())
    if not config.getoption("numprocesses", None):  # 0 is no worker either
        config.pluginmanager.register(_Files(config.stash[SECONDS]), "processor-time-of-files")
    else:
        config.pluginmanager.register(_Workers(), "processor-time-of-workers")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        seconds = session.config.stash[SECONDS]
        output["seconds"] = dict(seconds)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    total, before = processor_seconds(os.getpid()), config.stash[BEFORE]
    terminalreporter.write_line(
        f"processor time: {total / 60:.1f} min, {before / 60:.1f} of it before the tests. "
        "Most was for:"
    )
    by_file = config.stash[SECONDS]
    for file, seconds in sorted(by_file.items(), key=lambda each: -each[1])[:MOST]:
        terminalreporter.write_line(f"{seconds:8.1f} s  {file}")
