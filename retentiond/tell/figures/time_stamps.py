"""What look-ups by time have shown of the timestamps of partitions.

The *last stamp* of an offset is the largest timestamp of all records up to this offset. Kafka's
forced retention removes segments from the oldest on, each when its largest timestamp is older than
``retention.ms``. So a record stays at least until its last stamp is that old, even if timestamps
are not in order.

A look-up at time T returns the first offset x whose record is not older than T. So the last stamp
of every offset at or above x is at least T, and below x it is less than T. The second statement
stays true. The first one rests on the record at x, so it is only presumed once that record is
deleted. A look-up need not be repeated as long as its record exists.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retentiond.snapshot import NOWHERE, Integers

Times = NDArray[np.float64]
"""Epoch milliseconds; infinite if not known."""

MOST_TIMES_KEPT = 16
"""How many pairs of an offset and a time are kept for a partition."""

SEARCH_STEPS = (8, 4, 2, 1, 1)
"""The steps of a binary search among that many facts. Their sum is that number."""

SEARCHED_AT_ONCE = 1 << 15
"""How many offsets are searched at once. Ten million at once take twice as long."""


class TimeFacts:
    """Facts about last stamps: pairs of an offset and a time. At most `MOST_TIMES_KEPT` are kept
    for a partition; a new fact replaces the one that was not used for longest.

    A fact is a lower bound of the last stamps from its offset on (``lower``), or an upper bound of
    those below its offset.
    """

    def __init__(self, *, lower: bool) -> None:
        self._lower = lower
        self._unknown = -np.inf if lower else np.inf
        self._offsets: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._times: Times = np.empty((0, MOST_TIMES_KEPT))
        self._used: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._now = 1  # the number of questions, used as a clock

    def rearrange(self, old_rows: Integers, largest: Integers) -> None:
        """Sets the partitions. ``old_rows``: the previous row of each partition, -1 for a new one.
        ``largest``: the largest offset that a fact may have; facts with larger ones are dropped,
        because the leader has lost their records."""
        self._offsets = _rows_taken(self._offsets, old_rows, 0)
        self._times = _rows_taken(self._times, old_rows, self._unknown)
        self._used = _rows_taken(self._used, old_rows, 0)
        self._times[self._offsets > largest[:, np.newaxis]] = self._unknown

    def put(self, partitions: Integers, offsets: Integers, times: Times) -> None:
        is_same = self._times[partitions] == times[:, np.newaxis]
        oldest = self._used[partitions].argmin(axis=1)
        columns = np.where(is_same.any(axis=1), is_same.argmax(axis=1), oldest)
        self._offsets[partitions, columns] = offsets
        self._times[partitions, columns] = times
        self._used[partitions, columns] = self._now

    def best(
        self, partitions: Integers, offsets: Integers, *smallest: Integers | None
    ) -> tuple[Times, ...]:
        """The closest bound for each offset, by all facts (None), or by those of each partition
        whose offset is at least its ``smallest``."""
        self._now += 1
        order = np.argsort(self._offsets, axis=1, kind="stable")
        fact_offsets = np.take_along_axis(self._offsets, order, axis=1)
        at = partitions * (MOST_TIMES_KEPT + 1) + _not_above(fact_offsets, partitions, offsets)
        is_asked = np.zeros(len(self._offsets) * (MOST_TIMES_KEPT + 1), np.bool_)
        is_asked[at] = True
        return tuple(self._best(at, is_asked, order, least) for least in smallest)

    def _best(
        self, at: Integers, is_asked: NDArray[np.bool_], order: Integers, smallest: Integers | None
    ) -> Times:
        times = self._times
        if smallest is not None:
            times = np.where(self._offsets >= smallest[:, np.newaxis], times, self._unknown)
        bounds, columns = self._closest(np.take_along_axis(times, order, axis=1), order)
        used = np.flatnonzero(is_asked & (bounds.ravel() != self._unknown))
        self._used[used // (MOST_TIMES_KEPT + 1), columns.ravel()[used]] = self._now
        best: Times = bounds.ravel()[at]
        return best

    def _closest(self, times: Times, order: Integers) -> tuple[Times, Integers]:
        """By partition, and by the number of facts that are not above an offset: the closest
        bound, and its column before the facts were put in ``order``."""
        if not self._lower:
            times, order = times[:, ::-1], order[:, ::-1]
        accumulate = np.maximum.accumulate if self._lower else np.minimum.accumulate
        closest = accumulate(times, axis=1)
        holders = np.where(times == closest, np.arange(MOST_TIMES_KEPT), 0)
        columns = np.take_along_axis(order, np.maximum.accumulate(holders, axis=1), axis=1)
        bounds = np.insert(closest, 0, self._unknown, axis=1)
        columns = np.insert(columns, 0, 0, axis=1)
        return (bounds, columns) if self._lower else (bounds[:, ::-1], columns[:, ::-1])


def _not_above(sorted_offsets: Integers, partitions: Integers, offsets: Integers) -> Integers:
    """How many of its partition's ``sorted_offsets`` are not above each offset: one binary search
    for all that fit into the processor's cache together."""
    flat, first = sorted_offsets.ravel(), partitions * MOST_TIMES_KEPT
    count = np.zeros(len(offsets), np.int64)
    for start in range(0, len(offsets), SEARCHED_AT_ONCE):
        rows = slice(start, start + SEARCHED_AT_ONCE)
        for step in SEARCH_STEPS:
            is_low_enough = flat[first[rows] + count[rows] + (step - 1)] <= offsets[rows]
            count[rows] += step * is_low_enough
    return count


