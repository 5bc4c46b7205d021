"""The time until Kafka's forced retention reaches records that a group has not read: its margin.

A margin is known to lie between two bounds. The lower bound is shown: unread records are safe for
at least that long. Look-ups by time narrow the bounds if they are too far apart to be useful. What
is known is kept, so that most cycles need no look-up.

Look-ups at a few fixed ages would need less code. But the gauge would then stand still between two
ages and drop from one to the next, and the alert on it predicts four hours from its slope
(deploy/prometheus/alerts.yml).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import NOT_ANSWERED, Kafka
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import Failure, PlanRow
from retentiond.snapshot import NOWHERE, Integers, Snapshot, TopicReading, partitions_of, topics_of
from retentiond.tell.figures.group_answers import LagReport
from retentiond.tell.figures.positions import (
    Booleans,
    CommittedPositions,
    kept_by_one_group,
    positions,
)
from retentiond.tell.figures.tails import LONGEST, Tail, Tails
from retentiond.tell.figures.time_stamps import KnownTimeStamps, Times

PRECISION = 1 / 20
"""How far apart the bounds of a margin may be, as a part of the margin."""

CLOSE_ENOUGH_MS = 1000.0
"""Bounds need not be closer than this, however small the margin is."""

FIRST_AGE_PART = 1 / 32
"""The first look-up asks whether a record is younger than this part of the forced retention. Most
groups keep up so well that no other look-up is needed."""

TOLD_PART = 1 / 2
"""Alerts begin at a quarter of the forced retention."""

LOST_MS = -1000.0
"""The margin is at most this if unread records are gone. Since when they are gone is known only if
an earlier look-up has seen them."""


@dataclass(frozen=True, slots=True, eq=False)
class LagRows:
    """The groups' unread records (grain: group and partition), as columns of one length.

    ``series`` is an index into ``names``. There is no row if nothing is unread, or if the forced
    retention is unlimited or not known.
    """

    names: tuple[GroupOnTopic, ...]
    series: Integers
    partition: Integers  # position in the snapshot
    offset: Integers  # the first unread one
    log_start: Integers
    retention_ms: Times

    def where(self, mask: Booleans) -> LagRows:
        if mask.all():
            return self
        columns = (self.series, self.partition, self.offset, self.log_start, self.retention_ms)
        return LagRows(self.names, *(column[mask] for column in columns))  # type: ignore[arg-type]  # Times is the last

    @property
    def is_gone(self) -> Booleans:
        """Whether the first unread record is gone: its offset is below the log start offset."""
        return self.offset < self.log_start


@dataclass(frozen=True, slots=True, eq=False)
class MarginBounds:
    """The bounds of the margin of each row of `LagRows`, in milliseconds; infinite if not known."""

    least_ms: Times
    most_ms: Times
    is_most_known: Booleans  # else ``most_ms`` is only the largest possible margin
    presumed_ms: Times  # the lower bound before records were deleted

    def at(self, rows: Integers) -> MarginBounds:
        return MarginBounds(
            self.least_ms[rows],
            self.most_ms[rows],
            self.is_most_known[rows],
            self.presumed_ms[rows],
        )


def lag_rows(snapshot: Snapshot, positions: CommittedPositions) -> LagRows:
    topics = topics_of(snapshot)
    limits = np.array([_retention_ms(topic) for topic in snapshot.topics], np.float64)[topics]
    readings = snapshot.partitions
    log_starts = np.array([_or_nan(reading.log_start_offset) for reading in readings], np.float64)
    ends = np.array([_or_nan(reading.high_watermark) for reading in readings], np.float64)
    # A comparison with an unknown offset (NaN) is false. An empty log has nothing to read: who
    # commits "last record + 1" stands before a transaction's marker, which is no record, for ever.
    ends[~((log_starts >= 0) & (log_starts < ends) & np.isfinite(limits))] = np.nan
    rows = positions.where(positions.offset < ends[positions.partition])
    width = max(1, len(snapshot.groups))
    key_of_row = topics[rows.partition] * width + rows.group
    is_named = np.zeros(len(snapshot.topics) * width, np.bool_)
    is_named[key_of_row] = True
    series = (np.cumsum(is_named) - 1)[key_of_row]
    topic_of_name, group_of_name = np.divmod(np.flatnonzero(is_named), width)
    ids = [group.group_id for group in snapshot.groups]
    topic_names = [topic.name for topic in snapshot.topics]
    return LagRows(
        names=tuple(
            map(
                GroupOnTopic,
                map(ids.__getitem__, group_of_name.tolist()),
                map(topic_names.__getitem__, topic_of_name.tolist()),
            )
        ),
        series=series,
        partition=rows.partition,
        offset=rows.offset,
        log_start=log_starts[rows.partition].astype(np.int64),
        retention_ms=limits[rows.partition],
    )


def _retention_ms(topic: TopicReading) -> float:
    """The topic's forced retention by age; infinite if it deletes nothing by age."""
    limit = topic.forced_retention_ms
    return np.inf if limit is None or "delete" not in topic.cleanup_policy else limit


