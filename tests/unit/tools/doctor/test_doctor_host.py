"""The port and the state directory, on the very host of the tests."""

from __future__ import annotations

import errno
import os
import re
import socket
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retentiond.errors import StateError
from retentiond.memory.remembered import Remembered
from retentiond.state.operator_actions import Pause, write_pause
from retentiond.state.state import open_state
from retentiond.state.state_dir import holder_of, state_lock
from retentiond.tools.doctor.finding import Finding, Level
from retentiond.tools.doctor.host import (
    check_audit,
    check_port,
    check_remembered,
    check_state_dir,
)
from tests.support.builders.examined_clusters import bad, config, only

LOOPBACK = "127.0.0.1"


def test_a_free_port_is_ok_and_stays_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
    assert bad(check_port(LOOPBACK, port, None)) == []
    socket.create_server((LOOPBACK, port)).close()


def test_a_port_that_is_taken_is_ok_while_a_daemon_runs_and_else_a_problem() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        (beside_a_daemon,) = check_port(LOOPBACK, port, "retentiond with pid 17")
        assert bad(check_port(LOOPBACK, port, None)) == [(Level.PROBLEM, "port")]
    assert beside_a_daemon.level is Level.OK
    assert "retentiond with pid 17 runs" in beside_a_daemon.sentence


def test_a_port_of_an_address_that_this_host_does_not_have_is_a_problem() -> None:
    found = only(check_port("192.0.2.1", 9477, "retentiond with pid 17"))
    assert found.level is Level.PROBLEM
    assert os.strerror(errno.EADDRNOTAVAIL) in found.sentence


def test_any_free_port_needs_no_check() -> None:
    assert bad(check_port("0.0.0.0", 0, None)) == []


def looked_at(path: Path) -> list[Finding]:
    return list(check_state_dir(path, holder_of(path)))


def test_a_state_directory_that_is_not_there_is_ok_and_is_not_made(tmp_path: Path) -> None:
    assert (Level.PROBLEM, "state_dir") not in bad(looked_at(tmp_path / "not/there"))
    assert list(tmp_path.iterdir()) == []


def test_a_state_directory_of_ones_own_is_ok(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (found,) = [each for each in looked_at(tmp_path) if each.subject == "state_dir"]
    assert found.level is Level.OK
    assert "can be written to; no daemon holds it now" in found.sentence


def test_a_file_in_its_place_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/below"):
        assert (Level.PROBLEM, "state_dir") in bad(looked_at(path))


def test_a_lock_that_a_daemon_holds_is_ok_and_its_holder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with state_lock(tmp_path):
        said = [each.sentence for each in looked_at(tmp_path) if each.subject == "state_dir"]
    assert len(said) == 1
    assert "in use by retentiond with pid" in said[0]


def test_a_name_that_a_killed_daemon_left_in_its_lock_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4711 elsewhere\n")
    assert "no daemon holds it now" in looked_at(tmp_path)[0].sentence
    with state_lock(tmp_path):
        pass  # nor has it been locked by looking


@pytest.mark.parametrize(
    ("mode", "group", "is_mine", "is_writable", "free_bytes", "expected"),
    [
        (0o700, 0, True, True, 10 << 30, []),
        (0o770, 0, True, True, 10 << 30, []),
        (0o700, 0, True, False, 10 << 30, [(Level.PROBLEM, "state_dir")]),
        (0o700, 0, False, True, 10 << 30, [(Level.WARNING, "state_dir")]),
        (0o777, 0, True, True, 10 << 30, [(Level.WARNING, "state_dir")]),
        (0o770, 10001, True, True, 10 << 30, [(Level.WARNING, "state_dir")]),
        (0o700, 0, True, True, 500 << 20, [(Level.WARNING, "disk")]),
        (0o700, 0, True, True, 1 << 20, [(Level.PROBLEM, "disk")]),
    ],
)
def test_what_is_wrong_with_a_state_directory_is_said(  # noqa: PLR0917
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: int,
    group: int,
    is_mine: bool,
    is_writable: bool,
    free_bytes: int,
    expected: list[tuple[Level, str]],
) -> None:
    owner = os.geteuid() if is_mine else os.geteuid() + 1
    told = os.stat_result((stat.S_IFDIR | mode, 0, 0, 0, owner, group, 0, 0, 0, 0))
    look = Path.stat

    def status(path: Path, **how: bool) -> os.stat_result:
        return told if path == tmp_path else look(path, **how)

    monkeypatch.setattr(Path, "stat", status)
    monkeypatch.setattr("os.access", lambda *_: is_writable)
    monkeypatch.setattr("retentiond.tools.doctor.host.try_state", lambda *_: None)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=free_bytes))
    assert bad(check_state_dir(tmp_path, None)) == expected


