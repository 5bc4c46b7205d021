"""What `retentiond simulate` must say, in plain Python, from the words of the documentation.

It works one partition and one entry at a time, and shares nothing with the simulation.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from tests.support.builders.past_clusters import PastCluster, PastEntry

HOLDS = {
    "no_group",
    "too_few_groups",
    "required_group_missing",
    "group_without_commit",
    "group_vanished",
    "group_unreadable",
    "group_list_incomplete",
    "commit_beyond_end",
    "commit_rewound",
    "offset_unreadable",
    "topic_recreated",
    "not_deletable",
}
"""Reasons that would have held the partition under any retention."""

HOLDS_WHOEVER_COUNTS = {
    "group_list_incomplete",
    "offset_unreadable",
    "topic_recreated",
    "not_deletable",
}
"""Those of them that other groups would not have changed."""

SILENT_WHOEVER_COUNTS = {"group_list_incomplete", "offset_unreadable"}
"""Reasons under which the record does not say where the readers stood, whichever groups count."""

SILENT = SILENT_WHOEVER_COUNTS | {"group_unreadable"}
"""The same, if the groups count that counted then."""

GROUPS_LOOKED_AT = (HOLDS - HOLDS_WHOEVER_COUNTS) | {
    "consumed",
    "too_young",
    "not_consumed",
    "open_transaction",
    "evidence_changed",
    "limit_reached",
    "paused",
}
"""Reasons that are only given where no group was hidden that matters to the topic."""

Row = dict[str, Any]


class Loss(NamedTuple):
    """``at``: the entry's place in the list."""

    group: str
    partition: int
    at: int
    committed: int
    start: int
    records: int


@dataclass
class TopicResult:
    """``starts``: the simulated log start by topic id, partition and entry."""

    mean: float | None
    peak: float | None
    simulated_mean: float | None
    simulated_peak: float | None
    records: int
    missed: list[Loss]
    starts: dict[tuple[str, int, int], int | None]


@dataclass
class Others:
    """A policy under which other groups count than in the record: ``counts``, less those that the
    policy of then has excluded where they are of Kafka Streams (``was_counted``), because nobody
    has looked at what they restore; and less the external readers that are ``dropped``. ``own``:
    the external readers that it names; others stand for no name and no number."""

    counts: Callable[[str, bool], bool]
    was_counted: Callable[[str], bool]
    required: Sequence[str] = ()
    waits_longer: bool = False
    dropped: Collection[str] = ()
    own: Collection[str] = ()


@dataclass
class Tried:
    """The policy of one topic. ``counts``: whether it is a loss if the group misses something, or
    the external reader of that name;
    ``others``: None where the same groups count as in the record; ``assumes_visible``: groups that
    are hidden do not matter to the topic."""

    retention_ms: int | None
    min_groups: int = 1
    counts: Callable[[str, bool], bool] = lambda group, is_external: True
    others: Others | None = None
    assumes_visible: bool = False


class Time:
    """``passed[e]``: milliseconds that surely passed until entry ``e``; ``stands[e]``: for how
    long an entry stands, of those within the period."""

    def __init__(self, cluster: PastCluster, since_ms: int, until_ms: int) -> None:
        entries = cluster.entries
        self.passed = [0]
        for before, each in pairwise(entries):
            step = each.observed_ms
            if step is None:
                step = max(0, each.at_ms - before.at_ms)
            self.passed.append(self.passed[-1] + step)
        self.period = [at for at, each in enumerate(entries) if since_ms <= each.at_ms <= until_ms]
        first, last = self.period[0], self.period[-1]
        steps = [self.passed[at + 1] - self.passed[at] for at in range(first, last)]
        known = [step for step in steps if step > 0]
        self.usual = int(median(known)) if known else 0
        self.longest_read = max(each.read_ms for each in entries)
        self.stands = {}
        for at in self.period:
            step = self.usual if at == last else self.passed[at + 1] - self.passed[at]
            self.stands[at] = (step if step <= 3 * self.usual else self.usual) if self.usual else 1

    def last_before(self, at: int, ms: int) -> int:
        """The latest entry whose records are that old, or older; -1 if there is none. An entry's
        records may have been written while it was being read."""
        ms += self.longest_read if ms else 0
        found = [each for each in range(at + 1) if self.passed[at] - self.passed[each] >= ms]
        return found[-1] if found else -1


