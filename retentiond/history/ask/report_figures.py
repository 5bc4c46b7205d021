"""What a report says: its figures, in plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retentiond.formatting import DAY_MS, GIB
from retentiond.history.ask.past import Past

POINTS = 120
"""The greatest number of points of a chart's line."""


class TopicSaving(NamedTuple):
    """What retentiond has saved on a topic.

    - ``mean_bytes``, ``without_mean_bytes``: means over the time, with retentiond and without it;
      None if not known.
    - ``known_ms``: the time for which the means are known; 0 if that is not known.
    - ``owner``: the topic's owner, by the newest entry.
    """

    topic: str
    mean_bytes: int | None
    without_mean_bytes: int | None
    records_deleted: int
    deletions: int
    known_ms: int = 0
    owner: str | None = None

    @property
    def saved_gib_days(self) -> float | None:
        """The saved bytes times the time."""
        if self.saved_bytes is None or not self.known_ms:
            return None
        return self.saved_bytes / GIB * self.known_ms / DAY_MS

    @property
    def saved_bytes(self) -> int | None:
        if self.mean_bytes is None or self.without_mean_bytes is None:
            return None
        return max(0, self.without_mean_bytes - self.mean_bytes)


class KeepingGroup(NamedTuple):
    """The records that a group has yet to read on the partitions that it binds, at the newest
    entry. ``since_ms``: when a commit of it last moved; None if none has in this time."""

    group: str
    topic: str
    records: int
    bytes: int | None
    since_ms: int | None


class StoppedGroup(NamedTuple):
    """A group that has committed nothing for a day or longer, with records to read."""

    group: str
    topics: tuple[str, ...]
    records: int
    since_ms: int | None


class LogDirFilling(NamedTuple):
    """A log directory. ``full_ms``: when it will be full if the trend of the last day goes on; None
    if it doesn't fill up, or was seen for less than an hour (too short, because retention frees
    whole segments). ``seen_ms``: how much of that day it was seen for."""

    broker: int
    log_dir: str
    total_bytes: int
    usable_bytes: int
    full_ms: int | None
    seen_ms: int


class Point(NamedTuple):
    at_ms: int
    value: float


@dataclass(frozen=True, slots=True)
class Report:
    """The report. ``bytes_by_topic``, ``without_by_topic``: means over equal stretches of time.
    ``deleted_by_day``: records. ``used_by_log_dir``: percent."""

    past: Past
    topics: tuple[TopicSaving, ...]
    total: TopicSaving
    keepers: tuple[KeepingGroup, ...]
    unread_topics: tuple[str, ...]
    stopped: tuple[StoppedGroup, ...]
    log_dirs: tuple[LogDirFilling, ...]
    bytes_by_topic: Mapping[str, Sequence[Point]]
    without_by_topic: Mapping[str, Sequence[Point]]
    deleted_by_day: Sequence[Point]
    used_by_log_dir: Mapping[str, Sequence[Point]]