def lacking(patch: pytest.MonkeyPatch, call: str, error: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    patch.setattr(call, refuse)


@pytest.mark.parametrize(
    ("call", "error", "lacks"),
    [
        ("os.link", errno.EPERM, "its file system has no hard links (Operation not permitted)"),
        ("os.link", errno.EOPNOTSUPP, "its file system has no hard links (Operation not supported"),
        ("fcntl.flock", errno.ENOLCK, "can't be locked (No locks available)"),
        ("os.fsync", errno.EINVAL, "its file system has no fsync of folders (Invalid argument)"),
        ("os.link", errno.ENOSPC, "No space left on device"),
    ],
)
@pytest.mark.parametrize("made", [True, False])
def test_what_the_file_system_lacks_is_a_problem_as_at_the_start(  # noqa: PLR0917
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: int,
    lacks: str,
    made: bool,
) -> None:
    path = tmp_path / "state"
    if made:
        path.mkdir(0o700)
        (path / "lock").touch()  # what a daemon of an earlier start has left
    lacking(monkeypatch, call, error)
    (finding,) = [e for e in looked_at(path) if e.subject == "state_dir"]
    assert finding.level is Level.PROBLEM
    assert str(path) in finding.sentence
    assert lacks in finding.sentence
    assert list(tmp_path.rglob("*")) == ([path, path / "lock"] if made else [])
    with pytest.raises(StateError) as refused, open_state(path):
        pass
    assert str(refused.value).startswith(finding.sentence)


def test_a_file_system_without_a_write_ahead_log_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite goes on with another journal then, and says only which."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def without_shared_memory(path: Path, **how: Any) -> sqlite3.Connection:
        return connect(f"{path.as_uri()}?vfs=unix-dotfile", uri=True, **how)

    monkeypatch.setattr("sqlite3.connect", without_shared_memory)
    assert bad(looked_at(tmp_path))[0] == (Level.PROBLEM, "state_dir")
    assert "has no shared memory or locks for SQLite's write-ahead log" in (
        looked_at(tmp_path)[0].sentence
    )


@pytest.mark.parametrize(
    ("name", "newer"), [("groups.db", False), ("groups.db", True), ("audit.db", True)]
)
def test_a_state_of_another_version_is_a_problem(tmp_path: Path, name: str, newer: bool) -> None:
    with open_state(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / name)) as database:
        database.execute(f"PRAGMA user_version = {99 if newer else 1}")
    (finding,) = [e for e in looked_at(tmp_path) if e.subject == "state_dir"]
    assert finding.level is Level.PROBLEM
    assert "retentiond" in finding.sentence
    told = f"{finding.sentence}; {finding.remedy}"
    assert "no group that has vanished" in told
    with pytest.raises(StateError) as refused, open_state(tmp_path):
        pass
    assert str(refused.value) == told


def test_a_pause_is_a_warning(tmp_path: Path) -> None:
    write_pause(tmp_path, Pause("moving disks"))
    found = [e for e in looked_at(tmp_path) if e.subject == "pause"]
    assert [(each.level, each.remedy) for each in found] == [(Level.WARNING, "retentiond resume")]


def test_the_state_of_another_cluster_is_a_problem(tmp_path: Path) -> None:
    (finding,) = check_remembered(Remembered(cluster_id="a"), "b", tmp_path)
    assert finding.level is Level.PROBLEM
    assert "belongs to cluster a, and this is cluster b" in str(finding)
    for mine in (None, "b"):
        assert not [*check_remembered(Remembered(cluster_id=mine), "b", tmp_path)]


def test_remembered_groups_that_are_lost_are_a_problem(tmp_path: Path) -> None:
    (finding,) = check_remembered(Remembered(lost="a file is missing"), "b", tmp_path)
    assert (finding.level, finding.sentence) == (
        Level.PROBLEM,
        "nothing is deleted: a file is missing",
    )


@pytest.mark.parametrize(
    ("keep", "size", "days", "level", "said"),
    [
        ("400d", 1 << 30, 3, Level.WARNING, r"enough for about 15 days .* for 400 days$"),
        (None, 1 << 30, 3, Level.WARNING, r"enough for about 15 days .* for ever$"),
        ("14d", 1 << 30, 3, Level.OK, r"enough for about 15 days of deletions"),
        ("400d", 1 << 20, 3, None, ""),  # too small to tell
        ("400d", 1 << 30, 0.1, None, ""),
        ("400d", None, 3, None, ""),
    ],
)
def test_how_long_the_audit_logs_size_is_enough_is_worked_out(  # noqa: PLR0917
    monkeypatch: pytest.MonkeyPatch,
    keep: str | None,
    size: int | None,
    days: float,
    level: Level | None,
    said: str,
) -> None:
    now_ms = 1_800_000_000_000
    oldest_s = now_ms / 1000 - days * 86_400
    monkeypatch.setattr("retentiond.tools.doctor.host.entry_bytes", lambda _path: size)
    monkeypatch.setattr("retentiond.tools.doctor.host.oldest_entry_s", lambda _path: oldest_s)
    wanted = config({"name": "orders"}, audit={"keep": keep}).audit
    found = list(check_audit(Path("/nowhere"), wanted, now_ms))
    assert [each.level for each in found] == ([] if level is None else [level])
    assert all(re.search(said, each.sentence) for each in found)