def simulated(
    cluster: PastCluster,
    tried: dict[str, Tried],
    since_ms: int,
    until_ms: int,
) -> dict[str, TopicResult]:
    time = Time(cluster, since_ms, until_ms)
    found = {}
    for topic in sorted(tried):
        logs = logs_of(cluster, time, topic, tried[topic])
        if any(at in time.period for log in logs for at, _, _ in log.rows):
            found[topic] = _topic(time, logs)
    return found


def logs_of(
    cluster: PastCluster,
    time: Time,
    topic: str,
    tried: Tried,
) -> list[Log]:
    rows = {
        (at, row["topic_id"], row["partition"]): row
        for at, entry in enumerate(cluster.entries)
        for row in of_kind(entry, "partition")
        if row["topic"] == topic
    }
    return [
        Log(cluster, time, topic, tried, topic_id, partition, rows)
        for topic_id, partition in sorted({key[1:] for key in rows})
    ]


def of_kind(entry: PastEntry, kind: str) -> list[Row]:
    return [row for row in entry.rows if row["kind"] == kind]


def _topic(time: Time, logs: list[Log]) -> TopicResult:
    sizes: dict[int, list[tuple[float | None, float | None]]] = defaultdict(list)
    for log in logs:
        for at, both in log.sizes.items():
            sizes[at].append(both)
    known = {
        at: (sum(real for real, _ in each), sum(other for _, other in each))  # type: ignore[misc] # none is None
        for at, each in sizes.items()
        if not any(None in both for both in each)
    }
    weight = sum(time.stands[at] for at in known)

    def mean(which: int) -> float | None:
        if not weight:
            return None
        return sum(time.stands[at] * each[which] for at, each in known.items()) / weight

    def peak(which: int) -> float | None:
        return max((each[which] for each in known.values()), default=None)

    return TopicResult(
        mean(0),
        peak(0),
        mean(1),
        peak(1),
        sum(log.records for log in logs),
        sorted(loss for log in logs for loss in log.missed()),
        {
            (log.topic_id, log.partition, at): start
            for log in logs
            for at, start in log.starts.items()
        },
    )


