"""Cuts a plan's deletions into slices. A slice is as large as can be read and judged well before
its evidence is too old.

The cost of a slice is estimated in commits: the commits that its reading brings, the commits that
the guard judges, and a fixed cost for each partition. The time for a commit is measured slice by
slice. If a slice takes too long, its deletions are cut into smaller slices. If that happens again,
the slice is given up together with all topics that are not much smaller. So no cycle tries for
ever, and no large topic keeps the small ones waiting.

Each slice also takes some round trips to the brokers, however small it is. Their time is measured
right before its reading, and counts apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from retentiond.act.delete import MAX_EVIDENCE_AGE_S, ROUND_TRIPS
from retentiond.model import PlanRow, Verdict
from retentiond.snapshot import Snapshot, topics_of

LEAST_WORK_S = 0.01  # beside its round trips

MOST_PARTITIONS = 5000
"""In one request. A partition takes the broker 0.05 to 0.25 ms."""

TARGET_AGE_S = MAX_EVIDENCE_AGE_S / 2
"""How old the evidence of a slice is to be at its request, where brokers are near."""

MAX_LATE_READINGS = 2
"""After so many readings in a row that took too long, a slice is given up. A single one may only
mean that the process was suspended."""

INITIAL_S_PER_COMMIT = 2e-6
"""The assumed time for a commit until one is measured. It is long, so that the first slice is in
time."""

JUDGING_COST = 4
"""How much longer it takes to judge a commit twice and to record it than to read it."""

PARTITION_COST = 100
"""The time that a partition takes without its commits, in commits read."""


class Workload(NamedTuple):
    """What some deletions require: the ``partitions`` of their topics, which are read; the commits
    on their own partitions, which are ``judged``."""

    partitions: int = 0
    judged: float = 0.0
    deletions: int = 0

    def plus(self, other: Workload) -> Workload:
        return Workload(
            self.partitions + other.partitions,
            self.judged + other.judged,
            self.deletions + other.deletions,
        )


class Estimate:
    """The cost of slices, in commits read, from the plan's reading."""

    def __init__(self, first: Snapshot) -> None:
        names = [topic.name for topic in first.topics]
        commits_on_topic = np.bincount(
            topics_of(first)[first.commits["partition_id"].to_numpy()], minlength=len(names)
        )
        self._partitions = Counter(names[partition.topic] for partition in first.partitions)
        self._commits = dict(zip(names, commits_on_topic.tolist(), strict=True))
        self._group_commits = np.sort(np.array([*first.commit_counts.values()], np.int64))
        self._cumulated_commits = np.cumsum([0, *self._group_commits.tolist()])

    def workload(self, rows: Iterable[PlanRow]) -> Workload:
        workload = Workload()
        for topic, deletions in Counter(row.topic for row in rows).items():
            workload = workload.plus(self.topic_workload(topic, deletions))
        return workload

    def topic_workload(self, topic: str, deletions: int) -> Workload:
        partitions = self._partitions[topic]
        judged = self._commits.get(topic, 0) * deletions / max(1, partitions)
        return Workload(partitions, judged, deletions)

    def cost(self, workload: Workload) -> float:
        """The cost in commits read. Of each group, a reading brings all commits, or one for each of
        the partitions if that is less."""
        small_groups = int(np.searchsorted(self._group_commits, workload.partitions))
        large_groups = len(self._group_commits) - small_groups
        read = int(self._cumulated_commits[small_groups]) + workload.partitions * large_groups
        return read + JUDGING_COST * workload.judged + PARTITION_COST * workload.deletions


class Slices:
    """The deletions among ``rows`` that have yet to be carried out. They keep their order, except
    that a topic's deletions come together, because the reading of a slice covers whole topics."""

    def __init__(self, rows: Iterable[PlanRow], estimate: Estimate) -> None:
        self._topics: dict[str, list[PlanRow]] = {}
        self._add(row for row in rows if row.verdict is Verdict.DELETE)
        self._estimate = estimate
        self._s_per_commit = INITIAL_S_PER_COMMIT
        self.round_trip_s = 0.0  # to the slowest broker, as last measured
        self._late_readings = 0  # in a row

    def __bool__(self) -> bool:
        return bool(self._topics)

    def take(self) -> tuple[PlanRow, ...]:
        taken: list[PlanRow] = []
        workload = Workload()
        for topic, rows in list(self._topics.items()):
            number = self._fitting(topic, min(len(rows), MOST_PARTITIONS - len(taken)), workload)
            taken += rows[:number]
            workload = workload.plus(self._estimate.topic_workload(topic, number))
            if number < len(rows):
                self._topics[topic] = rows[number:]
                break
            del self._topics[topic]
        return tuple(taken)

    def rest(self) -> tuple[PlanRow, ...]:
        left = tuple(row for rows in self._topics.values() for row in rows)
        self._topics.clear()
        return left

    def learn(self, rows: Iterable[PlanRow], took_s: float) -> None:
        """``took_s``: from the beginning of its reading to its request."""
        work_s = max(LEAST_WORK_S, took_s - self._travel_s)
        s_per_commit = work_s / self._estimate.cost(self._estimate.workload(rows))
        self._s_per_commit = max(s_per_commit, (self._s_per_commit + s_per_commit) / 2)
        self._late_readings = self._late_readings + 1 if took_s > MAX_EVIDENCE_AGE_S else 0

    def put_back(self, rows: Iterable[PlanRow]) -> bool:
        """To be cut into smaller ones that come next. Returns False if the slice is to be given
        up."""
        if self._late_readings >= MAX_LATE_READINGS:
            return False
        self._add((*rows, *self.rest()))
        return True

    def give_up(self, rows: Iterable[PlanRow]) -> tuple[PlanRow, ...]:
        """Takes the remaining deletions that can't be read in time either, given that ``rows``
        could not: those on topics that cost at least half as much."""
        self._late_readings = 0
        too_much = self._estimate.cost(self._estimate.workload(rows)) / 2
        large_topics = [
            topic
            for topic in self._topics
            if self._estimate.cost(self._estimate.topic_workload(topic, 1)) >= too_much
        ]
        return tuple(row for topic in large_topics for row in self._topics.pop(topic))

    @property
    def _travel_s(self) -> float:
        return ROUND_TRIPS * self.round_trip_s

    def _add(self, rows: Iterable[PlanRow]) -> None:
        for row in rows:
            self._topics.setdefault(row.topic, []).append(row)

    def _fitting(self, topic: str, most: int, taken: Workload) -> int:
        """How many of the topic's deletions fit into the slice besides the ``taken`` ones. The
        first topic is split only because of its deletions: every part reads the whole topic."""
        estimate = self._estimate
        work_s = max(0.0, TARGET_AGE_S - self._travel_s / 2)
        limit = work_s / self._s_per_commit
        least = 0
        if not taken.deletions:
            least = 1
            limit = max(limit, 1.5 * estimate.cost(estimate.topic_workload(topic, 0)))
        reading_cost = estimate.cost(taken.plus(estimate.topic_workload(topic, 0)))
        with_one = estimate.cost(taken.plus(estimate.topic_workload(topic, 1)))
        cost_per_deletion = with_one - reading_cost
        return max(least, min(most, int((limit - reading_cost) / cost_per_deletion)))
