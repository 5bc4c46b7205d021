"""What one cycle leaves for the next one and for other commands: a JSON file, replaced as a whole.

All of it is information, or decides an order or how much may stay. So a value that is missing or
can't be understood counts as none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from retentiond.disks.broker_disks import SpaceHistory
from retentiond.disks.freed import PendingFree
from retentiond.disks.log_dirs import LogDirKey
from retentiond.disks.recent import RecentDisks
from retentiond.disks.stuck import Stuck
from retentiond.model import Reason, TopicPartition
from retentiond.state.state_dir import atomic_write

KEPT_NAME = "cycle.json"


class LastComplete(NamedTuple):
    """The last complete cycle: its cluster, and when it was planned."""

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
    """

    waiting: tuple[TopicPartition, ...] = ()
    awaited: tuple[PendingFree, ...] = ()
    under_pressure: frozenset[LogDirKey] = frozenset()
    recent_disks: RecentDisks = field(default_factory=RecentDisks)
    space: SpaceHistory = field(default_factory=SpaceHistory)
    stuck: tuple[Stuck, ...] = ()
    held: tuple[Held, ...] = ()
    last_complete: LastComplete | None = None

    def complete_by(self, now_ms: int) -> LastComplete | None:
        """The last complete cycle. A time in the future counts as none, because the clock was set
        back."""
        last = self.last_complete
        return last if last and 0 < last.planned_at_ms <= now_ms else None


_KEPT = TypeAdapter(Kept)

_VALUES: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(of) for name, of in get_type_hints(Kept, include_extras=True).items()
}


def read_kept(state_dir: Path) -> Kept:
    values: dict[str, Any] = {}
    with suppress(OSError, ValueError, RecursionError):
        stored = json.loads((state_dir / KEPT_NAME).read_bytes())
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
