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

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retentiond.snapshot import Integers
from retentiond.tell.lag.positions import Booleans

Times = NDArray[np.float64]
"""Epoch milliseconds; infinite if not known."""

MOST_TIMES_KEPT = 16
"""How many pairs of an offset and a time are kept for a partition."""


class TimeFacts:
    """Facts about last stamps: pairs of an offset and a time. At most `MOST_TIMES_KEPT` are kept
    for a partition; a new fact replaces the one that was not used for longest.

    ``applies(fact's offset, offset)``: whether a fact says something about an offset.
    ``is_better(time, other)``: whether a time says more than another one. ``unknown``: stands for
    no time.
    """

    def __init__(
        self,
        applies: Callable[[Any, Any], Booleans],
        is_better: Callable[[Any, Any], Booleans],
        unknown: float,
    ) -> None:
        self._applies = applies
        self._is_better = is_better
        self._unknown = unknown
        self._offsets: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._times: Times = np.empty((0, MOST_TIMES_KEPT))
        self._used: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._now = 0  # the number of questions, used as a clock

    def rearrange(self, old_rows: Integers, largest: Integers) -> None:
        """Sets the partitions. ``old_rows``: the previous row of each partition, -1 for a new one.
        ``largest``: the largest offset that a fact may have; facts with larger ones are dropped,
        because the leader has lost their records."""
        self._offsets = _rows_taken(self._offsets, old_rows, 0)
        self._times = _rows_taken(self._times, old_rows, self._unknown)
        self._used = _rows_taken(self._used, old_rows, 0)
        self._times[self._offsets > largest[:, np.newaxis]] = self._unknown

    def put(self, partition: int, offset: int, time: float) -> None:
        same = np.flatnonzero(self._times[partition] == time)
        column = int(same[0] if len(same) else self._used[partition].argmin())
        self._offsets[partition, column] = offset
        self._times[partition, column] = time
        self._used[partition, column] = self._now

    def best(self, partitions: Integers, offsets: Integers, smallest: Integers | int = 0) -> Times:
        """For each offset, the best time of the facts that apply to it. Only facts whose own offset
        is at least ``smallest`` count."""
        self._now += 1
        best = np.full(len(partitions), self._unknown)
        columns = np.zeros(len(partitions), np.int64)
        for column in range(MOST_TIMES_KEPT):
            times = self._times[partitions, column]
            fact_offsets = self._offsets[partitions, column]
            taken = self._applies(fact_offsets, offsets) & (fact_offsets >= smallest)
            taken &= self._is_better(times, best)
            best[taken], columns[taken] = times[taken], column
        known = best != self._unknown
        self._used[partitions[known], columns[known]] = self._now
        return best


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
        self._not_before = TimeFacts(np.less_equal, np.greater, -np.inf)
        self._before = TimeFacts(np.greater, np.less, np.inf)

    def rearrange(self, partitions: Sequence[Hashable], ends: Integers) -> None:
        """Sets the partitions, in this order, and their high watermarks. What is known of other
        partitions is forgotten."""
        old_rows = np.fromiter((self._numbers.get(each, -1) for each in partitions), np.int64)
        self._not_before.rearrange(old_rows, ends - 1)
        self._before.rearrange(old_rows, ends)
        self._numbers = {each: number for number, each in enumerate(partitions)}

    def learn(self, partition: int, time_ms: int, offset: int | None, end: int) -> None:
        """Adds the answer to a look-up: the first offset whose record is at or after ``time_ms``;
        None if there is no such record below ``end``, which was read before."""
        if offset is not None:
            self._not_before.put(partition, offset, time_ms)
        self._before.put(partition, end if offset is None else offset, time_ms)

    def last_stamps(
        self, partitions: Integers, offsets: Integers, log_starts: Integers
    ) -> LastStamps:
        """The bounds of the last stamp of each offset. ``log_starts``: the log start offsets of the
        offsets' partitions."""
        return LastStamps(
            not_before=self._not_before.best(partitions, offsets, log_starts),
            before=self._before.best(partitions, offsets),
            presumed=self._not_before.best(partitions, offsets),
        )
