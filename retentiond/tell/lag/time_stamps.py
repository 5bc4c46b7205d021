"""What look-ups by time have told about the timestamps of partitions.

The *last stamp* of an offset is the largest timestamp of the records up to it and with it. It
is what Kafka's forced retention goes by: segments go from the oldest on, each as a whole, when
its largest timestamp is older than ``retention.ms``. So no record goes, however disordered the
timestamps are, before its last stamp is that old.

A look-up at time T answers the first offset x whose record is not older. That bounds the last
stamp of every offset: at or above x it is at least T, below x it is less. The latter stays true;
the former rests on the record at x, so it is only presumed when that is deleted. What was asked
once and rests on what is there need not be asked again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retentiond.snapshot import NOWHERE, Integers

Times = NDArray[np.float64]
"""Epoch milliseconds; infinite where nothing is known."""

MOST_TIMES_KEPT = 16
"""How many pairs of an offset and a time are kept for a partition."""

SEARCH_STEPS = (8, 4, 2, 1, 1)
"""Those of a binary search among that many: together they are as many."""


class TimeFacts:
    """Pairs of an offset and a time, `MOST_TIMES_KEPT` for each partition at most.

    A pair is a lower bound of the times from its offset on (``lower``), or an upper bound of the
    times below its offset. The pair that has been of no use for longest makes room for a new one.
    """

    def __init__(self, *, lower: bool) -> None:
        self._lower = lower
        self._nothing = -np.inf if lower else np.inf
        self._offsets: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._times: Times = np.empty((0, MOST_TIMES_KEPT))
        self._used: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._now = 1  # a count of questions, as a clock

    def rearrange(self, rows: Integers, largest: Integers) -> None:
        """The partitions from now on: where each one was before, -1 for a new one; and the largest
        offset that a fact about it may have, else the leader has lost the records it was about."""
        self._offsets = _rows_taken(self._offsets, rows, 0)
        self._times = _rows_taken(self._times, rows, self._nothing)
        self._used = _rows_taken(self._used, rows, 0)
        self._times[self._offsets > largest[:, np.newaxis]] = self._nothing

    def put(self, partitions: Integers, offsets: Integers, times: Times) -> None:
        """One pair for each of these partitions."""
        is_same = self._times[partitions] == times[:, np.newaxis]
        oldest = self._used[partitions].argmin(axis=1)
        columns = np.where(is_same.any(axis=1), is_same.argmax(axis=1), oldest)
        self._offsets[partitions, columns] = offsets
        self._times[partitions, columns] = times
        self._used[partitions, columns] = self._now

    def best(
        self, partitions: Integers, offsets: Integers, smallest: Integers | None = None
    ) -> Times:
        """The closest bound for each of these offsets. ``smallest``: by partition, the smallest
        offset whose pair counts."""
        self._now += 1
        times = self._times
        if smallest is not None:
            times = np.where(self._offsets >= smallest[:, np.newaxis], times, self._nothing)
        order = np.argsort(self._offsets, axis=1, kind="stable")
        found = np.take_along_axis(self._offsets, order, axis=1)
        bounds, columns = self._closest(np.take_along_axis(times, order, axis=1), order)
        at = partitions * (MOST_TIMES_KEPT + 1) + _not_above(found, partitions, offsets)
        best: Times = bounds.ravel()[at]
        is_used = np.zeros(bounds.size, np.bool_)
        is_used[at] = True
        used = np.flatnonzero(is_used & (bounds.ravel() != self._nothing))
        self._used[used // (MOST_TIMES_KEPT + 1), columns.ravel()[used]] = self._now
        return best

    def _closest(self, times: Times, order: Integers) -> tuple[Times, Integers]:
        """By partition, and by how many pairs are not above an offset: the closest bound, and its
        column before the pairs were put in ``order``."""
        if not self._lower:
            times, order = times[:, ::-1], order[:, ::-1]
        accumulate = np.maximum.accumulate if self._lower else np.minimum.accumulate
        closest = accumulate(times, axis=1)
        holders = np.where(times == closest, np.arange(MOST_TIMES_KEPT), 0)
        columns = np.take_along_axis(order, np.maximum.accumulate(holders, axis=1), axis=1)
        bounds = np.insert(closest, 0, self._nothing, axis=1)
        columns = np.insert(columns, 0, 0, axis=1)
        return (bounds, columns) if self._lower else (bounds[:, ::-1], columns[:, ::-1])


def _not_above(sorted_offsets: Integers, partitions: Integers, offsets: Integers) -> Integers:
    """How many of its partition's sorted offsets are not above each of the offsets: a binary
    search of all at once."""
    flat, first = sorted_offsets.ravel(), partitions * MOST_TIMES_KEPT
    count = np.zeros(len(offsets), np.int64)
    for step in SEARCH_STEPS:
        count += step * (flat[first + count + (step - 1)] <= offsets)
    return count


def _rows_taken(array: NDArray[Any], rows: Integers, nothing: float) -> NDArray[Any]:
    new = np.full((1, MOST_TIMES_KEPT), nothing, array.dtype)
    return np.concatenate([array, new])[rows]  # -1 is the last one


class LastStamps(NamedTuple):
    """What is known of the last stamps of some offsets.

    They are not before ``not_before``, and before ``before``, which is of no meaning for an offset
    below the log start. ``presumed`` is the first bound if what has been deleted still counts.
    """

    not_before: Times
    before: Times
    presumed: Times


class KnownTimeStamps:
    """Partitions are numbered as in the last `rearrange`."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._not_before = TimeFacts(lower=True)
        self._before = TimeFacts(lower=False)
        self._log_starts: Integers = np.empty(0, np.int64)

    def rearrange(
        self, partitions: Sequence[Hashable], log_starts: Integers, ends: Integers
    ) -> None:
        """What it is about from now on, in this order, and the ends (high watermarks); what is
        known of others is forgotten."""
        self._log_starts = log_starts
        rows = np.fromiter((self._numbers.get(each, -1) for each in partitions), np.int64)
        self._not_before.rearrange(rows, ends - 1)
        self._before.rearrange(rows, ends)
        self._numbers = {each: number for number, each in enumerate(partitions)}

    def learn(
        self, partitions: Integers, times_ms: Integers, found: Integers, ends: Integers
    ) -> None:
        """Answers: the first offset whose record is at or after the time; `NOWHERE` where no record
        below the end, read before, is."""
        is_found = found != NOWHERE
        times = times_ms.astype(np.float64)
        self._not_before.put(partitions[is_found], found[is_found], times[is_found])
        self._before.put(partitions, np.where(is_found, found, ends), times)

    def last_stamps(self, partitions: Integers, offsets: Integers) -> LastStamps:
        """The last stamp of each offset."""
        return LastStamps(
            not_before=self._not_before.best(partitions, offsets, self._log_starts),
            before=self._before.best(partitions, offsets),
            presumed=self._not_before.best(partitions, offsets),
        )
