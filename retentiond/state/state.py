"""Everything on disk: in the hands of the one process that may write it, and as a cycle begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from retentiond.disks.freed import Awaited
from retentiond.disks.stuck import Stuck
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.model import TopicPartition
from retentiond.state.audit import Audit
from retentiond.state.between_cycles import read_awaited, read_stuck, read_waiting
from retentiond.state.groups import GroupMemory, recall
from retentiond.state.operator_actions import Pause, read_pause
from retentiond.state.state_dir import StateLock


@dataclass(frozen=True, slots=True)
class State:
    state_dir: Path
    audit: Audit
    memory: GroupMemory

    def pause(self) -> Pause | None:
        """Read anew: an operator may pause deletions at any moment."""
        return read_pause(self.state_dir)


@contextmanager
def open_state(state_dir: Path) -> Iterator[State]:
    """Locked while entered. Raises `StateError`."""
    with (
        StateLock(state_dir),
        # before the audit log is made: where one is, a missing memory is a loss
        closing(GroupMemory.open(state_dir)) as memory,
        closing(Audit.open(state_dir)) as audit,
    ):
        yield State(state_dir, audit, memory)


class StoredState(NamedTuple):
    """By default there is none. ``stuck``: as the daemon found it, for who can't see it himself.
    ``waiting``: what earlier cycles left out, the longest first."""

    remembered: Remembered = NOTHING
    pause: Pause | None = None
    awaited: tuple[Awaited, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    waiting: tuple[TopicPartition, ...] = ()


def read_stored_state(state_dir: Path) -> StoredState:
    """Read without a trace."""
    return StoredState(
        recall(state_dir),
        read_pause(state_dir),
        read_awaited(state_dir),
        read_stuck(state_dir),
        read_waiting(state_dir),
    )


def stored_state_of(state: State) -> StoredState:
    """For the process that writes it."""
    return StoredState(
        state.memory.recall(),
        state.pause(),
        read_awaited(state.state_dir),
        waiting=read_waiting(state.state_dir),
    )
