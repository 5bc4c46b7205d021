"""What earlier cycles saw of topics and groups, so that a group that vanishes does not free its
records.

Offsets expire, permissions change, coordinators move, and consumers crash before their first
commit: a group that is no longer listed looks just like one that never existed. Only a memory
tells them apart. So every group that was once seen to read a topic is remembered, whatever its
trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.config import TopicPolicy
from retentiond.memory.readers import NOBODY, GroupOnTopic, Readers, RememberedReader
from retentiond.snapshot import (
    NOWHERE,
    Flags,
    GroupTopic,
    Integers,
    Snapshot,
    TopicReading,
    distinct,
    known_or,
    numbered,
    pairs_of,
    values_at,
)


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """``agreed``: how many complete readings in a row had these ``groups``, sorted by name."""

    topic_id: str
    groups: tuple[str, ...] = ()
    agreed: int = 0


@dataclass(frozen=True)  # without slots, because of the cached property
class Remembered:
    """The memory of earlier cycles.

    - ``topics``: by name.
    - ``lost``: a sentence that says why groups may be missing here.
    - ``cluster_id``: the cluster of these topics and groups; None if nothing was seen yet.
    - ``gone_ms``: topics that no longer exist, and for how long that was observed.
    """

    topics: Mapping[str, KnownTopic] = field(default_factory=dict)
    readers: Readers = field(default_factory=lambda: NOBODY)
    lost: str | None = None
    cluster_id: str | None = None
    gone_ms: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def commits(self) -> Mapping[GroupOnTopic, RememberedReader]:
        """For those who show them."""
        return self.readers.by_name()

    def about(self, topics: Iterable[str]) -> Remembered:
        return replace(self, readers=self.readers.about(topics))

    def topic_names(self) -> frozenset[str]:
        return frozenset({*self.topics, *self.gone_ms, *self.readers.topics})


NOTHING = Remembered()

FOR_EVER_MS = np.iinfo(np.int64).max


class Rows(NamedTuple):
    """Where the rows of `Readers` stand in a reading: the positions of their groups and topics, and
    both as one number (`pairs_of`); `NOWHERE` where one is not there."""

    groups: Integers
    topics: Integers
    pairs: Integers

    @classmethod
    def of(cls, readers: Readers, snapshot: Snapshot) -> Rows:
        groups = readers.readers_in([(group.name, group.is_external) for group in snapshot.groups])
        topics = readers.topics_in([topic.name for topic in snapshot.topics])
        is_there = (groups != NOWHERE) & (topics != NOWHERE)
        pairs = np.where(is_there, groups * len(snapshot.topics) + topics, NOWHERE)
        return cls(groups, topics, pairs)

    def group_topics(self, rows: Integers) -> list[GroupTopic]:
        """The groups and topics of these rows, which are in the reading."""
        pairs = zip(self.groups[rows].tolist(), self.topics[rows].tolist(), strict=True)
        return [GroupTopic(*row) for row in pairs]

    def of_groups(self, are: Iterable[bool]) -> Flags:
        """For each row, whether its group is; ``are``: of the reading's groups."""
        flags: Flags = values_at(np.array([*are], np.bool_), self.groups, False)
        return flags

    def of_topics(self, are: Iterable[bool]) -> Flags:
        """For each row, whether its topic is; ``are``: of the reading's topics."""
        flags: Flags = values_at(np.array([*are], np.bool_), self.topics, False)
        return flags


def are_forgotten(readers: Readers, topic_of: Integers, topics: Sequence[TopicReading]) -> Flags:
    """Which readers were observed to be absent for as long as ``forget_vanished_after``.
    ``topic_of``: the position of each row's topic in ``topics``, or `NOWHERE`."""
    policies = [topic.policy for topic in topics]
    patience_ms = [
        policy.forget_vanished_after_ms if isinstance(policy, TopicPolicy) else None
        for policy in policies
    ]
    waited_ms = values_at(known_or(FOR_EVER_MS, patience_ms), topic_of, FOR_EVER_MS)
    is_forgotten: Flags = readers.is_absent & (readers.absent_ms >= waited_ms)
    is_forgotten &= waited_ms != FOR_EVER_MS
    return is_forgotten


def known_topics(
    snapshot: Snapshot, before: Remembered, settle_cycles: int
) -> dict[str, KnownTopic]:
    """The topics that have an id, as they are to be remembered after this reading.

    `KnownTopic.agreed` counts up to ``settle_cycles``: a topic that has settled stays settled until
    it is recreated.
    """
    readers: Mapping[int, tuple[str, ...]] | None = None
    is_complete = snapshot.complete
    topics = {}
    for position, topic in enumerate(snapshot.topics):
        if topic.topic_id is None:
            continue
        last = before.topics.get(topic.name)
        if topic.recreated and not _has_seen_all_commits(snapshot, position):
            continue  # it counts as recreated until all commits that may be stale are known
        if last is None or last.topic_id != topic.topic_id:
            last = KnownTopic(topic.topic_id)
        topics[topic.name] = last
        if is_complete and last.agreed < settle_cycles:
            readers = readers_by_topic(snapshot) if readers is None else readers
            now = readers.get(position, ())
            agreed = last.agreed + 1 if now == last.groups else 1
            topics[topic.name] = replace(last, groups=now, agreed=agreed)
    return topics


def _has_seen_all_commits(snapshot: Snapshot, topic: int) -> bool:
    """Whether this reading has every commit on the topic, of all groups that count."""
    reading = snapshot.topics[topic]
    if snapshot.problems or snapshot.hides_groups_of(reading) or reading.failure is not None:
        return False
    partitions = [
        at for at, partition in enumerate(snapshot.partitions) if partition.topic == topic
    ]
    commits = snapshot.commits.filter(
        pc.and_(snapshot.commits["is_committed"], pc.is_null(snapshot.commits["offset"]))
    )
    here = commits.filter(pc.is_in(commits["partition_id"], pa.array(partitions, pa.int32())))
    unreadable = {*here["group_id"].to_pylist()}
    unreadable |= {at for at, group in enumerate(snapshot.groups) if group.failure is not None}
    return all(snapshot.groups[at].is_excluded_by(reading.policy) for at in unreadable)


def readers_by_topic(snapshot: Snapshot) -> dict[int, tuple[str, ...]]:
    """The groups that have committed on a topic, now or before, or may read it, sorted by name; by
    the topic's position."""
    others = numbered(snapshot, [*snapshot.readers, *snapshot.remembered_readers])
    pairs = distinct(np.append(distinct(pairs_of(snapshot, snapshot.commits)), others))
    by_topic: defaultdict[int, list[str]] = defaultdict(list)
    for pair in pairs.tolist():
        group, topic = divmod(pair, len(snapshot.topics))
        by_topic[topic].append(snapshot.groups[group].group_id)
    return {topic: tuple(groups) for topic, groups in by_topic.items()}


def gone_topics(snapshot: Snapshot) -> frozenset[str]:
    """Topics that no longer exist and that no group wants to read."""
    return snapshot.gone_topics.difference(*snapshot.other_topics.values())


def gone_ms(snapshot: Snapshot, before: Remembered, observed_ms: int) -> dict[str, int]:
    """For how long each of `gone_topics` is gone. Only a complete reading proves it."""
    if not snapshot.complete:
        return {}
    return {
        name: before.gone_ms[name] + observed_ms if name in before.gone_ms else 0
        for name in gone_topics(snapshot)
    }
