"""One cycle's evidence, frozen: what was read, and what could not be read.

Names live in the three dimension tuples (`topics`, `partitions`, `groups`); facts refer to
them by position, because Spark is several times faster on integers than on names.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from retentiond.config import NoPolicy, TopicPolicy
from retentiond.kafka.interface import EpochEnd, TopicConfig
from retentiond.model import Failure, GroupKind, TopicPartition

Integers = npt.NDArray[np.int64]

Flags = npt.NDArray[np.bool_]

COMMIT_SCHEMA = pa.schema(
    [
        pa.field("group_id", pa.int32(), nullable=False),  # position in Snapshot.groups
        pa.field("partition_id", pa.int32(), nullable=False),  # position in Snapshot.partitions
        pa.field("is_committed", pa.bool_(), nullable=False),  # this reading shows a commit
        pa.field("offset", pa.int64()),  # null: there is no commit, or it could not be read
        pa.field("leader_epoch", pa.int32()),  # see `Commit`; null: not told
        pa.field("is_replaced", pa.bool_(), nullable=False),
        pa.field("is_stale", pa.bool_(), nullable=False),
        pa.field("remembered_offset", pa.int64()),  # where earlier cycles saw it last
        pa.field("moved_at_ms", pa.int64()),  # when it was first seen there; null: not known
    ]
)
"""A committed offset, now and in the memory of earlier cycles (grain: group and partition). Only
partitions of the snapshot's topics. What is absent is null.

- ``is_replaced``: the leader doesn't prove that the log still has the records that were read: see
  `retentiond.gather.offsets.with_epochs`.
- ``is_stale``: the commit may be older than the log that is there, so that it proves nothing about
  its records: see `retentiond.memory.recall.are_stale`.
"""


VANISHED = "Vanished"  # the state of a group that is remembered and not listed
ABSENT = "Absent"  # the state of a group that only a policy names


class GroupCondition(StrEnum):
    """How a group is, in a word: the same in reports, metrics and the history."""

    LIVE = "live"
    EMPTY = "empty"
    VANISHED = "vanished"
    UNREADABLE = "unreadable"


EXTERNAL_READER = "EXTERNAL_READER"  # the code of a `Failure` to read a reader's position

SHARED_NAME = "SHARED_NAME"
"""Likewise, where another reader has its name: what was seen under the name may all be that one's.
"""


@dataclass(frozen=True, slots=True)
class TopicReading:
    """One enabled topic. ``failure``: why its id, its configs or its metadata can't be read."""

    name: str
    policy: TopicPolicy | NoPolicy
    topic_id: str | None
    is_internal: bool
    cleanup_policy: frozenset[str]  # of "delete", "compact"
    forced_retention_ms: int | None  # retention.ms; None is unlimited
    recreated: bool = False  # its id differs from the one remembered
    failure: Failure | None = None
    config: TopicConfig | None = None  # None where it is unreadable


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """One partition's offsets; None where one is unreadable, and then ``failure`` says why.

    ``local_start_offset`` is information: where the disks' part of a tiered topic's log begins;
    None elsewhere, and where it is unreadable. ``pressure_retention_ms``: the policy's, where
    ``retention_offset`` is by that one and not by the consumed retention.
    """

    topic: int  # position in Snapshot.topics
    partition: int
    log_start_offset: int | None
    high_watermark: int | None
    last_stable_offset: int | None
    retention_offset: int | None
    failure: Failure | None = None
    local_start_offset: int | None = None
    pressure_retention_ms: int | None = None

    def retention_ms(self, policy: TopicPolicy) -> int:
        pressure_ms = self.pressure_retention_ms
        return policy.consumed_retention_ms if pressure_ms is None else pressure_ms


@dataclass(frozen=True, slots=True)
class GroupReading:
    """One group, or one external reader. A group and an external reader of one name are two.

    ``failure`` is set when its kind or its offsets could not be read as a whole: it may read any
    topic. ``problem`` says why its commits are null where they are.
    """

    group_id: str
    kind: GroupKind
    state: str  # as the coordinator says it ("Stable", ...); else `VANISHED` or `ABSENT`
    failure: Failure | None = None
    problem: Failure | None = None
    is_streams_classic: bool = False  # a classic group of Kafka Streams: its changelogs are unknown
    is_connect: bool = False  # workers of Kafka Connect: what source connectors read is unknown
    namesake_of: str | None = None  # its name, where another reader has that as its id

    @property
    def name(self) -> str:
        """As a policy names it, and as it is remembered."""
        return self.group_id if self.namesake_of is None else self.namesake_of

    @property
    def is_external(self) -> bool:
        return self.kind is GroupKind.EXTERNAL

    def is_excluded_by(self, policy: TopicPolicy | NoPolicy) -> bool:
        return policy.excludes(self.name, is_external=self.is_external)

    @property
    def reader_kind(self) -> GroupKind:
        """What to call it: external where it is the position of an external reader that can't be
        read, though a group of the cluster may have its name."""
        failure = self.failure or self.problem
        is_external = failure is not None and failure.code == EXTERNAL_READER
        return GroupKind.EXTERNAL if is_external else self.kind

    @property
    def condition(self) -> GroupCondition:
        if self.failure or self.problem:
            return GroupCondition.UNREADABLE
        if self.state == VANISHED:
            return GroupCondition.VANISHED
        return GroupCondition.LIVE if self.is_live else GroupCondition.EMPTY

    @property
    def is_listed(self) -> bool:
        """Whether the reading shows it; the others are only remembered, or named by a policy."""
        return self.state not in (VANISHED, ABSENT)

    @property
    def is_live(self) -> bool:
        return self.is_listed and self.state not in ("Empty", "Dead")