def _or_nan(offset: int | None) -> float:
    return np.nan if offset is None else offset


def margin_bounds(lags: LagRows, time_stamps: KnownTimeStamps, now_ms: int) -> MarginBounds:
    """The bounds that are known now. A record that is dated in the future counts as written now."""
    stamps = time_stamps.last_stamps(lags.partition, lags.offset)
    least, most, presumed = (
        np.minimum(stamp, now_ms) + lags.retention_ms - now_ms
        for stamp in (stamps.not_before, stamps.before, stamps.presumed)
    )
    is_most_known = np.isfinite(stamps.before)
    gone = np.flatnonzero(lags.is_gone)
    lost = np.where(np.isfinite(presumed[gone]), np.minimum(presumed[gone], LOST_MS), LOST_MS)
    least[gone], most[gone], presumed[gone], is_most_known[gone] = lost, lost, lost, True
    return MarginBounds(least, most, is_most_known, presumed)


def next_look_ups(lags: LagRows, known: MarginBounds, now_ms: int) -> dict[int, int]:
    """The time to look up next, for each partition where a look-up is useful.

    On a partition, the group with the smallest margin is looked up. A partition is looked up only
    if it may be the one that a series shows.
    """
    least, most = known.least_ms, known.most_ms
    shown_at_most = np.full(len(lags.names), np.inf)
    np.minimum.at(shown_at_most, lags.series, most)
    allowed = np.maximum(CLOSE_ENOUGH_MS, np.abs(least) * PRECISION)
    is_vague = ~(most - least <= allowed) | np.isinf(least)
    asked = np.flatnonzero(is_vague & (least <= shown_at_most[lags.series]))
    asked = asked[np.lexsort((least[asked], lags.partition[asked]))]
    partitions, first = np.unique(lags.partition[asked], return_index=True)
    rows = asked[first]
    margins = _next_margin(known.at(rows), lags.retention_ms[rows])
    asked_ms = np.maximum(0, np.rint(margins + now_ms - lags.retention_ms[rows]))
    margins = asked_ms + lags.retention_ms[rows] - now_ms
    is_useful = (least[rows] < margins) & ((margins < most[rows]) | ~known.is_most_known[rows])
    times = asked_ms[is_useful].astype(np.int64)
    return dict(zip(partitions[is_useful].tolist(), times.tolist(), strict=True))


def _next_margin(known: MarginBounds, retention_ms: Times) -> Times:
    """The margin to ask about next: is the real one at least as large?

    First comes the margin that was known before a deletion, or nearly all of the retention; then
    zero; then a margin half-way between the bounds, or one further and further below. Half-way is
    the geometric mean, because precision is relative to the margin.
    """
    least, most, presumed = known.least_ms, known.most_ms, known.presumed_ms
    nearly_all = retention_ms * (1 - FIRST_AGE_PART)
    near, far = np.sort(np.abs([least, most]), axis=0)
    halfway = np.where(most <= 0, -1, 1) * np.sqrt(np.maximum(near, far * FIRST_AGE_PART) * far)
    return np.select(
        [
            (least < presumed) & (presumed < most),
            ~known.is_most_known & (least < nearly_all),
            (least < 0) & (most > 0),
            np.isinf(least),
        ],
        [
            presumed,
            nearly_all,
            np.zeros_like(least),
            4 * most - np.maximum(CLOSE_ENOUGH_MS, retention_ms * FIRST_AGE_PART),
        ],
        halfway,
    )


def smallest_margins(lags: LagRows, known: MarginBounds) -> Mapping[GroupOnTopic, float]:
    """By group and topic, the smallest margin of all partitions, in seconds.

    If the lower bound is not known, the presumed one takes its place, or the upper bound if the
    margin is known to be negative. If nothing is known, the group has no margin.
    """
    presumed = np.minimum(known.presumed_ms, known.most_ms)
    replacement = np.where(np.isinf(presumed), known.most_ms, presumed)
    margins = np.where(np.isinf(known.least_ms), replacement, known.least_ms)
    is_known = np.isfinite(known.presumed_ms) | (known.most_ms <= 0)
    smallest = np.full(len(lags.names), np.inf)
    np.minimum.at(smallest, lags.series[is_known], margins[is_known])
    is_finite = np.isfinite(smallest)
    seconds = (smallest[is_finite] / 1000).tolist()
    return dict(zip(compress(lags.names, is_finite.tolist()), seconds, strict=True))


