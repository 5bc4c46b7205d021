"""What a report says: its figures, in plain values, and when the log directories will be full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from retentiond.formatting import DAY_MS, GIB, HOUR_MS
from retentiond.history.ask.past import Past
from retentiond.history.schema import RowKind

if TYPE_CHECKING:
    from retentiond.history.ask.replay import Replay

POINTS = 120
"""The greatest number of points of a chart's line."""


class TopicSaving(NamedTuple):
    """What retentiond has saved on a topic, by means over the time with it and without it. They are
    known for ``known_ms``; 0 if that is not known. ``owner``: by the newest entry."""

    topic: str
    mean_bytes: int | None
    without_mean_bytes: int | None
    records_deleted: int
    deletions: int
    known_ms: int = 0
    owner: str | None = None

    @property
    def saved_gib_days(self) -> float | None:
        if self.saved_bytes is None or not self.known_ms:
            return None
        return self.saved_bytes / GIB * self.known_ms / DAY_MS

    @property
    def saved_bytes(self) -> int | None:
        if self.mean_bytes is None or self.without_mean_bytes is None:
            return None
        return max(0, self.without_mean_bytes - self.mean_bytes)


class KeepingGroup(NamedTuple):
    """What a group keeps of a topic at the newest entry (`retentiond.decide.kept_records`).
    ``since_ms``: when a commit of it last moved; None if none has in this time."""

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
    ``deleted_by_day``: records, at the noon of each day. ``used_by_log_dir``: percent."""

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


def full_ms(points: Sequence[tuple[int, float]], at_ms: int) -> int | None:
    """When a disk is full if it goes on like that. ``points``: at which times of the last day how
    many bytes were usable; ``at_ms``: when the last one was seen. One that has been full within the
    points is since then."""
    elapsed, usable = points[-1]
    if usable <= 0:
        return at_ms - elapsed + next(at for at, free in points if free <= 0)
    left_ms = ms_until_full(points)
    return None if left_ms is None else at_ms + int(left_ms)


def ms_until_full(points: Sequence[tuple[int, float]]) -> float | None:
    """In how many milliseconds a disk is full if the trend goes on; None if it doesn't fill up, or
    was seen for less than an hour. ``points``: times and usable bytes.

    Retention frees many segments at once, so free space is a sawtooth, and a single tooth says
    nothing. The trend is the median of all slopes between a reading of the first half of the time
    and one of the second half (Theil and Sen's estimator, by halves).
    """
    (first_ms, _), (last_ms, usable_bytes) = points[0], points[-1]
    if last_ms - first_ms < HOUR_MS:
        return None
    taken_per_ms = -trend(points)
    return usable_bytes / taken_per_ms if taken_per_ms > 0 else None


def trend(points: Sequence[tuple[int, float]]) -> float:
    """The slope of at least two points (time, value) in the order of their times."""
    half = len(points) // 2
    times, values = np.array(points, np.float64).T
    time_differences = times[half:, None] - times[:half]
    value_differences = values[half:, None] - values[:half]
    passed = time_differences > 0
    slopes = value_differences[passed] / time_differences[passed]
    return float(np.median(slopes)) if len(slopes) else 0.0


def log_dirs_of(replay: Replay) -> list[tuple[LogDirFilling, list[Point]]]:
    """Each log directory, and the percent of it that was used."""
    moments = {known.entry.entry: known for known in replay.past.timeline.period}
    columns = ["broker", "log_dir", "total_bytes", "usable_bytes"]
    rows = replay.rows(RowKind.LOG_DIR, columns).orderBy("broker", "log_dir", "entry")
    width = max(1, -(-len(moments) // POINTS))
    by_dir: dict[tuple[int, str], list[tuple[int, int, int, int]]] = {}
    for row in rows.toArrow().to_pylist():
        moment = moments.get(row["entry"])
        if moment is not None and row["usable_bytes"] is not None and row["total_bytes"]:
            by_dir.setdefault((row["broker"], row["log_dir"]), []).append(
                (moment.elapsed_ms, moment.entry.at_ms, row["total_bytes"], row["usable_bytes"])
            )
    log_dirs = []
    for (broker, log_dir), readings in by_dir.items():
        elapsed, at_ms, total, usable = readings[-1]
        lately = [(at, free) for at, _, _, free in readings if elapsed - at <= DAY_MS]
        filling = LogDirFilling(
            *(broker, log_dir, total, usable), full_ms(lately, at_ms), elapsed - lately[0][0]
        )
        points = [Point(at, 100 * (1 - free / size)) for _, at, size, free in readings[::width]]
        log_dirs.append((filling, points))
    return log_dirs
