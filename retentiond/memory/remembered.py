"""What earlier cycles saw of the groups, so that one that vanishes does not free its records.

Offsets expire, permissions change, coordinators move, and consumers crash before their first
commit: a group that is no longer listed looks just like one that never existed. Only a memory
tells them apart. So every group that was once seen to read a topic is remembered, whatever its
trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.config import NoPolicy, TopicPolicy
from retentiond.memory.by_partition import NONE, ByPartition
from retentiond.memory.known_readers import KnownReaders
from retentiond.model import GroupKind
from retentiond.snapshot import NOWHERE, Integers, Snapshot, topics_of


class ReaderName(NamedTuple):
    """A reader's name. A group of Kafka and an external reader of the same name are two readers."""

    group_id: str
    is_external: bool = False


class GroupOnTopic(NamedTuple):
    group_id: str
    topic: str
    is_external: bool = False

    @property
    def reader(self) -> ReaderName:
        return ReaderName(self.group_id, self.is_external)


@dataclass(frozen=True, slots=True)
class RememberedReader:
    """A reader of one topic, with its last known committed offsets by partition. A reader that was
    only seen as a member has none, nor has one whose commits were on an earlier topic of that name.

    - ``absent_since_ms``: when a complete listing first had no trace of the reader on the topic;
      None while it has one. A reader without commits is absent only if its group isn't listed.
    - ``absent_ms``: how much of its absence was observed, cycle by cycle, in monotonic time.
    - ``moved_at_ms``: by partition, when the commit was first seen at its present offset.
    - ``seen_at_ms``: when the reader was first seen to read the topic.
    - ``stale``: the partitions whose commit may be older than the log, until it moves
      (`Snapshot.stale`).
    """

    kind: GroupKind
    offsets: ByPartition
    absent_since_ms: int | None = None
    moved_at_ms: ByPartition = field(default_factory=lambda: NONE)
    absent_ms: int = 0
    seen_at_ms: int | None = None
    stale: frozenset[int] = frozenset()

    def without_commits(self) -> RememberedReader:
        """The reader without commits: it stays known although the topic that it read is gone."""
        return replace(self, offsets=NONE, moved_at_ms=NONE, stale=frozenset())

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to add as long as the reader's commits don't move."""
        is_dated = self.moved_at_ms.covers(self.offsets)
        return self.absent_since_ms is None and is_dated and not self.stale

    def stale_offsets(self) -> dict[int, int]:
        return {at: self.offsets[at] for at in sorted(self.stale) if at in self.offsets}


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
    commits: Mapping[GroupOnTopic, RememberedReader] = field(default_factory=dict)
    lost: str | None = None
    cluster_id: str | None = None
    gone_ms: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def readers(self) -> KnownReaders:
        return KnownReaders(self.commits)

    def topic_names(self) -> frozenset[str]:
        """The names of all topics about which anything is remembered."""
        return frozenset({*self.topics, *self.gone_ms, *(at.topic for at in self.commits)})


NOTHING = Remembered()


class ByTopic:
    """The memory, indexed by topic, because a slice needs only a few topics."""

    def __init__(self, remembered: Remembered) -> None:
        self._remembered = remembered
        self._topics: defaultdict[str, dict[GroupOnTopic, RememberedReader]] = defaultdict(dict)
        for at, last in remembered.commits.items():
            self._topics[at.topic][at] = last

    def about(self, topics: Iterable[str]) -> Remembered:
        """The memory with the readers of these topics alone."""
        commits: dict[GroupOnTopic, RememberedReader] = {}
        for topic in topics:
            commits |= self._topics.get(topic, {})
        return replace(self._remembered, commits=commits)


def is_forgotten(policy: TopicPolicy | NoPolicy, last: RememberedReader) -> bool:
    """Whether the group was observed to be absent for as long as ``forget_vanished_after``."""
    if isinstance(policy, NoPolicy) or policy.forget_vanished_after_ms is None:
        return False
    is_absent = last.absent_since_ms is not None
    return is_absent and last.absent_ms >= policy.forget_vanished_after_ms


def known_topics(
    snapshot: Snapshot, before: Remembered, settle_cycles: int
) -> dict[str, KnownTopic]:
    """The topics that have an id, as they are to be remembered after this reading.

    `KnownTopic.agreed` counts up to ``settle_cycles``: a topic that has settled stays settled until
    it is recreated.
    """
    readers: Mapping[int, set[str]] | None = None
    is_complete = snapshot.complete
    known = {}
    for position, topic in enumerate(snapshot.topics):
        if topic.topic_id is None:
            continue
        last = before.topics.get(topic.name)
        if topic.recreated and not _has_seen_all_commits(snapshot, position):
            continue  # it counts as recreated until all commits that may be stale are known
        if last is None or last.topic_id != topic.topic_id:
            last = KnownTopic(topic.topic_id)
        known[topic.name] = last
        if is_complete and last.agreed < settle_cycles:
            readers = readers_by_topic(snapshot) if readers is None else readers
            now = tuple(sorted(readers.get(position, ())))
            agreed = last.agreed + 1 if now == last.groups else 1
            known[topic.name] = replace(last, groups=now, agreed=agreed)
    return known


def _has_seen_all_commits(snapshot: Snapshot, topic: int) -> bool:
    """Whether this reading has every commit on the topic, of all groups that count."""
    reading = snapshot.topics[topic]
    if snapshot.problems or snapshot.hides_groups_of(reading) or reading.failure is not None:
        return False
    partitions = [at for at, each in enumerate(snapshot.partitions) if each.topic == topic]
    commits = snapshot.commits.filter(pc.is_null(snapshot.commits["offset"]))
    here = commits.filter(pc.is_in(commits["partition_id"], pa.array(partitions, pa.int32())))
    unreadable = {*here["group_id"].to_pylist()}
    unreadable |= {at for at, group in enumerate(snapshot.groups) if group.failure is not None}
    return all(reading.policy.excludes(snapshot.groups[at].name) for at in unreadable)


def readers_by_topic(snapshot: Snapshot) -> defaultdict[int, set[str]]:
    """The groups that have committed on a topic, now or before, or may read it; by the topic's
    position."""
    pairs: set[tuple[int, int]] = {*snapshot.readers, *snapshot.remembered_readers}
    pairs |= traces(snapshot, snapshot.commits) | traces(snapshot, snapshot.remembered)
    readers: defaultdict[int, set[str]] = defaultdict(set)
    for group, topic in pairs:
        readers[topic].add(snapshot.groups[group].group_id)
    return readers


def traces(snapshot: Snapshot, commits: pa.Table) -> set[tuple[int, int]]:
    """Which group has a commit on which topic: pairs of their positions."""
    pairs = unique_runs(group_and_topic(snapshot, commits)).tolist()
    return {divmod(pair, len(snapshot.topics)) for pair in pairs}


def unique_runs(numbers: Integers) -> Integers:
    """The distinct numbers, ascending. It is fast because equal numbers mostly stand together."""
    is_another = np.diff(numbers, prepend=NOWHERE - 1) != 0
    return np.unique(numbers[is_another])


def group_and_topic(snapshot: Snapshot, commits: pa.Table) -> npt.NDArray[np.int64]:
    """For each row, the positions of its group and topic as one number: group * topics + topic."""
    groups: npt.NDArray[np.int64] = commits["group_id"].to_numpy().astype(np.int64)
    partitions: npt.NDArray[np.int32] = commits["partition_id"].to_numpy()
    return groups * len(snapshot.topics) + topics_of(snapshot)[partitions]
