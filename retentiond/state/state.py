"""Everything on disk, in the hands of the one process that may write it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from retentiond.state.audit import Audit
from retentiond.state.lock import StateLock
from retentiond.state.memory import Memory
from retentiond.state.pause import Pause, read_pause


@dataclass(frozen=True, slots=True)
class State:
    state_dir: Path
    audit: Audit
    memory: Memory

    def pause(self) -> Pause | None:
        """Read anew: an operator may pull the brake at any moment."""
        return read_pause(self.state_dir)


@contextmanager
def open_state(state_dir: Path) -> Iterator[State]:
    """Locked while entered. Raises `StateError`."""
    with (
        StateLock(state_dir),
        # before the audit log is made: where one is, a missing memory is a loss
        closing(Memory.open(state_dir)) as memory,
        closing(Audit.open(state_dir)) as audit,
    ):
        yield State(state_dir, audit, memory)
