"""How long it is until Kafka's forced retention reaches what a group has not read.

A margin is known to lie between two bounds. The lower one is shown: what is unread is safe for at
least that long. Look-ups by time narrow the bounds where they are too far apart to be of use.

Look-ups at a few fixed ages would cost less code. The gauge would then stand still between two ages
and fall from one to the next, and the alert on it predicts four hours from its slope
(deploy/prometheus/alerts.yml). What is known already is kept, so that most cycles ask nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import NOT_ANSWERED, Kafka
from retentiond.memory.remembered import GroupOnTopic
from retentiond.model import Failure, PlanRow
from retentiond.snapshot import NOWHERE, Integers, Snapshot, TopicReading, partitions_of
from retentiond.tell.group_answers import LagReport
from retentiond.tell.lag.positions import (
    Booleans,
    CommittedPositions,
    kept_by_one_group,
    positions,
    topics_of,
)
from retentiond.tell.lag.time_stamps import KnownTimeStamps, Times

PRECISION = 1 / 20
"""How far the bounds of a margin may lie apart, as a part of it."""

FINE_MS = 1000.0
"""Bounds that are this close are close enough, however small the margin is."""

FIRST_LOOK_PART = 1 / 32
"""The part of the forced retention that a record is first asked to be younger than: most groups
keep up so well that no other look-up is needed."""

LOST_MS = -1000.0
"""The margin, at most, where records are gone that the group has not read. For how long they
are is known only where they were seen before."""


@dataclass(frozen=True, slots=True, eq=False)
class LagRows:
    """What groups have not read (grain: group and partition). Columns of one length.

    ``series`` is an index into ``names``. Where nothing is unread, or the forced retention is
    unlimited or not known, there is no row.
    """

    names: tuple[GroupOnTopic, ...]
    series: Integers
    partition: Integers  # position in the snapshot
    offset: Integers  # the first one that is not read
    log_start: Integers
    retention_ms: Times

    @property
    def is_gone(self) -> Booleans:
        """Whether that offset lies below the log start."""
        return self.offset < self.log_start


@dataclass(frozen=True, slots=True, eq=False)
class MarginBounds:
    """Bounds of each margin of `LagRows`, in milliseconds; infinite where nothing is known."""

    least_ms: Times
    most_ms: Times
    is_most_known: Booleans  # else it is only the most that there can be
    presumed_ms: Times  # what the lower bound was before records were deleted

    def of(self, rows: Integers) -> MarginBounds:
        """The bounds of some rows."""
        return MarginBounds(
            self.least_ms[rows],
            self.most_ms[rows],
            self.is_most_known[rows],
            self.presumed_ms[rows],
        )


def lag_rows(snapshot: Snapshot, positions: CommittedPositions) -> LagRows:
    readings = snapshot.partitions
    limits = np.array([_retention_ms(topic) for topic in snapshot.topics], np.float64)
    log_starts = np.array([_or_nan(each.log_start_offset) for each in readings], np.float64)
    ends = np.array([_or_nan(each.high_watermark) for each in readings], np.float64)
    topics = topics_of(snapshot)
    # A comparison with what is not known (NaN) is false.
    rows = positions.where(
        (positions.offset < ends[positions.partition])
        & (log_starts[positions.partition] >= 0)
        & np.isfinite(limits[topics[positions.partition]])
    )
    width = max(1, len(snapshot.groups))
    key_of_row = topics[rows.partition] * width + rows.group
    is_named = np.zeros(len(snapshot.topics) * width, np.bool_)
    is_named[key_of_row] = True
    series = (np.cumsum(is_named) - 1)[key_of_row]
    return LagRows(
        names=tuple(
            GroupOnTopic(snapshot.groups[group].group_id, snapshot.topics[topic].name)
            for topic, group in (divmod(key, width) for key in np.flatnonzero(is_named).tolist())
        ),
        series=series,
        partition=rows.partition,
        offset=rows.offset,
        log_start=log_starts[rows.partition].astype(np.int64),
        retention_ms=limits[topics[rows.partition]],
    )


def _retention_ms(topic: TopicReading) -> float:
    """Infinite where age deletes nothing."""
    limit = topic.forced_retention_ms
    return np.inf if limit is None or "delete" not in topic.cleanup_policy else limit


def _or_nan(offset: int | None) -> float:
    return np.nan if offset is None else offset


def margin_bounds(of: LagRows, time_stamps: KnownTimeStamps, now_ms: int) -> MarginBounds:
    """What is known by now. A record that is dated in the future counts as one of this moment."""
    stamps = time_stamps.last_stamps(of.partition, of.offset)
    least, most, presumed = (
        np.minimum(stamp, now_ms) + of.retention_ms - now_ms
        for stamp in (stamps.not_before, stamps.before, stamps.presumed)
    )
    lost = np.where(np.isfinite(presumed), np.minimum(presumed, LOST_MS), LOST_MS)
    return MarginBounds(
        least_ms=np.where(of.is_gone, lost, least),
        most_ms=np.where(of.is_gone, lost, most),
        is_most_known=np.isfinite(stamps.before) | of.is_gone,
        presumed_ms=np.where(of.is_gone, lost, presumed),
    )


def next_look_ups(of: LagRows, known: MarginBounds, now_ms: int) -> dict[int, int]:
    """The time to look up next, by partition, where that is worth the while.

    Asked is about the group that is in the greatest danger, and only where it could be the
    partition that a series shows.
    """
    least, most = known.least_ms, known.most_ms
    shown_at_most = np.full(len(of.names), np.inf)
    np.minimum.at(shown_at_most, of.series, most)
    is_vague = ~(most - least <= np.maximum(FINE_MS, np.abs(least) * PRECISION)) | np.isinf(least)
    asked = np.flatnonzero(is_vague & (least <= shown_at_most[of.series]))
    asked = asked[np.lexsort((least[asked], of.partition[asked]))]
    partitions, first = np.unique(of.partition[asked], return_index=True)
    rows = asked[first]
    margins = _next_margin(known.of(rows), of.retention_ms[rows])
    asked_ms = np.maximum(0, np.rint(margins + now_ms - of.retention_ms[rows]))
    margins = asked_ms + of.retention_ms[rows] - now_ms
    is_news = (least[rows] < margins) & ((margins < most[rows]) | ~known.is_most_known[rows])
    times = asked_ms[is_news].astype(np.int64)
    return dict(zip(partitions[is_news].tolist(), times.tolist(), strict=True))


def _next_margin(known: MarginBounds, retention_ms: Times) -> Times:
    """Whether there is at least this much is to be asked: what was known before a deletion
    first, or nearly all of the retention, then whether there is any; from there on half-way, or
    ever further back.

    Half-way is a geometric mean: what counts is precision in proportion to the margin.
    """
    least, most, presumed = known.least_ms, known.most_ms, known.presumed_ms
    nearly_all = retention_ms * (1 - FIRST_LOOK_PART)
    near, far = np.sort(np.abs([least, most]), axis=0)
    halfway = np.where(most <= 0, -1, 1) * np.sqrt(np.maximum(near, far * FIRST_LOOK_PART) * far)
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
            4 * most - np.maximum(FINE_MS, retention_ms * FIRST_LOOK_PART),
        ],
        halfway,
    )


def smallest_margins(of: LagRows, known: MarginBounds) -> Mapping[GroupOnTopic, float]:
    """Seconds by group and topic, of the partition where it is least.

    Where the lower bound is not known, the presumed one stands for it, or the upper bound if the
    margin is known to be negative; where nothing is known there is none.
    """
    presumed = np.minimum(known.presumed_ms, known.most_ms)
    instead = np.where(np.isinf(presumed), known.most_ms, presumed)
    margins = np.where(np.isinf(known.least_ms), instead, known.least_ms)
    is_known = np.isfinite(known.presumed_ms) | (known.most_ms <= 0)
    found = np.full(len(of.names), np.inf)
    np.minimum.at(found, of.series[is_known], margins[is_known])
    return {
        name: margin / 1000
        for name, margin in zip(of.names, found.tolist(), strict=True)
        if np.isfinite(margin)
    }


ROUNDS = 10
"""How often a cycle looks up times, one for each partition in doubt; the next cycle goes on."""


class LagReader:
    """Reads the lag of one cluster's groups. What it knows already it asks for no more."""

    def __init__(self) -> None:
        self._time_stamps = KnownTimeStamps()

    def report(
        self,
        kafka: Kafka,
        snapshot: Snapshot,
        rows: Sequence[PlanRow],
        is_stopping: Callable[[], bool],
    ) -> LagReport:
        """After the deletions: nothing waits for it, and whatever goes wrong is only told.

        ``rows`` are the plan's, one for each partition of the snapshot.
        """
        try:
            where = positions(snapshot)
            kept = kept_by_one_group(snapshot, rows, where)
            return self._with_margins(LagReport(kept), kafka, snapshot, where, is_stopping)
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
        where: CommittedPositions,
        is_stopping: Callable[[], bool],
    ) -> LagReport:
        now_ms = snapshot.taken_at_ms
        names = partitions_of(snapshot)
        log_starts, ends = (
            np.array([offset or 0 for offset in offsets], np.int64)
            for offsets in (
                [each.log_start_offset for each in snapshot.partitions],
                [each.high_watermark for each in snapshot.partitions],
            )
        )
        topic_ids = (snapshot.topics[each.topic].topic_id for each in snapshot.partitions)
        self._time_stamps.rearrange([*zip(topic_ids, names, strict=True)], log_starts, ends)
        rows = lag_rows(snapshot, where)
        known = margin_bounds(rows, self._time_stamps, now_ms)
        silent = {  # a look-up would be a remote read, which consumers want, too
            at for at, each in enumerate(snapshot.partitions) if each.local_start_offset is not None
        }
        for _ in range(ROUNDS):
            asked = {
                partition: time_ms
                for partition, time_ms in next_look_ups(rows, known, now_ms).items()
                if partition not in silent
            }
            if not asked or is_stopping():
                break
            try:
                answers = kafka.offsets_at({names[at]: time_ms for at, time_ms in asked.items()})
            except KafkaUnavailable as error:
                report = replace(report, problem=str(error))
                break
            found = {at: answers.get(names[at], NOT_ANSWERED) for at in asked}
            silent |= {at for at, offset in found.items() if isinstance(offset, Failure)}
            told = {
                at: NOWHERE if offset is None else offset
                for at, offset in found.items()
                if not isinstance(offset, Failure)
            }
            partitions = np.array([*told], np.int64)
            times_ms = np.array([asked[at] for at in told], np.int64)
            offsets = np.array([*told.values()], np.int64)
            self._time_stamps.learn(partitions, times_ms, offsets, ends[partitions])
            known = margin_bounds(rows, self._time_stamps, now_ms)
        return replace(report, margins=smallest_margins(rows, known))