@dataclass
class Log:
    """A partition of a topic with one id, played again entry by entry."""

    cluster: PastCluster
    time: Time
    topic: str
    tried: Tried
    topic_id: str
    partition: int
    rows: dict[tuple[int, str, int], Row]
    records: int = 0
    deletions: list[tuple[int, int, int]] = field(default_factory=list)
    """Entry, first record, and the one behind the last."""
    starts: dict[int, int | None] = field(default_factory=dict)
    sizes: dict[int, tuple[float | None, float | None]] = field(default_factory=dict)
    told: list[tuple[int, int, int]] = field(default_factory=list)
    """Entry, place among those that tell of readers, and Kafka's own log start, where the
    simulation has deleted something that Kafka has not."""

    def __post_init__(self) -> None:
        kafkas: int | None = None
        deleted: int | None = None
        ours, unclear, place = -1, -1, 0
        for at in self.time.period:
            entry = self.cluster.entries[at]
            for each in of_kind(entry, "deletion"):
                is_here = (each["topic"], each["partition"]) == (self.topic, self.partition)
                if not is_here or self._id_at(at) != self.topic_id:
                    continue
                if each["outcome"] == "deleted":
                    ours = max(ours, each["cutoff"])
                if each["outcome"] == "unknown":
                    unclear = max(unclear, each["cutoff"])
            row = self.rows.get((at, self.topic_id, self.partition))
            if row is None:
                continue
            recorded = row["log_start_offset"]
            if recorded is not None and (
                kafkas is None or (recorded > max(ours, kafkas) and recorded != unclear)
            ):
                kafkas = recorded
            start = max((each for each in (kafkas, deleted) if each is not None), default=None)
            self.starts[at] = start
            cutoff = self._cutoff(at, row)
            if cutoff is not None and start is not None:
                self.records += max(0, cutoff - start)
                self.deletions.append((at, start, cutoff))
            deleted = max((each for each in (cutoff, deleted) if each is not None), default=None)
            silent = SILENT_WHOEVER_COUNTS if self.tried.others else SILENT
            if self._sees_groups(at, row) and row["reason"] not in silent:
                place += 1
                if start is not None and kafkas is not None and start > kafkas:
                    self.told.append((at, place, kafkas))
        self._weigh()

    def _weigh(self) -> None:
        """What lies on disk shrinks when Kafka frees whole segments, not when a log start moves."""
        rows = {at: self.rows[at, self.topic_id, self.partition] for at in self.starts}
        first_on_disk: dict[int, int | None] = {}
        first, before = None, None
        for at, row in rows.items():
            size = row["size_bytes"]
            if size is not None:
                has_shrunk = before is None or size < before
                if has_shrunk and row["log_start_offset"] is not None:
                    first = row["log_start_offset"]
                before = size
            first_on_disk[at] = first
        logarithms = [
            math.log(row["size_bytes"] / (row["high_watermark"] - first))
            for at, row in rows.items()
            if (first := first_on_disk[at]) is not None
            and row["size_bytes"]
            and row["high_watermark"] is not None
            and row["high_watermark"] > first
        ]
        each = math.exp(sum(logarithms) / len(logarithms)) if logarithms else 0.0
        for at, row in rows.items():
            self.sizes[at] = _bytes(row, self.starts[at], first_on_disk[at], each)

    def _id_at(self, at: int) -> str:
        """The id that the topic had: a deletion is of that."""
        seen = sorted((each, topic_id) for each, topic_id, _ in self.rows)
        return next((topic_id for each, topic_id in reversed(seen) if each <= at), seen[0][1])

    def _cutoff(self, at: int, row: Row) -> int | None:
        """Up to where the policy would have deleted at this entry; None: not at all."""
        retention = self.tried.retention_ms
        holds = HOLDS_WHOEVER_COUNTS if self.tried.others else HOLDS
        if retention is None or not self._sees_groups(at, row) or row["reason"] in holds:
            return None
        forced = row.get("forced_retention_ms")
        if forced is not None and retention > forced:
            return None
        consumed = self._consumed(at, row)
        bounds: Sequence[int | None] = [consumed, row["high_watermark"], row["last_stable_offset"]]
        if None in bounds or row["log_start_offset"] is None:
            return None
        # What the daemon asked the brokers then answers the same question, if it was the same.
        old = row.get("retention_offset")
        if old is None or row.get("consumed_retention_ms") != retention:
            old = self._end_before(at, retention)
        return None if old is None else min(old, *(each for each in bounds if each is not None))

    def _sees_groups(self, at: int, row: Row) -> bool:
        """Whether no group was hidden, or none that matters."""
        looked_at = row["reason"] in GROUPS_LOOKED_AT
        return self.cluster.entries[at].complete or (self.tried.assumes_visible and looked_at)

    def _end_before(self, at: int, ms: int) -> int | None:
        """Records below that are so old, or older."""
        for before in range(self.time.last_before(at, ms), -1, -1):
            old = self.rows.get((before, self.topic_id, self.partition))
            if old is not None and old["high_watermark"] is not None:
                high: int = old["high_watermark"]
                return high
        return None

    def _consumed(self, at: int, row: Row) -> int | None:
        """Up to where all that count have read; None where that holds, or is not known."""
        if self.tried.others is None:
            if not row["groups"] or row["groups"] < self.tried.min_groups:
                return None
            recorded: int | None = row["min_committed_offset"]
            return recorded
        found = consumed_by(self, self.tried.others, at)
        high = row["high_watermark"]
        return None if not found or high is None or max(found) > high else min(found)

    def missed(self) -> list[Loss]:
        below: dict[str, list[tuple[int, Loss]]] = defaultdict(list)
        kinds = kinds_of(self.cluster)
        for at, place, kafkas in self.told:
            start = self.starts[at]
            assert start is not None
            for group, committed in commits_at(
                self.cluster, at, self.topic, self.partition
            ).items():
                records = start - max(committed, kafkas)
                if self.tried.counts(group, "external" in kinds[group]) and records > 0:
                    loss = Loss(group, self.partition, at, committed, start, records)
                    below[group].append((place, loss))
        return [worst for each in below.values() for worst in _worst_of_runs(each)]


