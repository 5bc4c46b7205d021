"""For how long groups have not committed or have been missing, and partitions have been held.

Alerts need these figures. A Prometheus rule alone can't compute them: a missed scrape would start
the time again, and a topic whose partitions are held in turn would look like one that is stuck.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from retentiond.config import TopicPolicy
from retentiond.memory.readers import Readers
from retentiond.memory.remembered import Rows, are_forgotten
from retentiond.model import Plan, Reason, TopicPartition, Verdict
from retentiond.reasons import CAUSED_BY_A_GROUP
from retentiond.snapshot import NOWHERE, Flags, GroupCondition, Integers, Snapshot
from retentiond.state.state import Held


@dataclass(frozen=True, slots=True)
class Standing:
    """What outlasts a cycle: figures about the enabled topics and their groups.

    - ``forced_retention_ms``: by topic, if it is limited and known.
    - ``last_commit_ms``: by group, when one of its commits was last seen to move.
    - ``vanished_ms``: by missing group, for how long it was observed to be missing. A group that
      exists and has lost its commits on a topic isn't missing.
    - ``is_live``: by group, whether it has members; absent for external readers.
    """

    forced_retention_ms: Mapping[str, int] = field(default_factory=dict)
    last_commit_ms: Mapping[str, int] = field(default_factory=dict)
    vanished_ms: Mapping[str, int] = field(default_factory=dict)
    is_live: Mapping[str, bool] = field(default_factory=dict)


NOTHING_KNOWN = Standing()

MEMBERS_KNOWN = (GroupCondition.LIVE, GroupCondition.EMPTY)


def standing(snapshot: Snapshot, readers: Readers) -> Standing:
    """``readers``: those that are remembered from this reading on."""
    rows = Rows.of(readers, snapshot)
    counts = (rows.topics != NOWHERE) & ~_are_excluded(snapshot, readers, rows)
    counts &= ~are_forgotten(readers, rows.topics, snapshot.topics)
    is_missing = readers.is_absent & ~rows.of_groups(group.is_listed for group in snapshot.groups)
    commits = readers.commits
    is_dated = counts[commits.owners] & (commits.moved_at_ms != NOWHERE)
    last_commit_ms = _latest(readers, commits.owners[is_dated], commits.moved_at_ms[is_dated])
    missing = np.flatnonzero(counts & is_missing)
    return Standing(
        {
            topic.name: topic.forced_retention_ms
            for topic in snapshot.topics
            if topic.forced_retention_ms is not None
        },
        last_commit_ms,
        _latest(readers, missing, readers.absent_ms[missing]),
        {
            group.group_id: group.is_live
            for group in snapshot.groups
            if group.group_id in last_commit_ms
            and group.condition in MEMBERS_KNOWN
            and not group.is_external
        },
    )


def _latest(readers: Readers, rows: Integers, ms: Integers) -> dict[str, int]:
    """The latest of the times, or the longest, by the name of the row's reader."""
    latest = np.full(len(readers.names), NOWHERE)
    np.maximum.at(latest, readers.reader_of[rows], ms)
    latest_of: dict[str, int] = {}
    for name, latest_ms in zip(readers.names, latest.tolist(), strict=True):
        if latest_ms != NOWHERE:
            latest_of[name.group_id] = max(latest_ms, latest_of.get(name.group_id, 0))
    return latest_of


def _are_excluded(snapshot: Snapshot, readers: Readers, rows: Rows) -> Flags:
    """Which readers the policy doesn't wait for. Each policy is asked once about each reader."""
    is_excluded = np.zeros(len(readers), np.bool_)
    topics_of: defaultdict[TopicPolicy, list[int]] = defaultdict(list)
    for topic, reading in enumerate(snapshot.topics):
        if isinstance(reading.policy, TopicPolicy):
            topics_of[reading.policy].append(topic)
    for policy, topics in topics_of.items():
        are = np.array(
            [policy.excludes(name, is_external=external) for name, external in readers.names],
            np.bool_,
        )
        if are.any():
            is_excluded |= np.isin(rows.topics, topics) & are[readers.reader_of]
    return is_excluded


class _Hold(NamedTuple):
    """Since when a partition is held for a reason, in monotonic seconds, and which group is the
    cause now; None if no group is, or none is known yet."""

    since_s: float
    group: str | None


class HeldSince:
    """Since when partitions have been held for the same reason, as far as it was observed."""

    def __init__(self) -> None:
        self._holds: dict[TopicPartition, dict[Reason, _Hold]] = {}

    def restore(self, held: Iterable[Held], now_s: float) -> None:
        """Goes on from what an earlier process has observed."""
        self._holds = {}
        for topic, reason, seconds, partitions in held:
            for partition in partitions:
                reasons = self._holds.setdefault(TopicPartition(topic, partition), {})
                reasons[reason] = _Hold(now_s - seconds, None)

    def held(self, now_s: float) -> tuple[Held, ...]:
        alike: defaultdict[tuple[str, Reason, float], list[int]] = defaultdict(list)
        for (topic, partition), reasons in self._holds.items():
            for reason, hold in reasons.items():
                alike[topic, reason, round(now_s - hold.since_s, 1)].append(partition)
        return tuple(Held(*key, tuple(partitions)) for key, partitions in alike.items())

    def add(self, plan: Plan, now_s: float) -> None:
        """Adds a plan. ``now_s`` is monotonic time.

        A cycle with an incomplete list of groups proves nothing about other reasons, so it ends no
        hold."""
        self._holds = dict(self._after(plan, now_s))

    def longest_by_topic(self, now_s: float) -> Mapping[tuple[str, Reason], float]:
        """By topic and reason, for how many seconds a partition has been held longest."""
        return _longest(
            ((at.topic, reason), now_s - hold.since_s)
            for at, reasons in self._holds.items()
            for reason, hold in reasons.items()
        )

    def longest_by_group(self, now_s: float) -> Mapping[tuple[str, Reason], float]:
        """By group and reason, for how many seconds a partition that the group holds now has been
        held longest."""
        return _longest(
            ((hold.group, reason), now_s - hold.since_s)
            for reasons in self._holds.values()
            for reason, hold in reasons.items()
            if hold.group is not None
        )

    def _after(
        self, plan: Plan, now_s: float
    ) -> Iterable[tuple[TopicPartition, dict[Reason, _Hold]]]:
        for row in plan.rows:
            reason = row.reason
            if row.verdict is not Verdict.HOLD or reason is Reason.LIMIT_REACHED:
                continue
            before = self._holds.get(row.topic_partition, {})
            kept = before if reason is Reason.GROUP_LIST_INCOMPLETE else {}
            since_s = before[reason].since_s if reason in before else now_s
            group = row.binding_group if reason in CAUSED_BY_A_GROUP else None
            yield row.topic_partition, {**kept, reason: _Hold(since_s, group)}


def _longest(
    times: Iterable[tuple[tuple[str, Reason], float]],
) -> Mapping[tuple[str, Reason], float]:
    longest: dict[tuple[str, Reason], float] = {}
    for key, seconds in times:
        longest[key] = max(seconds, longest.get(key, 0.0))
    return longest
