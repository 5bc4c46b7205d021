"""What a removal does, what stops it, and what is left when it is cut off."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from retentiond import errors
from retentiond.errors import (
    KafkaUnavailable,
    OtherCluster,
    RetentiondError,
    StateError,
    UsageError,
)
from retentiond.kafka.log_dirs import ClusterView
from retentiond.state.operator_actions import Pause, write_pause
from retentiond.tools.orphans import broker_process, memory, remove, scan
from retentiond.tools.orphans.contents import read_contents
from retentiond.tools.orphans.folder import PartitionFolder
from retentiond.tools.orphans.memory import OrphanMemory, OrphanMemoryFile
from retentiond.tools.orphans.orphan import Fate, Orphan, Scan
from tests.support.builders.orphans_host import (
    BROKER,
    DAY_MS,
    HEX,
    HOUR_MS,
    Cluster,
    Host,
    Records,
    stray,
)

LOG = f"{0:020}.log"


def only(look: Scan) -> Orphan:
    (orphan,) = look.orphans
    return orphan


def test_an_old_orphan_goes_and_nothing_else_does(host: Host) -> None:
    host.put("gone-0")
    host.put("young-0", ages_ms=[DAY_MS])
    host.put("orders-0")
    host.cluster.assign("orders", BROKER)
    look = host.remove()
    assert {each.folder.name: each.fate for each in look.orphans} == {
        "gone-0": Fate.REMOVED,
        "young-0": Fate.KEPT,
    }
    assert host.names() == {"young-0", "orders-0"}
    assert [(found.count, found.size_bytes) for found in look.log_dirs] == [(1, 161)]
    ((folder, new_name),) = host.journal.begun
    assert folder == "gone-0"
    assert new_name.endswith("-delete")
    assert host.journal.ended == [("gone-0", "removed", None)]
    assert [each.folder.name for each in host.look().orphans] == ["young-0"]


def test_without_being_told_to_it_changes_nothing(host: Host) -> None:
    host.put("gone-0")
    host.look()
    assert only(host.look(after_ms=3 * HOUR_MS)).fate is Fate.REMOVABLE
    assert host.names() == {"gone-0"}
    assert host.journal.begun == []


def test_a_stray_goes_under_another_name(host: Host) -> None:
    name = stray("gone")
    host.put(name)
    assert only(host.remove()).fate is Fate.REMOVED
    assert host.names() == set()


@pytest.mark.parametrize("entry", ["note.txt", "0.log", "00000000000000000000.log.bak"])
def test_a_folder_with_an_unknown_file_stays(host: Host, entry: str) -> None:
    (host.put("gone-0") / entry).write_text("mine")
    orphan = only(host.remove())
    assert orphan.fate is Fate.KEPT
    assert "is no file of Kafka's" in str(orphan.reason)
    assert host.names() == {"gone-0"}


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_folder_with_something_that_is_no_file_stays(host: Host, kind: str) -> None:
    path = host.put("gone-0") / f"{9:020}.log"
    match kind:
        case "link":
            path.symlink_to(host.log_dir / "meta.properties")
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
    assert "is no regular file" in str(only(host.remove()).reason)
    assert (host.log_dir / "meta.properties").exists()


def test_a_segment_that_is_none_stays(host: Host) -> None:
    (host.put("gone-0") / LOG).write_bytes(b"something else " * 9)
    assert "no batch of records" in str(only(host.remove()).reason)


def test_every_kind_of_file_that_kafka_writes_goes(host: Host) -> None:
    folder = host.put("gone-0")
    for suffix in ("", ".deleted", ".cleaned", ".swap"):
        for kind in ("index", "timeindex", "txnindex", "snapshot"):
            (folder / f"{5:020}.{kind}{suffix}").touch()
    for name in ("leader-epoch-checkpoint.tmp", "partition.metadata.tmp"):
        (folder / name).touch()
    assert only(host.remove()).fate is Fate.REMOVED


PROCESS = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
if sys.argv[2] == "lock":
    fcntl.lockf(lock, fcntl.LOCK_EX)
opened = [open(path, "rb") for path in sys.argv[3:]]
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(host: Host, *paths: Path, is_broker: bool) -> Iterator[int]:
    """One that has files open, and Kafka's lock where it is the broker."""
    with subprocess.Popen(
        [
            *(sys.executable, "-c", PROCESS, host.log_dir / ".lock"),
            "lock" if is_broker else "-",
            *paths,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield child.pid
        child.kill()


def test_what_the_broker_has_open_stays(host: Host) -> None:
    folder = host.put("gone-0")
    host.put("gone-1")
    with process(host, folder / LOG, is_broker=True) as pid:
        look = host.remove()
    fates = {each.folder.name: (each.fate, each.reason) for each in look.orphans}
    assert fates == {
        "gone-0": (Fate.KEPT, f"the broker (pid {pid}) has it open"),
        "gone-1": (Fate.REMOVED, None),
    }
    assert host.names() == {"gone-0"}
    assert only(host.look(after_ms=3 * HOUR_MS, remove=True)).fate is Fate.REMOVED


def test_what_another_process_has_open_stays(host: Host) -> None:
    folder = host.put("gone-0")
    with process(host, folder / LOG, is_broker=False) as pid:
        assert only(host.remove()).reason == f"a process (pid {pid}) has it open"
    assert host.names() == {"gone-0"}


def test_a_mere_look_says_who_has_it_open(host: Host) -> None:
    folder = host.put("gone-0")
    host.look()
    with process(host, folder / LOG, is_broker=True) as pid:
        orphan = only(host.look(after_ms=3 * HOUR_MS))
    assert (orphan.fate, orphan.reason) == (Fate.KEPT, f"the broker (pid {pid}) has it open")
    assert only(host.look(after_ms=3 * HOUR_MS)).fate is Fate.REMOVABLE


def test_what_is_opened_between_the_look_and_the_removal_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = host.put("gone-0")
    nobody = broker_process.OpenFiles()
    monkeypatch.setattr(scan, "open_files", lambda _: nobody)
    with process(host, folder / LOG, is_broker=True) as pid:
        assert only(host.remove()).reason == f"the broker (pid {pid}) has it open"
    assert host.names() == {"gone-0"}
    assert host.journal.begun == []


def test_a_file_that_is_only_mapped_counts_as_open(host: Host) -> None:
    folder = host.put("gone-0")
    code = (
        "import mmap, sys\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "import os\n"
        "[os.close(fd) for fd in range(3, 20) if os.path.exists(f'/proc/self/fd/{fd}')]\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, folder / LOG], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        assert only(host.remove()).reason == f"a process (pid {child.pid}) has it open"
        child.kill()


def test_a_broker_that_starts_meanwhile_has_to_wait(host: Host) -> None:
    """While a folder is removed that no broker has, Kafka's lock is held."""
    host.put("gone-0")
    with broker_process.broker_of(host.log_dir) as broker:
        assert broker is None
        code = "import fcntl,sys; fcntl.lockf(open(sys.argv[1],'r+'), fcntl.LOCK_EX|fcntl.LOCK_NB)"
        tried = subprocess.run(
            [sys.executable, "-c", code, host.log_dir / ".lock"], capture_output=True, check=False
        )
        assert b"BlockingIOError" in tried.stderr


def test_a_broker_out_of_sight_stops_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose processes are its own: /proc shows others."""
    host.put("gone-0")
    with process(host, is_broker=True):
        monkeypatch.setattr(broker_process, "PROC", host.state_dir)
        reason = str(only(host.remove()).reason)
    assert reason.startswith("the open files of the broker (pid ")
    assert reason.endswith("run as its user or as root")
    assert host.names() == {"gone-0"}


def test_kafkas_lock_file_which_it_removes_when_it_stops_is_made_for_its_user(host: Host) -> None:
    lock = host.log_dir / ".lock"
    lock.unlink()
    host.put("gone-0")
    assert only(host.remove()).fate is Fate.REMOVED
    assert lock.stat().st_uid == host.log_dir.stat().st_uid
    assert lock.stat().st_mode & 0o777 == 0o644


def test_a_lock_file_that_can_not_be_had_stops_it(host: Host) -> None:
    lock = host.log_dir / ".lock"
    lock.unlink()
    lock.symlink_to(host.log_dir / "meta.properties")
    host.put("gone-0")
    assert "can't be opened" in str(only(host.remove()).reason)
    assert host.names() == {"gone-0"}


def test_a_lock_file_that_is_replaced_at_that_moment_stops_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that stops removes it, and one that starts makes it again."""
    host.put("gone-0")
    lock = host.log_dir / ".lock"
    locked = fcntl.lockf

    def replacing(fd: int, command: int) -> None:
        locked(fd, command)
        lock.unlink()
        lock.touch()

    monkeypatch.setattr(fcntl, "lockf", replacing)
    assert only(host.remove()).reason == "the broker starts or stops at this moment; try again"
    assert host.names() == {"gone-0"}


def test_a_paused_state_directory_stops_it(host: Host) -> None:
    host.put("gone-0")
    write_pause(host.state_dir, Pause("incident 4711"))
    assert only(host.remove()).reason == "paused: incident 4711"


class Changing(Cluster):
    """From a reading on, something happens before the answer."""

    def __init__(self, at: int, change: Callable[[], None]) -> None:
        super().__init__()
        self._at, self._change = at, change

    def replicas(self, names: Collection[str]) -> ClusterView:
        if self.asked + 1 == self._at:
            self._change()
        return super().replicas(names)


SECOND_LOOK, AFTER_THE_RENAME = 3, 4
"""The readings of `Host.remove`: two looks, one before the rename and one after."""


@pytest.mark.parametrize("at", [SECOND_LOOK, AFTER_THE_RENAME])
@pytest.mark.parametrize("trouble", ["assigned", "unreachable", "incomplete"])
def test_what_speaks_against_it_at_the_last_moment_stops_it(
    host: Host, at: int, trouble: str
) -> None:
    host.put("gone-0")

    def change() -> None:
        match trouble:
            case "assigned":
                host.cluster.assign("gone", BROKER)
            case "unreachable":
                raise KafkaUnavailable("no")
            case "incomplete":
                host.cluster.may_describe_cluster = False

    host.cluster = Changing(at, change)
    orphan = only(host.remove())
    assert orphan.fate is Fate.KEPT
    assert host.names() == {"gone-0"}
    assert (host.log_dir / "gone-0" / LOG).exists()
    assert len(host.journal.begun) == len(host.journal.ended) == (at == AFTER_THE_RENAME)


@pytest.mark.parametrize("at", [SECOND_LOOK, AFTER_THE_RENAME])
@pytest.mark.parametrize("trouble", [OtherCluster, UsageError, StateError])
def test_what_ends_the_work_leaves_no_removal_without_its_outcome(
    host: Host, at: int, trouble: type[RetentiondError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clusters answer; the cluster is another one; the memory can't be read."""
    host.put("gone-0")
    host.put("gone-1")

    def change() -> None:
        match trouble:
            case errors.OtherCluster:
                raise OtherCluster("two clusters answer")
            case errors.UsageError:
                host.cluster.cluster_id = "another"
            case errors.StateError:
                monkeypatch.setattr(OrphanMemoryFile, "read", unread)

    def unread(_: OrphanMemoryFile) -> OrphanMemory:
        raise StateError("the memory is damaged")

    host.cluster = Changing(at, change)
    with pytest.raises(trouble) as told:
        host.remove()
    assert host.names() == {"gone-0", "gone-1"}
    assert len(host.journal.begun) == (at == AFTER_THE_RENAME)
    assert host.journal.ended == [
        (folder, "kept", str(told.value)) for folder, _ in host.journal.begun
    ]


def test_a_folder_that_is_written_to_at_the_last_moment_gets_its_name_back(host: Host) -> None:
    folder = host.put("gone-0")

    def write() -> None:
        (renamed,) = host.log_dir.glob("gone-0.*-delete")
        (renamed / "leader-epoch-checkpoint").write_text("1\n")

    with pytest.MonkeyPatch.context() as patch:
        seen: list[str] = []

        def reading(of: PartitionFolder) -> object:
            seen.append(of.name)
            if len(seen) == 2:
                write()
            return read_contents(of)

        patch.setattr(remove, "read_contents", reading)
        orphan = only(host.remove())
    assert orphan.reason == "it changed since it was looked at"
    assert folder.exists()
    assert host.names() == {"gone-0"}


@pytest.mark.parametrize(
    ("at", "fates"), [(SECOND_LOOK - 1, []), (SECOND_LOOK, [("gone-0", Fate.KEPT)])]
)
def test_a_folder_that_was_replaced_since_it_was_listed_stays(
    host: Host, at: int, fates: list[tuple[str, Fate]]
) -> None:
    folder = host.put("gone-0")

    def replace() -> None:
        folder.rename(host.log_dir / "elsewhere-0")
        host.put("gone-0")

    host.cluster = Changing(at, replace)
    assert [(each.folder.name, each.fate) for each in host.remove().orphans] == fates
    assert host.names() == {"gone-0", "elsewhere-0"}


class Broken(Records):
    def removing(self, orphan: Orphan, new_name: str) -> None:
        raise StateError("the disk is full")


def test_what_can_not_be_recorded_is_not_done(host: Host) -> None:
    host.put("gone-0")
    host.journal = Broken()
    with pytest.raises(StateError, match="disk is full"):
        host.remove()
    assert host.names() == {"gone-0"}


class BrokenAtTheEnd(Records):
    def settled(self, orphan: Orphan) -> None:
        raise StateError("the disk is full")


def test_a_removal_whose_outcome_can_not_be_recorded_is_shown_and_is_the_last_one(
    host: Host,
) -> None:
    for name in ("gone-0", "gone-1"):
        host.put(name)
    host.journal = BrokenAtTheEnd()
    look = host.remove()
    assert [orphan.fate for orphan in look.orphans] == [Fate.REMOVED, Fate.KEPT]
    assert look.problems == ("the removals have ended early: the disk is full",)
    assert host.names() == {"gone-1"}


def test_what_ends_the_removals_after_the_first_one_hides_none_of_them(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gone-0", "gone-1", "gone-2"):
        host.put(name)
    removed: list[Orphan] = []
    one = remove.Remover.remove

    def but_the_second(remover: remove.Remover, orphan: Orphan) -> Orphan:
        if removed:
            raise OtherCluster("another cluster answers")
        removed.append(orphan)
        return one(remover, orphan)

    monkeypatch.setattr(remove.Remover, "remove", but_the_second)
    look = host.remove()
    assert [orphan.fate for orphan in look.orphans] == [Fate.REMOVED, Fate.KEPT, Fate.KEPT]
    assert look.problems == ("the removals have ended early: another cluster answers",)


class Cut(BaseException):
    """The process ends here, as by SIGKILL: no handler runs."""


@pytest.mark.parametrize(
    "step", ["removing", "write", "rename", "sync", "opened", "unlink", "unlink twice", "rmdir"]
)
def test_a_removal_that_is_cut_off_is_finished_by_the_next_one(host: Host, step: str) -> None:
    """After each step the folder is whole under its old name, or has one that Kafka deletes."""
    host.put("gone-0")
    _cut_off(host, step)

    (left,) = host.names()
    if left == "gone-0":
        assert len(list((host.log_dir / left).iterdir())) == 5
    else:
        assert left.startswith("gone-0.")
        assert left.endswith("-delete")
        assert only(host.look()).why == "its removal was cut off"
    assert only(host.look(after_ms=4 * HOUR_MS, remove=True)).fate is Fate.REMOVED
    assert host.names() == set()
    assert host.look().orphans == ()


def _cut_off(host: Host, step: str) -> None:
    """A process removes what it finds, and ends where it is about to take this step."""
    pid = os.fork()
    if pid == 0:
        _die_at(host, step)
        host.remove()
        os._exit(1)  # it was to die before
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def _die_at(host: Host, step: str) -> None:
    """The calling process ends with 9 where it is about to take this step of a removal."""
    word, _, twice = step.partition(" ")
    left: list[int] = []

    def dying(original: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return original(*args, **kwargs)

        return call

    owner, at = {
        "removing": (host.journal, 1),
        "write": (memory.OrphanMemoryFile, 3),  # after those of the two looks
        "sync": (remove, 1),
        "opened": (remove, 2),
    }.get(word, (os, 2 if twice else 1))
    left.append(at)
    dead = dying(getattr(owner, word))
    if owner is os:
        owner, word, dead = remove, "os", cast("Any", _Os(word, dead))
    setattr(owner, word, dead)


class _Os:
    """The module, but for one function."""

    def __init__(self, name: str, function: object) -> None:
        setattr(self, name, function)

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def test_a_cut_off_removal_is_put_back_when_the_partition_was_assigned_meanwhile(
    host: Host,
) -> None:
    host.put("gone-0")
    _cut_off(host, "sync")
    host.cluster.assign("gone", BROKER)
    orphan = only(host.look(after_ms=4 * HOUR_MS, remove=True))
    assert orphan.fate is Fate.KEPT
    assert "no orphan any more" in str(orphan.reason)
    assert host.names() == {"gone-0"}
    assert host.look().orphans == ()


def test_a_cut_off_removal_is_not_finished_while_deletions_are_paused(host: Host) -> None:
    host.put("gone-0")
    _cut_off(host, "unlink twice")
    write_pause(host.state_dir, Pause("incident"))
    (left,) = host.names()
    files = {each.name for each in (host.log_dir / left).iterdir()}
    orphan = only(host.look(after_ms=4 * HOUR_MS, remove=True))
    assert (orphan.fate, orphan.reason) == (Fate.KEPT, "paused: incident")
    assert {each.name for each in (host.log_dir / left).iterdir()} == files


def test_a_folder_of_that_name_that_is_not_ours_is_never_finished(host: Host) -> None:
    host.put(f"gone-0.{HEX}-delete")
    host.look()
    assert host.look(after_ms=4 * HOUR_MS, remove=True).orphans == ()
    assert host.names() == {f"gone-0.{HEX}-delete"}