def _worst_of_runs(below: list[tuple[int, Loss]]) -> list[Loss]:
    runs: list[list[Loss]] = []
    last = None
    for place, loss in below:
        if place - 1 != last:
            runs.append([])
        runs[-1].append(loss)
        last = place
    return [max(run, key=lambda loss: loss.records)._replace(at=run[0].at) for run in runs]


def _bytes(
    row: Row, start: int | None, first_on_disk: int | None, each: float
) -> tuple[float | None, float | None]:
    """The real ones, and those of a log that starts there; ``each``: of an offset."""
    size, low, high = row["size_bytes"], row["log_start_offset"], row["high_watermark"]
    if size is None or low is None or high is None or start is None:
        return size, None
    if start < low or high <= low:
        again = 0 if first_on_disk is None else max(0, first_on_disk - start)
        return size, size + again * each
    return size, size * max(0, high - start) / (high - low)


def commits_at(cluster: PastCluster, at: int, topic: str, partition: int) -> dict[str, int]:
    """By group: its last recorded commit, if it was not left out of a whole entry since."""
    commits: dict[str, int | None] = {}
    for each in cluster.entries[: at + 1]:
        if each.is_whole:
            commits.clear()
        for row in of_kind(each, "group"):
            if row["state"] is None:
                commits.pop(row["group"], None)
        for row in of_kind(each, "commit"):
            if (row["topic"], row["partition"]) == (topic, partition):
                commits[row["group"]] = row["committed_offset"]
    return {group: offset for group, offset in commits.items() if offset is not None}


def consumed_by(log: Log, others: Others, at: int) -> list[int]:
    """The committed offsets of all groups that count; empty where one is missing or proves nothing,
    or where there are too few, or where the record does not tell."""
    entries = log.cluster.entries
    since = max((each for each in range(at + 1) if entries[each].is_whole), default=None)
    if since is None or any(each.left_out for each in entries[since + 1 : at + 1]):
        return []
    kinds = kinds_of(log.cluster)

    def counts(group: str) -> bool:
        is_dropped = group in others.dropped and kinds[group] == {"external"}
        return others.counts(group, "external" in kinds[group]) and not is_dropped

    def is_foreign(group: str) -> bool:
        return "external" in kinds[group] and group not in others.own

    states = {row["group"]: row for row in rows_until(log.cluster, "group", since, at)}
    is_unreadable = any(
        counts(group) and row["state"] == "unreadable" and not row["complete"]
        for group, row in states.items()
    )
    commits = [row for row in rows_until(log.cluster, "commit", since, at) if is_on(log, row)]
    traced = traces(log, 0 if others.waits_longer else since, at)
    counted = {group for group in traced.union(others.required) if counts(group)}
    own = {group for group in counted if not is_foreign(group)}
    if is_unreadable or len(own) < log.tried.min_groups or not own.issuperset(others.required):
        return []
    if any("streams" in kinds[group] and not others.was_counted(group) for group in counted):
        return []
    here = {row["group"]: row for row in commits if row["partition"] == log.partition}
    if any(group not in here or here[group]["state"] != "read" for group in counted):
        return []
    return [here[group]["committed_offset"] for group in counted]


def kinds_of(cluster: PastCluster) -> dict[str, set[str]]:
    kinds: dict[str, set[str]] = defaultdict(set)
    for row in rows_until(cluster, "group"):
        kinds[row["group"]].add(row["group_kind"])
    return kinds


def traces(log: Log, since: int, at: int) -> set[str]:
    """Who had a commit on the topic, or was known to read it, in one of those entries."""
    return {
        row["group"]
        for kind in ("commit", "reader")
        for row in rows_until(log.cluster, kind, since, at)
        if is_on(log, row) and row["state"]
    }


def is_on(log: Log, row: Row) -> bool:
    topic: str = row["topic"]
    return topic == log.topic


def rows_until(
    cluster: PastCluster, kind: str, since: int = 0, at: int | None = None
) -> Iterator[Row]:
    """Of those entries, both included."""
    for entry in cluster.entries[since : None if at is None else at + 1]:
        yield from of_kind(entry, kind)
