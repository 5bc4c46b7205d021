"""The state on disk as a cycle begins, and the files that one cycle leaves for the next.

One process has the state open and may write it (`State`). A cycle begins with the stored state
(`StoredState`). Beside the databases there are JSON files, which are replaced as a whole: the bytes
that brokers have yet to free, stuck partitions, partitions that come first in the next cycle, log
directories under pressure and the space that they had, the disks in the last minutes, held
partitions and for how long, and the last complete cycle. A named tuple is written as an array, and
an empty list has no file. These files are information, or decide an order or how much may stay; so
a file that can't be understood counts as missing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from retentiond.disks.broker_disks import SpaceReadings
from retentiond.disks.freed import PendingFree
from retentiond.disks.log_dirs import LogDirKey, ReplicaKey
from retentiond.disks.recent import FolderKey, LogDirUse, RecentDisks
from retentiond.disks.stuck import Stuck, StuckCause
from retentiond.errors import StateError
from retentiond.formatting import rfc3339
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.model import Reason, TopicPartition
from retentiond.state.audit import Audit
from retentiond.state.audit_file import AUDIT_NAME, opened_for_reading
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import check_version_in, recall
from retentiond.state.operator_actions import (
    Pause,
    action_now,
    read_pause,
    record_action,
    write_pause,
)
from retentiond.state.state_dir import not_writable, remove, state_lock, write_json

AWAITED_NAME = "awaited.json"

STUCK_NAME = "stuck.json"

WAITING_NAME = "waiting.json"

UNDER_PRESSURE_NAME = "under_pressure.json"

SPACE_NAME = "space.json"

RECENT_NAME = "recent_disks.json"

LAST_COMPLETE_NAME = "last_complete.json"

HELD_NAME = "held.json"

UNREADABLE_ERRORS = (OSError, ValueError, TypeError, KeyError, OverflowError)


@dataclass(frozen=True, slots=True)
class State:
    """The state for the one process that may write it."""

    state_dir: Path
    audit: Audit
    memory: GroupMemory

    def pause(self) -> Pause | None:
        """The pause, read each time, because an operator may pause deletions at any moment."""
        return read_pause(self.state_dir)


@contextmanager
def open_state(state_dir: Path) -> Iterator[State]:
    """Opens the state and holds its lock. Raises `StateError`."""
    with (
        state_lock(state_dir),
        # before the audit log is created, because beside an audit log a missing memory is a loss
        closing(GroupMemory.open(state_dir)) as memory,
        closing(Audit.open(state_dir)) as audit,
    ):
        yield State(state_dir, audit, memory)


def try_state(state_dir: Path, folder: Path) -> None:
    """Opens and writes a state in this folder, and removes it, because the file system must be able
    to do all that. Raises `StateError` as if it were about ``state_dir``."""
    try:
        with TemporaryDirectory(prefix=".retentiond-", dir=folder) as made:
            try:
                with open_state(Path(made)) as state:
                    write_pause(state.state_dir, Pause("a trial"))
                    record_action(state.state_dir, action_now("trial", None, ""))
                    state.memory.recall()
                    state.audit.settle("", (), 0)
            except StateError as error:
                raise StateError(str(error).replace(made, str(state_dir))) from error
    except OSError as error:
        raise not_writable(state_dir, error) from error


def check_stored(state_dir: Path) -> None:
    """Raises `StateError` if `open_state` would refuse what is there. Changes nothing on disk."""
    check_version_in(state_dir)
    if (state_dir / AUDIT_NAME).exists():
        with opened_for_reading(state_dir):
            pass


class StoredState(NamedTuple):
    """The state with which a cycle begins; by default, nothing is stored.

    - ``stuck``: what the daemon found stuck, for commands that can't find it themselves.
    - ``waiting``: partitions that earlier cycles left out; those that wait longest come first.
    - ``under_pressure``: log directories that were under pressure when their space was last known.
    - ``recent_disks``: the disks in the last minutes, if there is disk pressure.
    """

    remembered: Remembered = NOTHING
    pause: Pause | None = None
    awaited: tuple[PendingFree, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    waiting: tuple[TopicPartition, ...] = ()
    under_pressure: frozenset[LogDirKey] = frozenset()
    recent_disks: RecentDisks = RecentDisks()


def read_stored_state(state_dir: Path) -> StoredState:
    """The stored state for a process that only reads. Changes nothing on disk."""
    return StoredState(
        recall(state_dir),
        read_pause(state_dir),
        read_awaited(state_dir),
        read_stuck(state_dir),
        read_waiting(state_dir),
        read_under_pressure(state_dir),
        read_recent_disks(state_dir),
    )


def stored_state_of(state: State) -> StoredState:
    """The stored state for the process that writes it."""
    return StoredState(
        state.memory.recall(),
        state.pause(),
        read_awaited(state.state_dir),
        waiting=read_waiting(state.state_dir),
        under_pressure=read_under_pressure(state.state_dir),
        recent_disks=read_recent_disks(state.state_dir),
    )


def read_awaited(state_dir: Path) -> tuple[PendingFree, ...]:
    """The deletions whose bytes the brokers have yet to free."""
    try:
        return tuple(_awaited_of(*each) for each in _read_json(state_dir / AWAITED_NAME))
    except UNREADABLE_ERRORS:
        return ()


def write_awaited(state_dir: Path, awaited: Sequence[PendingFree]) -> None:
    """Raises `StateError`."""
    consequence = "what deletions free stays unknown"
    _write(state_dir / AWAITED_NAME, awaited, consequence)


def _awaited_of(cycle_id: str, replica: list[Any], *figures: Any) -> PendingFree:
    (topic, partition), broker, log_dir = replica
    return PendingFree(
        cycle_id, ReplicaKey(TopicPartition(topic, partition), broker, log_dir), *figures
    )


def read_stuck(state_dir: Path) -> tuple[Stuck, ...]:
    """The stuck partitions that the daemon found last, with sentences that say when. A process must
    compare its readings for a quarter of an hour to find them itself."""
    try:
        stored = _read_json(state_dir / STUCK_NAME)
        when = f"as the daemon saw it at {rfc3339(stored['at_ms'])}"
        return tuple(
            Stuck(TopicPartition(topic, partition), StuckCause(cause), f"{sentence} ({when})")
            for topic, partition, cause, sentence in stored["stuck"]
        )
    except UNREADABLE_ERRORS:
        return ()


def write_stuck(state_dir: Path, stuck: Sequence[Stuck], at_ms: int) -> None:
    """Raises `StateError`."""
    rows = [[*each.at, each.cause.value, each.sentence] for each in stuck]
    consequence = "`retentiond explain` does not know what is stuck"
    _write(state_dir / STUCK_NAME, rows and {"at_ms": at_ms, "stuck": rows}, consequence)


def read_waiting(state_dir: Path) -> tuple[TopicPartition, ...]:
    """The partitions that earlier cycles have left out; those that wait longest come first."""
    try:
        stored = _read_json(state_dir / WAITING_NAME)
        return tuple(TopicPartition(topic, partition) for topic, partition in stored)
    except UNREADABLE_ERRORS:
        return ()


def write_waiting(state_dir: Path, waiting: Sequence[TopicPartition]) -> None:
    """Raises `StateError`."""
    consequence = "what a limit left out would not come first next time"
    _write(state_dir / WAITING_NAME, waiting, consequence)


def read_under_pressure(state_dir: Path) -> frozenset[LogDirKey]:
    """The log directories that were under pressure when their space was last known."""
    try:
        stored = _read_json(state_dir / UNDER_PRESSURE_NAME)
        return frozenset((int(broker), str(log_dir)) for broker, log_dir in stored)
    except UNREADABLE_ERRORS:
        return frozenset()


def write_under_pressure(state_dir: Path, log_dirs: Collection[LogDirKey]) -> None:
    """Raises `StateError`."""
    consequence = "a restart would end the pressure on a log directory too soon"
    _write(state_dir / UNDER_PRESSURE_NAME, sorted(log_dirs), consequence)


def read_space(state_dir: Path, boot_id: str) -> SpaceReadings:
    """The readings of the log directories' space. Those of another boot can't be dated, so there
    are none then."""
    try:
        stored_boot_id, stored = _read_json(state_dir / SPACE_NAME)
        readings = {
            (int(broker), str(path)): [(int(at_ms), int(usable)) for at_ms, usable in points]
            for broker, path, points in stored
        }
    except UNREADABLE_ERRORS:
        return {}
    return readings if stored_boot_id == boot_id else {}


def write_space(state_dir: Path, boot_id: str, readings: SpaceReadings) -> None:
    """Raises `StateError`."""
    consequence = "for an hour after a restart it would not be told when a log directory is full"
    rows = [[*log_dir, points] for log_dir, points in sorted(readings.items())]
    _write(state_dir / SPACE_NAME, [boot_id, rows], consequence)


def read_recent_disks(state_dir: Path) -> RecentDisks:
    """The disks in the readings of the last minutes, as an earlier cycle left them."""
    try:
        boot_id, stored = _read_json(state_dir / RECENT_NAME)
        uses: dict[LogDirKey, list[LogDirUse]] = {}
        sizes: dict[LogDirKey, dict[FolderKey, int]] = {}
        for broker, path, points, topics in stored:
            key = (int(broker), str(path))
            uses[key] = [LogDirUse(*map(int, point)) for point in points]
            sizes[key] = {
                (topic, int(partition), bool(is_future)): int(size)
                for topic, folders in topics.items()
                for partition, is_future, size in folders
            }
        return RecentDisks(str(boot_id), uses, sizes)
    except (*UNREADABLE_ERRORS, AttributeError):
        return RecentDisks()


def write_recent_disks(state_dir: Path, recent: RecentDisks) -> None:
    """Writes the folders' sizes by topic, because most topics have several. Raises `StateError`."""
    rows = []
    for key, uses in sorted(recent.uses.items()):
        topics: dict[str, list[tuple[int, int, int]]] = {}
        for (topic, partition, is_future), size in recent.sizes[key].items():
            topics.setdefault(topic, []).append((partition, int(is_future), size))
        rows.append([*key, uses, topics])
    consequence = "a restart under pressure would delete again what the brokers are about to free"
    _write(state_dir / RECENT_NAME, rows and [recent.boot_id, rows], consequence)