def namesake_id(name: str, *, is_external: bool, taken: Container[str] = ()) -> str:
    """The id of a reader whose own name is the id of a reader of the other kind. ``taken``: ids and
    names of other readers."""
    group_id = f"{name} ({'external' if is_external else 'group'})"
    while group_id in taken:
        group_id += "*"
    return group_id


class GroupTopic(NamedTuple):
    """A group that may read a topic, by position in Snapshot.groups and Snapshot.topics."""

    group: int
    topic: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that one cycle knows.

    - ``topics``: the enabled topics, sorted by name; ``partitions``: all of theirs, in that order.
    - ``groups``: every group of the cluster and every group that a policy requires or that is
      remembered, sorted by name, so that "the smallest id" is "the first by name".
    - ``commits``: `COMMIT_SCHEMA`, one row for each group and partition at most. What earlier
      cycles saw of them is put in by `retentiond.memory.recall`.
    - ``readers``: live members subscribed or assigned to a topic, and groups with commits on
      partitions of a topic that its metadata doesn't show.
    - ``problems``: why the listing of groups is not complete, a sentence each.
    - ``hidden``: why Kafka may hide groups from this principal, a sentence each; it holds the
      topics whose policy doesn't say ``groups_visible: assumed``.
    - ``gone_topics``: those of which something is remembered, and which are not there any more.
    - ``visible_topics``: the names of all topics of the cluster, by a first reading.
    - ``epoch_ends``: what the leaders say of the earlier epochs in which groups have committed, by
      the partition's position and the epoch; only of commits that a deletion could go up to.
    - ``unnamed_readers``: external readers of topics whose policy doesn't name them, a sentence
      each.
    - ``negative_commits``: by group and partition, the negative offsets that groups have
      committed: null in ``commits``.
    - ``changelogs``: streams groups and the topics that they restore their state from.
    - ``other_topics``: by group, the names of topics that the policy enables and that are not among
      ``topics``: those that it wants to read and that are not there yet; and, by the guard's
      reading, all others of the plan's that it reads or was found to have commits on.
    - ``commit_counts``: by group, how many commits it was found to have, on whatever topics.
    - ``knows_external``: whether every policy file could be read: one that can't may name any
      external reader, on any topic.
    - ``clock_skew_ms``: the host's clock less the cluster's; None if it does not tell its own.

    What earlier cycles saw, put in by `retentiond.memory.recall`:

    - ``absent_since_ms``: since when remembered groups are missing.
    - ``remembered_readers``: groups that they saw to read a topic, without a commit on any
      partition that it has.
    """

    cluster_id: str
    taken_at_ms: int
    topics: tuple[TopicReading, ...]
    partitions: tuple[PartitionReading, ...]
    groups: tuple[GroupReading, ...]
    commits: pa.Table
    readers: frozenset[GroupTopic]
    problems: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    gone_topics: frozenset[str] = frozenset()
    visible_topics: frozenset[str] = frozenset()
    epoch_ends: Mapping[tuple[int, int], EpochEnd] = field(default_factory=dict)
    unnamed_readers: tuple[str, ...] = ()
    negative_commits: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    changelogs: frozenset[GroupTopic] = frozenset()
    other_topics: Mapping[str, frozenset[str]] = field(default_factory=dict)
    commit_counts: Mapping[str, int] = field(default_factory=dict)
    clock_skew_ms: int | None = None
    knows_external: bool = True
    absent_since_ms: Mapping[GroupTopic, int] = field(default_factory=dict)
    remembered_readers: frozenset[GroupTopic] = frozenset()

    def hides_groups_of(self, topic: TopicReading) -> bool:
        """Whether a group that may read the topic could be hidden, and that matters to it."""
        assumed = isinstance(topic.policy, TopicPolicy) and topic.policy.assumes_visible_groups
        return bool(self.hidden) and not assumed

    @property
    def complete(self) -> bool:
        """Whether every group that could bear on a decision has been seen."""
        return not self.problems and not any(map(self.hides_groups_of, self.topics))


NOWHERE = -1
"""No position, and no offset."""

DENSE = 8
"""Keys are looked up in a table if it has at most this many places for each of them. Sorting takes
twice as long."""


def rows_among(wanted: Integers, keys: Integers) -> Integers:
    """For each of the ``wanted`` keys, the first row that has it; `NOWHERE` if none has. No key is
    negative, but for `NOWHERE`, which is looked up in vain."""
    most = 1 + max(int(numbers.max(initial=0)) for numbers in (wanted, keys))
    if most <= DENSE * len(keys):
        row_at = np.full(most + 1, NOWHERE)
        row_at[keys[::-1]] = np.arange(len(keys))[::-1]  # so that the first one is written last
        row_at[NOWHERE] = NOWHERE
        return row_at[wanted]
    order = np.argsort(keys, kind="stable")  # mostly they are sorted: that is one pass then
    at = np.searchsorted(keys[order], wanted)
    is_found = (np.append(keys[order], NOWHERE)[at] == wanted) & (wanted != NOWHERE)
    return np.where(is_found, np.append(order, NOWHERE)[at], NOWHERE)


def values_at(values: Any, rows: Integers, otherwise: Any) -> Any:
    """The values in those rows of a column; ``otherwise`` where a row is `NOWHERE`."""
    if not len(values):
        return np.full(len(rows), otherwise, values.dtype)
    taken = values[rows]
    taken[rows == NOWHERE] = otherwise
    return taken


def known_or(otherwise: int, values: Iterable[int | None]) -> Integers:
    """The values; ``otherwise`` where one is None."""
    return np.array([otherwise if value is None else value for value in values], np.int64)


def keys_of_commits(commits: pa.Table, partitions: int) -> Integers:
    """The group and partition of each commit as one number. ``partitions``: how many there are."""
    keys: Integers = commits["group_id"].to_numpy().astype(np.int64) * partitions
    keys += commits["partition_id"].to_numpy()
    return keys


def pairs_of(snapshot: Snapshot, commits: pa.Table) -> Integers:
    """The group and topic of each commit as one number: the group's position times the number of
    topics, plus the topic's position."""
    pairs: Integers = commits["group_id"].to_numpy().astype(np.int64) * len(snapshot.topics)
    pairs += topics_of(snapshot)[commits["partition_id"].to_numpy()]
    return pairs


