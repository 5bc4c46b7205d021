"""What earlier readings of the disks showed, as far as `retentiond.disk.stuck` needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from retentiond.disk.reading import DiskReading
from retentiond.disk.replica import ReplicaKey
from retentiond.model import TopicPartition

MOST_DROPS = 8
"""Remembered of each replica; the oldest are forgotten first."""


class Moment(NamedTuple):
    """A reading: its number, counted from the first, and when it was, epoch milliseconds."""

    number: int
    at_ms: int


BEFORE_THE_FIRST = Moment(0, 0)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a sign must last before it counts: both, so many readings and so long."""

    readings: int = 3
    ms: int = 15 * 60_000

    def is_over(self, since: Moment, now: Moment) -> bool:
        return now.number - since.number >= self.readings and now.at_ms - since.at_ms >= self.ms


@dataclass(frozen=True, slots=True)
class Traced:
    """A folder over time: first seen ``since``, its size last changed at ``changed_at``, and
    ``dropped_at`` are the last moments at which it was found smaller than before."""

    size_bytes: int
    since: Moment
    changed_at: Moment
    dropped_at: tuple[Moment, ...] = ()


class LogStart(NamedTuple):
    """A log start offset, and when it was first seen there."""

    offset: int
    since: Moment


@dataclass(frozen=True, slots=True)
class History:
    """``now`` is the last reading. Folders in use, and those that are to take their place."""

    now: Moment = BEFORE_THE_FIRST
    current: Mapping[ReplicaKey, Traced] = field(default_factory=dict)
    future: Mapping[ReplicaKey, Traced] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, LogStart] = field(default_factory=dict)

    def with_reading(
        self, reading: DiskReading, log_starts: Mapping[TopicPartition, int], now_ms: int
    ) -> History:
        """The history with one more reading; what that could not see stays as it was."""
        now = Moment(self.now.number + 1, now_ms)
        current = {key: each for key, each in self.current.items() if key.at in reading.unread}
        future = {key: each for key, each in self.future.items() if key.at in reading.unread}
        for at, folders in reading.folders.items():
            for folder in folders:
                key = ReplicaKey(at, folder.broker, folder.log_dir)
                before, after = (
                    (self.future, future) if folder.is_future else (self.current, current)
                )
                after[key] = _traced(before.get(key), folder.size_bytes, now)
        known = self.log_starts
        return History(
            now,
            current,
            future,
            {
                at: known[at]
                if at in known and known[at].offset == offset
                else LogStart(offset, now)
                for at, offset in log_starts.items()
            },
        )


def _traced(before: Traced | None, size_bytes: int, now: Moment) -> Traced:
    if before is None:
        return Traced(size_bytes, now, now)
    if size_bytes == before.size_bytes:
        return before
    drops = (*before.dropped_at, now) if size_bytes < before.size_bytes else before.dropped_at
    return Traced(size_bytes, before.since, now, drops[-MOST_DROPS:])
