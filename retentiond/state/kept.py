"""What the state directory says when a cycle begins, or a plan."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from retentiond.collect.remembered import NOTHING, Remembered
from retentiond.disk.awaited import Awaited
from retentiond.disk.stuck import Stuck
from retentiond.state.awaited import read_awaited
from retentiond.state.memory import recall
from retentiond.state.pause import Pause, read_pause
from retentiond.state.state import State
from retentiond.state.stuck import read_stuck


class Kept(NamedTuple):
    """By default there is none. ``stuck``: as the daemon found it, for who can't see it himself."""

    remembered: Remembered = NOTHING
    pause: Pause | None = None
    awaited: tuple[Awaited, ...] = ()
    stuck: tuple[Stuck, ...] = ()


def kept_in(state_dir: Path) -> Kept:
    """Read without a trace."""
    return Kept(
        recall(state_dir), read_pause(state_dir), read_awaited(state_dir), read_stuck(state_dir)
    )


def kept_by(state: State) -> Kept:
    """For the process that writes it."""
    return Kept(state.memory.recall(), state.pause(), read_awaited(state.state_dir))
