"""How a plan's deletions are cut up: in turn, and each slice as large as can be read and judged
well before its evidence is too old.

What a slice costs is estimated in commits: those that its reading brings, those that the guard
judges, and what each partition takes besides. How long a commit takes is measured slice by slice. A
slice that took too long is cut up anew. One that took too long again is given up, and with it
all that is not much smaller: no cycle goes on trying for ever, and no large topic keeps the small
ones waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from retentiond.act.delete import MAX_EVIDENCE_AGE_S
from retentiond.model import PlanRow, Verdict
from retentiond.snapshot import Snapshot

MOST_PARTITIONS = 5000
"""In one request; each takes the broker 0.05 to 0.25 ms."""

WELL_WITHIN_S = MAX_EVIDENCE_AGE_S / 2

READINGS = 2
"""How often a slice is read before it is given up as too old. It may be that the process only stood
still."""

FIRST_PACE_S = 2e-6
"""How long a commit is believed to take before one was measured: long, so that the first slice is
in time."""

JUDGED = 4
"""How much longer a commit takes to be judged, twice, and recorded, than to be read."""

EACH_PARTITION = 100
"""What a partition takes without its commits, in commits read."""


class Bill(NamedTuple):
    """What some deletions cost: the partitions of their topics, the commits on their own ones, and
    their number."""

    partitions: int = 0
    judged: float = 0.0
    deletions: int = 0

    def and_also(self, other: Bill) -> Bill:
        return Bill(
            self.partitions + other.partitions,
            self.judged + other.judged,
            self.deletions + other.deletions,
        )


class Estimate:
    """What slices cost, by the plan's reading, in commits."""

    def __init__(self, first: Snapshot) -> None:
        names = [topic.name for topic in first.topics]
        topic_of = np.array([each.topic for each in first.partitions], np.int64)
        on_topic = np.bincount(
            topic_of[first.commits["partition_id"].to_numpy()], minlength=len(names)
        )
        self._partitions = Counter(names[each.topic] for each in first.partitions)
        self._judged = dict(zip(names, on_topic.tolist(), strict=True))
        self._counts = np.sort(np.array([*first.commit_counts.values()], np.int64))
        self._sums = np.cumsum([0, *self._counts.tolist()])

    def bill(self, rows: Iterable[PlanRow]) -> Bill:
        bill = Bill()
        for topic, number in Counter(row.topic for row in rows).items():
            bill = bill.and_also(self.of_topic(topic, number))
        return bill

    def of_topic(self, topic: str, deletions: int) -> Bill:
        partitions = self._partitions[topic]
        judged = self._judged.get(topic, 0) * deletions / max(1, partitions)
        return Bill(partitions, judged, deletions)

    def commits(self, bill: Bill) -> float:
        """Of each group either all of them are read, or so many as there are partitions."""
        few = int(np.searchsorted(self._counts, bill.partitions))
        read = int(self._sums[few]) + bill.partitions * (len(self._counts) - few)
        return read + JUDGED * bill.judged + EACH_PARTITION * bill.deletions


class Slices:
    """The deletions among ``rows``, in their order, but all of a topic together: the reading of a
    slice is about whole topics."""

    def __init__(self, rows: Iterable[PlanRow], estimate: Estimate) -> None:
        self._topics: dict[str, list[PlanRow]] = {}
        self._add(row for row in rows if row.verdict is Verdict.DELETE)
        self._estimate = estimate
        self._pace_s = FIRST_PACE_S
        self._too_old = 0  # readings in a row

    def __bool__(self) -> bool:
        return bool(self._topics)

    def take(self) -> tuple[PlanRow, ...]:
        """The next ones, at least one."""
        taken: list[PlanRow] = []
        bill = Bill()
        for topic, rows in list(self._topics.items()):
            number = self._fitting(topic, min(len(rows), MOST_PARTITIONS - len(taken)), bill)
            taken += rows[:number]
            bill = bill.and_also(self._estimate.of_topic(topic, number))
            if number < len(rows):
                self._topics[topic] = rows[number:]
                break
            del self._topics[topic]
        return tuple(taken)

    def rest(self) -> tuple[PlanRow, ...]:
        """All that are left."""
        left = tuple(row for rows in self._topics.values() for row in rows)
        self._topics.clear()
        return left

    def learn(self, rows: Iterable[PlanRow], took_s: float) -> None:
        """How long those took, from the beginning of their reading to their request."""
        pace_s = took_s / self._estimate.commits(self._estimate.bill(rows))
        self._pace_s = max(pace_s, (self._pace_s + pace_s) / 2)
        self._too_old = self._too_old + 1 if took_s > MAX_EVIDENCE_AGE_S else 0

    def put_back(self, rows: Iterable[PlanRow]) -> bool:
        """Whether those, whose evidence is too old, are to be cut up anew; they come next."""
        if self._too_old >= READINGS:
            return False
        left = self.rest()
        self._add((*rows, *left))
        return True

    def give_up(self, rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
        """Those that are left and can't be read in time either, as these could not: the topics that
        take at least half as much."""
        self._too_old = 0
        enough = self._estimate.commits(self._estimate.bill(rows)) / 2
        large = [
            topic
            for topic in self._topics
            if self._estimate.commits(self._estimate.of_topic(topic, 1)) >= enough
        ]
        return tuple(row for topic in large for row in self._topics.pop(topic))

    def _add(self, rows: Iterable[PlanRow]) -> None:
        for row in rows:
            self._topics.setdefault(row.topic, []).append(row)

    def _fitting(self, topic: str, most: int, bill: Bill) -> int:
        """How many of the topic's deletions go with what is taken. The first topic is cut up only
        for what its deletions cost: each part reads the whole of it."""
        limit = WELL_WITHIN_S / self._pace_s
        least = 0
        if not bill.deletions:
            least = 1
            limit = max(limit, 1.5 * self._estimate.commits(self._estimate.of_topic(topic, 0)))
        without = self._estimate.commits(bill.and_also(self._estimate.of_topic(topic, 0)))
        each = self._estimate.commits(bill.and_also(self._estimate.of_topic(topic, 1))) - without
        return max(least, min(most, int((limit - without) / each)))