def numbered(snapshot: Snapshot, pairs: Iterable[GroupTopic]) -> Integers:
    """These pairs, each as one number (`pairs_of`)."""
    count = len(snapshot.topics)
    return np.array([group * count + topic for group, topic in pairs], np.int64)


def commit_table(**columns: pa.Array) -> pa.Table:
    """`COMMIT_SCHEMA` with these columns. In the others, flags are false and values are absent."""
    count = len(columns["group_id"])
    arrays = [
        columns[field.name]
        if field.name in columns
        else pa.nulls(count, field.type)
        if field.nullable
        else pa.array(np.zeros(count, np.bool_))
        for field in COMMIT_SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=COMMIT_SCHEMA)


def current(commits: pa.Table) -> pa.Table:
    """The commits that the reading shows, without those that are only remembered."""
    return where(commits, commits["is_committed"].to_numpy())


def where(table: pa.Table, are_meant: Flags) -> pa.Table:
    """These rows; the table itself if they are all, because millions take long to copy."""
    return table if are_meant.all() else table.filter(pa.array(are_meant))


def with_columns(commits: pa.Table, **columns: pa.Array) -> pa.Table:
    for name, values in columns.items():
        at = commits.schema.get_field_index(name)
        commits = commits.set_column(at, commits.schema.field(name), values)
    return commits


def distinct(numbers: Integers) -> Integers:
    """The distinct numbers, ascending. Equal ones mostly stand together, which makes it many times
    faster than `np.unique`."""
    runs = np.sort(numbers[_is_another(numbers)])
    return runs[_is_another(runs)]


def _is_another(numbers: Integers) -> Flags:
    """Which numbers differ from the one before."""
    is_another = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_another[1:])
    return is_another


def partitions_of(snapshot: Snapshot) -> list[TopicPartition]:
    return [
        TopicPartition(snapshot.topics[partition.topic].name, partition.partition)
        for partition in snapshot.partitions
    ]


def topics_of(snapshot: Snapshot) -> Integers:
    """As positions in the snapshot."""
    return np.array([partition.topic for partition in snapshot.partitions], np.int64)


def positions_of_names(names: Sequence[object], among: Sequence[object]) -> Integers:
    """The position of each name ``among`` others; `NOWHERE` if it is not there."""
    positions = {name: position for position, name in enumerate(among)}
    return np.array([positions.get(name, NOWHERE) for name in names], np.int64)
