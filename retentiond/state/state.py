"""The state on disk: `State` for the one process that may write it, and `StoredState`, with which a
cycle begins.

What one cycle leaves for the next one (`Kept`) is a JSON file, replaced as a whole. All of it is
information, or decides an order or how much may stay. So a value that is missing or can't be
understood counts as none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from retentiond.clock import Uptime
from retentiond.decide.limits import Wait
from retentiond.disks.freed import PendingFree
from retentiond.disks.log_dirs import LogDirKey
from retentiond.disks.recent import RecentDisks
from retentiond.disks.stuck import Stuck
from retentiond.errors import StateError
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.model import Reason, TopicPartition
from retentiond.state.audit import Audit
from retentiond.state.audit_file import is_begun, opened_for_reading
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import check_version_in, recall
from retentiond.state.operator_actions import (
    Pause,
    action_now,
    read_pause,
    record_action,
    write_pause,
)
from retentiond.state.state_dir import atomic_write, not_writable, read_regular, state_lock

KEPT_NAME = "cycle.json"


class LastComplete(NamedTuple):
    cluster_id: str
    planned_at_ms: int


class Held(NamedTuple):
    """Partitions of a topic that have been held for the same reason and time, because most of a
    topic's partitions are."""

    topic: str
    reason: Reason
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """What the last cycle has left.

    - ``waiting``: partitions that earlier cycles left out; those that wait longest come first.
    - ``awaited``: the deletions whose bytes the brokers have yet to free.
    - ``under_pressure``: log directories that were under pressure when their space was last known.
    - ``recent_disks``: the disks in the last minutes, if there is disk pressure.
    - ``stuck``: what the daemon found stuck, with sentences that say when. A process must compare
      its readings for a quarter of an hour to find it itself.
    - ``held``: what had been held when the last cycle ended.
    - ``waits``: for how long partitions could have gone, if ``limits.worthwhile`` is set, as of
      ``waits_as_of``.
    - ``failed``: partitions whose last request has failed.
    """

    waiting: tuple[TopicPartition, ...] = ()
    awaited: tuple[PendingFree, ...] = ()
    under_pressure: frozenset[LogDirKey] = frozenset()
    recent_disks: RecentDisks = field(default_factory=RecentDisks)
    stuck: tuple[Stuck, ...] = ()
    held: tuple[Held, ...] = ()
    last_complete: LastComplete | None = None
    waits: tuple[Wait, ...] = ()
    waits_as_of: Uptime | None = None
    failed: tuple[TopicPartition, ...] = ()

    def complete_by(self, now_ms: int) -> LastComplete | None:
        """`last_complete`; none if it lies in the future, because the clock was set back."""
        last = self.last_complete
        return last if last and 0 < last.planned_at_ms <= now_ms else None


_KEPT = TypeAdapter(Kept)

_VALUES: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(of) for name, of in get_type_hints(Kept, include_extras=True).items()
}


def read_kept(state_dir: Path) -> Kept:
    values: dict[str, Any] = {}
    with suppress(OSError, ValueError, RecursionError):
        stored = json.loads(read_regular(state_dir / KEPT_NAME))
        for name, of in _VALUES.items():  # each by itself: another version may know one otherwise
            with suppress(KeyError, TypeError, ValidationError):
                values[name] = of.validate_python(stored[name])
    return Kept(**values)


class KeptFile:
    """What is kept, for the one process that may write it."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / KEPT_NAME
        self.kept = read_kept(state_dir)

    def keep(self, **values: Any) -> None:
        """Replaces these fields of `Kept`, and returns once they are on disk. Raises
        `StateError`."""
        kept = replace(self.kept, **values)
        if kept == self.kept:
            return
        atomic_write(
            self._path,
            _KEPT.dump_json(kept),
            ", so a restart would not know what waits and what the brokers are about to free; "
            "check free space and write permission in state_dir",
        )
        self.kept = kept


@dataclass(frozen=True, slots=True)
class State:
    state_dir: Path
    audit: Audit
    memory: GroupMemory
    kept_file: KeptFile

    def pause(self) -> Pause | None:
        """Read each time, because an operator may pause deletions at any moment."""
        return read_pause(self.state_dir)


@contextmanager
def open_state(state_dir: Path) -> Iterator[State]:
    """Holds the lock. Raises `StateError`."""
    with (
        state_lock(state_dir),
        # before the audit log is created, because beside an audit log a missing memory is a loss
        closing(GroupMemory.open(state_dir)) as memory,
        closing(Audit.open(state_dir)) as audit,
    ):
        yield State(state_dir, audit, memory, KeptFile(state_dir))


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
    """Raises `StateError` if `open_state` would refuse what is there."""
    check_version_in(state_dir)
    if is_begun(state_dir):
        with opened_for_reading(state_dir):
            pass


class StoredState(NamedTuple):
    """The state with which a cycle begins; by default, nothing is stored."""

    remembered: Remembered = NOTHING
    pause: Pause | None = None
    kept: Kept = Kept()


def read_stored_state(state_dir: Path) -> StoredState:
    """For a process that only reads. Changes nothing on disk."""
    return StoredState(recall(state_dir), read_pause(state_dir), read_kept(state_dir))


def stored_state_of(state: State) -> StoredState:
    """For the process that writes it."""
    return StoredState(state.memory.recall(), state.pause(), state.kept_file.kept)