def _rows_taken(array: NDArray[Any], rows: Integers, unknown: float) -> NDArray[Any]:
    new_row = np.full((1, MOST_TIMES_KEPT), unknown, array.dtype)
    return np.concatenate([array, new_row])[rows]  # -1 takes the last row, which is the new one


class LastStamps(NamedTuple):
    """Bounds of the last stamps of some offsets.

    A last stamp is at or after ``not_before``, and earlier than ``before`` (which has no meaning
    for an offset below the log start offset). ``presumed``: what ``not_before`` is if deleted
    records still count.
    """

    not_before: Times
    before: Times
    presumed: Times


class KnownTimeStamps:
    """What is known of the last stamps. Partitions have the numbers of the last `rearrange`."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._not_before = TimeFacts(lower=True)
        self._before = TimeFacts(lower=False)
        self._log_starts: Integers = np.empty(0, np.int64)

    def rearrange(
        self, partitions: Sequence[Hashable], log_starts: Integers, ends: Integers
    ) -> None:
        """Sets the partitions, in this order, with their log start offsets and high watermarks.
        What is known of other partitions is forgotten."""
        self._log_starts = log_starts
        old_rows = np.fromiter(
            (self._numbers.get(partition, -1) for partition in partitions), np.int64
        )
        self._not_before.rearrange(old_rows, ends - 1)
        self._before.rearrange(old_rows, ends)
        self._numbers = {partition: number for number, partition in enumerate(partitions)}

    def learn(
        self, partitions: Integers, times_ms: Integers, offsets: Integers, ends: Integers
    ) -> None:
        """Adds the answers to look-ups: the first offset whose record is at or after the time;
        `NOWHERE` if there is no such record below the end, which was read before."""
        is_found = offsets != NOWHERE
        times = times_ms.astype(np.float64)
        self._not_before.put(partitions[is_found], offsets[is_found], times[is_found])
        self._before.put(partitions, np.where(is_found, offsets, ends), times)

    def last_stamps(self, partitions: Integers, offsets: Integers) -> LastStamps:
        not_before, presumed = self._not_before.best(partitions, offsets, self._log_starts, None)
        (before,) = self._before.best(partitions, offsets, None)
        return LastStamps(not_before, before, presumed)