class LastComplete(NamedTuple):
    """The last complete cycle: its cluster, and when it was planned."""

    cluster_id: str
    planned_at_ms: int


def read_last_complete(state_dir: Path, now_ms: int) -> LastComplete | None:
    """The last complete cycle, or None. A time in the future counts as none, because the clock was
    set back."""
    try:
        cluster_id, planned_at_ms = _read_json(state_dir / LAST_COMPLETE_NAME)
        last = LastComplete(str(cluster_id), int(planned_at_ms))
    except UNREADABLE_ERRORS:
        return None
    return last if 0 < last.planned_at_ms <= now_ms else None


def write_last_complete(state_dir: Path, last: LastComplete) -> None:
    """Raises `StateError`."""
    consequence = "after a restart no cycle would seem to have been complete"
    _write(state_dir / LAST_COMPLETE_NAME, last, consequence)


def read_held(state_dir: Path) -> dict[TopicPartition, dict[Reason, float]]:
    """For how many seconds, and for which reasons, partitions had been held when the last cycle
    ended."""
    held: dict[TopicPartition, dict[Reason, float]] = {}
    try:
        for topic, name, stored_s, partitions in _read_json(state_dir / HELD_NAME):
            reason, seconds = Reason(name), float(stored_s)
            if not 0 <= seconds < math.inf:
                return {}
            for partition in partitions:
                held.setdefault(TopicPartition(topic, partition), {})[reason] = seconds
    except UNREADABLE_ERRORS:
        return {}
    return held


def write_held(state_dir: Path, held: Mapping[TopicPartition, Mapping[Reason, float]]) -> None:
    """Writes partitions that are held for the same reason and time in one row, because most of a
    topic's partitions are. Raises `StateError`."""
    grouped: dict[tuple[str, Reason, float], list[int]] = {}
    for (topic, partition), reasons in held.items():
        for reason, seconds in reasons.items():
            grouped.setdefault((topic, reason, round(seconds, 1)), []).append(partition)
    consequence = "after a restart each hold would seem to begin again"
    rows = [[*key, partitions] for key, partitions in grouped.items()]
    _write(state_dir / HELD_NAME, rows, consequence)


def _read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def _write(path: Path, document: object, consequence: str) -> None:
    """Writes the document, or removes the file if the document is empty."""
    consequence = f", so {consequence}; check free space and write permission in state_dir"
    if document:
        write_json(path, document, consequence)
    else:
        remove(path, consequence)
