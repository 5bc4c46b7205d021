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

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retentiond.snapshot import Integers
from retentiond.tell.lag.positions import Booleans

Times = NDArray[np.float64]
"""Epoch milliseconds; infinite where nothing is known."""

MOST_TIMES_KEPT = 16
"""How many pairs of an offset and a time are kept for a partition."""


class TimeFacts:
    """Pairs of an offset and a time, `MOST_TIMES_KEPT` for each partition at most.

    The pair that has been of no use for longest makes room for a new one.
    """

    def __init__(
        self,
        applies: Callable[[Any, Any], Booleans],  # of a fact's offset to an offset asked about
        better: Callable[[Any, Any], Booleans],  # one time than another
        nothing: float,
    ) -> None:
        self._applies = applies
        self._better = better
        self._nothing = nothing
        self._offsets: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._times: Times = np.empty((0, MOST_TIMES_KEPT))
        self._used: Integers = np.empty((0, MOST_TIMES_KEPT), np.int64)
        self._now = 0  # a count of questions, as a clock

    def rearrange(self, rows: Integers, largest: Integers) -> None:
        """The partitions from now on: where each one was before, -1 for a new one; and the largest
        offset that a fact about it may have, else the leader has lost the records it was about."""
        self._offsets = _rows_taken(self._offsets, rows, 0)
        self._times = _rows_taken(self._times, rows, self._nothing)
        self._used = _rows_taken(self._used, rows, 0)
        self._times[self._offsets > largest[:, np.newaxis]] = self._nothing

    def put(self, partition: int, offset: int, time: float) -> None:
        same = np.flatnonzero(self._times[partition] == time)
        column = int(same[0] if len(same) else self._used[partition].argmin())
        self._offsets[partition, column] = offset
        self._times[partition, column] = time
        self._used[partition, column] = self._now

    def best(self, partitions: Integers, offsets: Integers, smallest: Integers | int = 0) -> Times:
        """The best time of the facts that apply to each of these offsets, and whose own offset is
        not smaller than that."""
        self._now += 1
        best = np.full(len(partitions), self._nothing)
        columns = np.zeros(len(partitions), np.int64)
        for column in range(MOST_TIMES_KEPT):
            times = self._times[partitions, column]
            found = self._offsets[partitions, column]
            taken = self._applies(found, offsets) & (found >= smallest)
            taken &= self._better(times, best)
            best[taken], columns[taken] = times[taken], column
        known = best != self._nothing
        self._used[partitions[known], columns[known]] = self._now
        return best


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
        self._not_before = TimeFacts(np.less_equal, np.greater, -np.inf)
        self._before = TimeFacts(np.greater, np.less, np.inf)

    def rearrange(self, partitions: Sequence[Hashable], ends: Integers) -> None:
        """What it is about from now on, in this order, and the ends (high watermarks); what is
        known of others is forgotten."""
        rows = np.fromiter((self._numbers.get(each, -1) for each in partitions), np.int64)
        self._not_before.rearrange(rows, ends - 1)
        self._before.rearrange(rows, ends)
        self._numbers = {each: number for number, each in enumerate(partitions)}

    def learn(self, partition: int, time_ms: int, found: int | None, end: int) -> None:
        """An answer: the first offset whose record is at or after the time; None where no record
        below the ``end``, read before, is."""
        if found is not None:
            self._not_before.put(partition, found, time_ms)
        self._before.put(partition, end if found is None else found, time_ms)

    def last_stamps(
        self, partitions: Integers, offsets: Integers, log_starts: Integers
    ) -> LastStamps:
        """The last stamp of each offset. The offsets' partitions begin at the log starts now."""
        return LastStamps(
            not_before=self._not_before.best(partitions, offsets, log_starts),
            before=self._before.best(partitions, offsets),
            presumed=self._not_before.best(partitions, offsets),
        )