ROUNDS = 10
"""How often a cycle looks up times, one for each partition whose margin is vague. The next cycle
goes on."""


class LagReader:
    """Reads the lag of one cluster's groups. It remembers timestamps that it has looked up."""

    def __init__(self) -> None:
        self._time_stamps = KnownTimeStamps()
        self._tails = Tails()

    def report(
        self,
        kafka: Kafka,
        snapshot: Snapshot,
        rows: Sequence[PlanRow],
        is_stopping: Callable[[], bool],
    ) -> LagReport:
        """Reads the lag after the deletions. An error is only reported.

        ``rows``: the plan's, one for each partition of the snapshot.
        """
        try:
            committed = positions(snapshot)
            kept = kept_by_one_group(snapshot, rows, committed)
            return self._with_margins(LagReport(kept), kafka, snapshot, committed, is_stopping)
        except Exception as error:  # noqa: BLE001 - it decides nothing, so it must stop nothing
            return LagReport(
                problem=f"what groups have not read can't be told ({type(error).__name__}: "
                f"{error}); please report this"
            )

    def _with_margins(
        self,
        report: LagReport,
        kafka: Kafka,
        snapshot: Snapshot,
        committed: CommittedPositions,
        is_stopping: Callable[[], bool],
    ) -> LagReport:
        now_ms = snapshot.taken_at_ms
        names = partitions_of(snapshot)
        log_starts, ends = (
            np.array([offset or 0 for offset in offsets], np.int64)
            for offsets in (
                [partition.log_start_offset for partition in snapshot.partitions],
                [partition.high_watermark for partition in snapshot.partitions],
            )
        )
        topic_ids = (snapshot.topics[partition.topic].topic_id for partition in snapshot.partitions)
        self._time_stamps.rearrange([*zip(topic_ids, names, strict=True)], log_starts, ends)
        lags = lag_rows(snapshot, committed)
        known = margin_bounds(lags, self._time_stamps, now_ms)
        not_asked = {  # tiered: a look-up would read remote storage, which consumers need
            at
            for at, partition in enumerate(snapshot.partitions)
            if partition.local_start_offset is not None
        }
        for _ in range(ROUNDS):
            asked = {
                partition: time_ms
                for partition, time_ms in next_look_ups(lags, known, now_ms).items()
                if partition not in not_asked
            }
            if not asked or is_stopping():
                break
            try:
                answers = kafka.offsets_at({names[at]: time_ms for at, time_ms in asked.items()})
            except KafkaUnavailable as error:
                report = replace(report, problem=str(error))
                break
            found = {at: answers.get(names[at], NOT_ANSWERED) for at in asked}
            not_asked |= {at for at, offset in found.items() if isinstance(offset, Failure)}
            told = {
                at: NOWHERE if offset is None else offset
                for at, offset in found.items()
                if not isinstance(offset, Failure)
            }
            partitions = np.array([*told], np.int64)
            times_ms = np.array([asked[at] for at in told], np.int64)
            offsets = np.array([*told.values()], np.int64)
            self._time_stamps.learn(partitions, times_ms, offsets, ends[partitions])
            known = margin_bounds(lags, self._time_stamps, now_ms)
        if not is_stopping():
            is_read = self._have_read_all(lags, known, kafka, snapshot, ends)
            if is_read.any():
                lags, known = lags.where(~is_read), known.at(np.flatnonzero(~is_read))
        return replace(report, margins=smallest_margins(lags, known))

    def _have_read_all(
        self, lags: LagRows, known: MarginBounds, kafka: Kafka, snapshot: Snapshot, ends: Integers
    ) -> Booleans:
        """Which rows' groups have nothing left to read. Only those are looked at whose margin is
        small enough to be told of."""
        margins = np.where(np.isinf(known.least_ms), known.most_ms, known.least_ms)
        names = partitions_of(snapshot)
        starts = np.maximum(lags.offset, lags.log_start)
        is_short = ends[lags.partition] - starts <= LONGEST
        rows = np.flatnonzero(is_short & (margins < lags.retention_ms * TOLD_PART))
        tails: list[Tail] = []
        for row in rows.tolist():
            at = int(lags.partition[row])
            topic_id = snapshot.topics[snapshot.partitions[at].topic].topic_id
            tails.append(Tail(topic_id, names[at], int(starts[row]), int(ends[at])))
        try:
            empty = self._tails.without_record(kafka, tails)
        except Exception:  # noqa: BLE001 - it only narrows down, and an unread tail has records
            empty = frozenset()
        is_empty = np.zeros(len(lags.offset), np.bool_)
        is_empty[rows[[tail in empty for tail in tails]]] = True
        return is_empty
