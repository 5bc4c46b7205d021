"""The state on disk: `State` for the one process that may write it, and `StoredState`, with which a
cycle begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from retentiond.errors import StateError
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.state.audit import Audit
from retentiond.state.audit_file import AUDIT_NAME, opened_for_reading
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import check_version_in, recall
from retentiond.state.kept import Kept, KeptFile, read_kept
from retentiond.state.operator_actions import (
    Pause,
    action_now,
    read_pause,
    record_action,
    write_pause,
)
from retentiond.state.state_dir import not_writable, state_lock


@dataclass(frozen=True, slots=True)
class State:
    """The state for the one process that may write it."""

    state_dir: Path
    audit: Audit
    memory: GroupMemory
    kept_file: KeptFile

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
    """Raises `StateError` if `open_state` would refuse what is there. Changes nothing on disk."""
    check_version_in(state_dir)
    if (state_dir / AUDIT_NAME).exists():
        with opened_for_reading(state_dir):
            pass


class StoredState(NamedTuple):
    """The state with which a cycle begins; by default, nothing is stored."""

    remembered: Remembered = NOTHING
    pause: Pause | None = None
    kept: Kept = Kept()


def read_stored_state(state_dir: Path) -> StoredState:
    """The stored state for a process that only reads. Changes nothing on disk."""
    return StoredState(recall(state_dir), read_pause(state_dir), read_kept(state_dir))


def stored_state_of(state: State) -> StoredState:
    """The stored state for the process that writes it."""
    return StoredState(state.memory.recall(), state.pause(), state.kept_file.kept)
