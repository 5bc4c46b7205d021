"""How long it is until Kafka's forced retention reaches what a group has not read.

A margin is known to lie between two bounds. The lower one is shown: what is unread is safe for at
least that long. Look-ups by time narrow the bounds where they are too far apart to be of use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from retentiond.collect.remembered import GroupOnTopic
from retentiond.collect.snapshot import Snapshot, TopicReading
from retentiond.unread.curve import TimeCurve, Times
from retentiond.unread.positions import Booleans, Integers, Positions, topics_of

PRECISION = 1 / 20
"""How far the bounds of a margin may lie apart, as a part of it."""

FINE_MS = 1000.0
"""Bounds that are this close are close enough, however small the margin is."""

YOUNG = 1 / 32
"""The part of the forced retention that a record is first asked to be younger than: most groups
keep up so well that no other look-up is needed."""

LOST_MS = -1000.0
"""The margin, at most, where records are gone that the group has not read. For how long they
are is known only where they were seen before."""


@dataclass(frozen=True, slots=True, eq=False)
class Unread:
    """What groups have not read (grain: group and partition). Columns of one length.

    ``series`` is an index into ``names``. Where nothing is unread, or the forced retention is
    unlimited or not known, there is no row.
    """

    names: tuple[GroupOnTopic, ...]
    series: Integers
    partition: Integers  # position in the snapshot
    offset: Integers  # the first one that is not read
    is_gone: Booleans  # it lies below the log start
    retention_ms: Times


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Of the margin of each row of `Unread`, in milliseconds; infinite where nothing is known."""

    least_ms: Times
    most_ms: Times
    is_most_known: Booleans  # else it is only the most that there can be


def unread(snapshot: Snapshot, positions: Positions) -> Unread:
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
    keys, series = np.unique(
        topics[rows.partition] * max(1, len(snapshot.groups)) + rows.group, return_inverse=True
    )
    return Unread(
        names=tuple(
            GroupOnTopic(snapshot.groups[group].group_id, snapshot.topics[topic].name)
            for topic, group in (divmod(int(key), max(1, len(snapshot.groups))) for key in keys)
        ),
        series=series,
        partition=rows.partition,
        offset=rows.offset,
        is_gone=rows.offset < log_starts[rows.partition],
        retention_ms=limits[topics[rows.partition]],
    )


def _retention_ms(topic: TopicReading) -> float:
    """Infinite where age deletes nothing."""
    limit = topic.forced_retention_ms
    return np.inf if limit is None or "delete" not in topic.cleanup_policy else limit


def _or_nan(offset: int | None) -> float:
    return np.nan if offset is None else offset


def bounds(of: Unread, curve: TimeCurve, now_ms: int) -> Bounds:
    """What is known by now. A record that is dated in the future counts as one of this moment."""
    not_before, before = curve.last_stamps(of.partition, of.offset)
    is_known = np.isfinite(before) | of.is_gone
    least = np.minimum(not_before, now_ms) + of.retention_ms - now_ms
    most = np.minimum(before, now_ms) + of.retention_ms - now_ms
    # What is deleted takes its time stamp with it, and leaves older facts a little too good.
    least = np.minimum(least, most)
    lost = np.where(np.isfinite(least), np.minimum(least, LOST_MS), LOST_MS)
    return Bounds(np.where(of.is_gone, lost, least), np.where(of.is_gone, lost, most), is_known)


def questions(of: Unread, known: Bounds, now_ms: int) -> dict[int, int]:
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
    margins = _next_margin(
        least[rows], most[rows], known.is_most_known[rows], of.retention_ms[rows]
    )
    asked_ms = np.maximum(0, np.rint(margins + now_ms - of.retention_ms[rows]))
    margins = asked_ms + of.retention_ms[rows] - now_ms
    is_news = (least[rows] < margins) & ((margins < most[rows]) | ~known.is_most_known[rows])
    times = asked_ms[is_news].astype(np.int64)
    return dict(zip(partitions[is_news].tolist(), times.tolist(), strict=True))


def _next_margin(least: Times, most: Times, is_most_known: Booleans, retention_ms: Times) -> Times:
    """Whether there is at least this much is to be asked: nearly all of the retention first,
    then whether there is any; from there on half-way, or ever further back.

    Half-way is a geometric mean: what counts is precision in proportion to the margin.
    """
    nearly_all = retention_ms * (1 - YOUNG)
    near, far = np.sort(np.abs([least, most]), axis=0)
    halfway = np.where(most <= 0, -1, 1) * np.sqrt(np.maximum(near, far * YOUNG) * far)
    return np.select(
        [
            ~is_most_known & (least < nearly_all),
            (least < 0) & (most > 0),
            np.isinf(least),
        ],
        [
            nearly_all,
            np.zeros_like(least),
            4 * most - np.maximum(FINE_MS, retention_ms * YOUNG),
        ],
        halfway,
    )


def smallest(of: Unread, known: Bounds) -> Mapping[GroupOnTopic, float]:
    """Seconds by group and topic, of the partition where it is least.

    Where the lower bound is not known yet, but the margin is known to be negative, the upper
    bound stands for it; where neither is known there is none.
    """
    margins = np.where(np.isinf(known.least_ms), known.most_ms, known.least_ms)
    is_known = np.isfinite(known.least_ms) | (known.most_ms <= 0)
    found = np.full(len(of.names), np.inf)
    np.minimum.at(found, of.series[is_known], margins[is_known])
    return {
        name: margin / 1000
        for name, margin in zip(of.names, found.tolist(), strict=True)
        if np.isfinite(margin)
    }
