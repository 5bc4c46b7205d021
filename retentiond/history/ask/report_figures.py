"""What a report says: its figures, in plain values, and when the log directories will be full."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from retentiond.fields import (
    API,
    BYTES,
    GIB_DAYS,
    NUMBER,
    RECORDS,
    TEXT,
    TEXTS,
    TIME,
    TOTAL,
    described,
    figure,
    row_of,
    rows_of,
    said,
)
from retentiond.formatting import DAY_MS, GIB, HOUR_MS
from retentiond.history.ask.past import Past
from retentiond.history.schema import RowKind

if TYPE_CHECKING:
    from retentiond.history.ask.replay import Replay

LAST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)
"""A disk that fills in ten thousand years has no date."""

POINTS = 120
"""The greatest number of points of a chart's line."""


@described
class TopicSaving:
    """What retentiond has saved on a topic, or on all together, by means over the time with it and
    without it. They are known for ``known_ms``; 0 if that is not known."""

    topic: str = said(TEXT, "the topic", (API,), column="TOPIC")
    owner: str | None = said(
        TEXT, "who is asked about it, by the newest entry", (API,), column="OWNER"
    )
    mean_bytes: int | None = said(BYTES, "its mean", column="MEAN")
    without_mean_bytes: int | None = said(BYTES, "its mean without retentiond", column="WITHOUT")

    @figure(BYTES, "the difference", column="SAVED", name="saved_mean_bytes")
    def saved_bytes(self) -> int | None:
        if self.mean_bytes is None or self.without_mean_bytes is None:
            return None
        return max(0, self.without_mean_bytes - self.mean_bytes)

    @figure(GIB_DAYS, "that difference, times the time for which it is known", column="GIB·DAYS")
    def saved_gib_days(self) -> float | None:
        if self.saved_bytes is None or not self.known_ms:
            return None
        return self.saved_bytes / GIB * self.known_ms / DAY_MS

    records_deleted: int = said(RECORDS, "what retentiond has deleted", column="RECORDS DELETED")
    deletions: int = said(NUMBER, "how many requests did that")
    known_ms: int = 0


@described
class KeepingGroup:
    """What a group keeps of a topic at the newest entry (`retentiond.decide.kept_records`)."""

    group: str = said(TEXT, "the group", column="GROUP")
    topic: str = said(TEXT, "the topic", column="TOPIC")
    bytes: int | None = said(BYTES, "about what the records take", column="BYTES")
    records: int = said(RECORDS, "how many it keeps", column="RECORDS")
    since_ms: int | None = said(TIME, "when a commit of it last moved; null: not in this time")


@described
class StoppedGroup:
    """A group that has committed nothing for a day or longer, with records to read."""

    group: str = said(TEXT, "the group", column="GROUP")
    topics: tuple[str, ...] = said(TEXTS, "where it is behind", column="TOPICS")
    records: int = said(RECORDS, "how many it has yet to read", column="RECORDS BEHIND")
    since_ms: int | None = said(TIME, "when a commit of it last moved; null: not in this time")


@described
class LogDirFilling:
    """A log directory. ``full_ms``: None also if it was seen for less than an hour (too short,
    because retention frees whole segments). ``seen_ms``: how much of the last day it was seen
    for."""

    broker: int = said(NUMBER, "the broker", column="BROKER")
    log_dir: str = said(TEXT, "its log directory", column="LOG DIRECTORY")
    usable_bytes: int = said(BYTES, "what is usable of its disk", column="USABLE")
    total_bytes: int = said(BYTES, "the disk's size", column="TOTAL")
    full_ms: int | None = said(
        TIME, "when it is full if it fills as in the last day; null: it does not", name="full_at"
    )
    seen_ms: int


Line: TypeAlias = Mapping[int, float]
"""A chart's values, by epoch milliseconds."""


