"""One cycle's evidence, frozen: what was read, and what could not be read.

Names live in the three dimension tuples (`topics`, `partitions`, `groups`); facts refer to
them by position, because Spark is several times faster on integers than on names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.kafka.port import TopicConfig
from retentiond.model import Failure, GroupKind, TopicPartition

COMMIT_SCHEMA = pa.schema(
    [
        pa.field("group_id", pa.int32(), nullable=False),  # position in Snapshot.groups
        pa.field("partition_id", pa.int32(), nullable=False),  # position in Snapshot.partitions
        pa.field("offset", pa.int64()),  # null: there is a commit, but it could not be read
    ]
)
"""A committed offset (grain: group and partition). Only partitions of the snapshot's topics."""


VANISHED = "Vanished"
"""The state of a group that is remembered and not listed."""

ABSENT = "Absent"
"""The state of a group that only a policy names."""


@dataclass(frozen=True, slots=True)
class TopicReading:
    """One enabled topic. ``failure`` is set when its id, its configs or its metadata are unread."""

    name: str
    policy: TopicPolicy | PolicyConflict
    topic_id: str | None
    is_internal: bool
    cleanup_policy: frozenset[str]  # of "delete", "compact"
    forced_retention_ms: int | None  # retention.ms; None is unlimited
    recreated: bool = False  # its id differs from the one remembered
    failure: Failure | None = None
    config: TopicConfig | None = None  # None where it is unread


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """One partition's offsets; None where one is unread, and then ``failure`` says why."""

    topic: int  # position in Snapshot.topics
    partition: int
    log_start_offset: int | None
    high_watermark: int | None
    last_stable_offset: int | None
    retention_offset: int | None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class GroupReading:
    """One group, or one external reader.

    ``failure`` is set when its kind or its offsets could not be read as a whole: it may read any
    topic. ``trouble`` says why its commits are null where they are.
    """

    group_id: str
    kind: GroupKind
    state: str  # as the coordinator says it ("Stable", ...); else `VANISHED` or `ABSENT`
    failure: Failure | None = None
    trouble: Failure | None = None

    @property
    def is_live(self) -> bool:
        return self.state not in ("Empty", "Dead", VANISHED, ABSENT)


class GroupTopic(NamedTuple):
    """A group that may read a topic, by position in Snapshot.groups and Snapshot.topics."""

    group: int
    topic: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that one cycle knows.

    - ``topics``: the enabled topics, sorted by name.
    - ``partitions``: all partitions of those topics, sorted by topic and partition.
    - ``groups``: every group of the cluster and every group that a policy requires or that is
      remembered, sorted by name, so that "the smallest id" is "the first by name".
    - ``commits``: `COMMIT_SCHEMA`, one row for each group and partition at most.
    - ``remembered``: `COMMIT_SCHEMA`, the last commits seen in earlier cycles.
    - ``readers``: live members subscribed or assigned to a topic, and groups with commits on
      partitions of a topic that its metadata doesn't show.
    - ``problems``: why the listing of groups is not complete, a sentence each.
    - ``hidden``: why Kafka may hide groups from this principal, a sentence each; it holds the
      topics whose policy doesn't say ``groups_visible: assumed``.
    """

    cluster_id: str
    taken_at_ms: int
    topics: tuple[TopicReading, ...]
    partitions: tuple[PartitionReading, ...]
    groups: tuple[GroupReading, ...]
    commits: pa.Table
    remembered: pa.Table
    readers: frozenset[GroupTopic]
    problems: tuple[str, ...]
    hidden: tuple[str, ...] = ()

    def hides_groups_of(self, topic: TopicReading) -> bool:
        """Whether a group that may read the topic could be hidden, and that matters to it."""
        assumed = isinstance(topic.policy, TopicPolicy) and topic.policy.assumes_visible_groups
        return bool(self.hidden) and not assumed

    @property
    def complete(self) -> bool:
        """Whether every group that could bear on a decision has been seen."""
        return not self.problems and not any(map(self.hides_groups_of, self.topics))


def partitions_of(snapshot: Snapshot) -> list[TopicPartition]:
    """The names of its partitions, in their order."""
    return [
        TopicPartition(snapshot.topics[each.topic].name, each.partition)
        for each in snapshot.partitions
    ]