@described
class Report:
    """The report. ``bytes_by_topic``, ``without_by_topic``: means over equal stretches of time.
    ``deleted_by_day``: records, at the noon of each day. ``used_by_log_dir``: percent."""

    past: Past
    topics: tuple[TopicSaving, ...] = said(rows_of(TopicSaving), "what was saved on each")
    total: TopicSaving = said(row_of(TopicSaving, TOTAL), "what was saved on all together")
    keepers: tuple[KeepingGroup, ...] = said(rows_of(KeepingGroup), "what groups keep")
    unread_topics: tuple[str, ...] = said(TEXTS, "the topics that nobody reads")
    stopped: tuple[StoppedGroup, ...] = said(
        rows_of(StoppedGroup),
        "who is behind, and commits no longer",
        name="stopped_groups",
    )
    log_dirs: tuple[LogDirFilling, ...] = said(rows_of(LogDirFilling), "where logs lie")
    bytes_by_topic: Mapping[str, Line]
    without_by_topic: Mapping[str, Line]
    deleted_by_day: Line
    used_by_log_dir: Mapping[str, Line]


def full_ms(points: Sequence[tuple[int, float]], at_ms: int) -> int | None:
    """When a disk is full if it goes on like that; None if it doesn't fill up, or was seen for less
    than an hour. ``points``: at which times of the last day how many bytes were usable; ``at_ms``:
    when the last one was seen. One that has been full within the points is since then.

    Retention frees many segments at once, so free space is a sawtooth, and a single tooth says
    nothing. The trend is the median of all slopes between a reading of the first half of the time
    and one of the second half (Theil and Sen's estimator, by halves).
    """
    (first_ms, _), (last_ms, usable_bytes) = points[0], points[-1]
    if usable_bytes <= 0:
        return at_ms - last_ms + next(at for at, free in points if free <= 0)
    if last_ms - first_ms < HOUR_MS:
        return None
    taken_per_ms = -trend(points)
    return min(at_ms + int(usable_bytes / taken_per_ms), LAST_MS) if taken_per_ms > 0 else None


def trend(points: Sequence[tuple[int, float]]) -> float:
    """The slope of at least two points (time, value) in the order of their times."""
    half = len(points) // 2
    times, values = np.array(points, np.float64).T
    time_differences = times[half:, None] - times[:half]
    value_differences = values[half:, None] - values[:half]
    passed = time_differences > 0
    slopes = value_differences[passed] / time_differences[passed]
    return float(np.median(slopes)) if len(slopes) else 0.0


def log_dirs_of(replay: Replay) -> Iterator[tuple[LogDirFilling, Line]]:
    """Each log directory, and the percent of it that was used, at the same times for all."""
    period = replay.past.timeline.period
    moments = {moment.entry.entry: moment for moment in period}
    columns = ["broker", "log_dir", "total_bytes", "usable_bytes"]
    rows = replay.rows(RowKind.LOG_DIR, columns).orderBy("broker", "log_dir", "entry")
    width = max(1, -(-len(moments) // POINTS))
    begins = [moment.entry.at_ms for moment in period[::width]]
    drawn_at = {moment.entry.entry: begins[at // width] for at, moment in enumerate(period)}
    by_dir: dict[tuple[int, str], list[tuple[int, int, int, int]]] = {}
    lines: defaultdict[tuple[int, str], dict[int, float]] = defaultdict(dict)
    for row in rows.toArrow().to_pylist():
        moment, size, free = moments.get(row["entry"]), row["total_bytes"], row["usable_bytes"]
        if moment is not None and free is not None and size:
            name = (row["broker"], row["log_dir"])
            reading = moment.elapsed_ms, moment.entry.at_ms, size, free
            by_dir.setdefault(name, []).append(reading)
            lines[name].setdefault(drawn_at[row["entry"]], 100 * (1 - free / size))
    for (broker, log_dir), readings in by_dir.items():
        elapsed, at_ms, total, usable = readings[-1]
        lately = [(at, free) for at, _, _, free in readings if elapsed - at <= DAY_MS]
        filling = LogDirFilling(
            *(broker, log_dir, usable, total), full_ms(lately, at_ms), elapsed - lately[0][0]
        )
        yield filling, lines[broker, log_dir]
