"""One reading of the cluster, arranged by topic and partition for the guard.

It shares no code with the plan, and takes from the snapshot only what concerns the topics about
to be deleted from. Groups go by name: two readings number them differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from retentiond.collect.snapshot import (
    ABSENT,
    VANISHED,
    PartitionReading,
    Snapshot,
    TopicReading,
)
from retentiond.model import GroupKind, TopicPartition

Commits = Mapping[str, int | None]
"""A partition's committed offset by group; None: there is one, and it could not be read."""


class Evidence:
    """What a snapshot says about some topics.

    - ``topics``, ``partitions``: those of the topics asked for, as far as the snapshot has them.
    - ``groups``: all groups of the snapshot; ``listed``: the names of those that the cluster
      showed; ``unreadable``: those that failed as a whole.
    - ``is_ambiguous``: a group has two commits on one partition, so one of them is wrong.
    """

    def __init__(self, snapshot: Snapshot, topics: Collection[str]) -> None:
        self.cluster_id = snapshot.cluster_id
        self.problems = snapshot.problems
        self.hidden = snapshot.hidden
        self.groups = {group.group_id: group for group in snapshot.groups}
        self.listed = {
            group.group_id
            for group in snapshot.groups
            if group.state not in (ABSENT, VANISHED) and group.kind is not GroupKind.EXTERNAL
        }
        self.unreadable = [group for group in snapshot.groups if group.failure is not None]
        self.topics: dict[str, TopicReading] = {}
        self.partitions: dict[TopicPartition, PartitionReading] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._of_topic: defaultdict[str, list[int]] = defaultdict(list)
        self._readers: defaultdict[str, set[str]] = defaultdict(set)

        wanted = set(topics)
        for topic in snapshot.topics:
            if topic.name in wanted:
                self.topics[topic.name] = topic
        for position, partition in enumerate(snapshot.partitions):
            name = snapshot.topics[partition.topic].name
            if name in wanted:
                at = TopicPartition(name, partition.partition)
                self.partitions[at] = partition
                self._positions[at] = position
                self._of_topic[name].append(position)
        for reader in snapshot.readers:
            self._readers[snapshot.topics[reader.topic].name].add(
                snapshot.groups[reader.group].group_id
            )

        positions = pa.array(self._positions.values(), pa.int32())
        names = [group.group_id for group in snapshot.groups]
        self._commits, repeated = _by_partition(snapshot.commits, positions, names)
        self._remembered, _ = _by_partition(snapshot.remembered, positions, names)
        self.is_ambiguous = repeated or len(self.groups) != len(snapshot.groups)

    def commits(self, partition: TopicPartition) -> Commits:
        position = self._positions.get(partition)
        return {} if position is None else self._commits.get(position, {})

    def remembered(self, partition: TopicPartition) -> Commits:
        position = self._positions.get(partition)
        return {} if position is None else self._remembered.get(position, {})

    def readers_of(self, topic: str) -> frozenset[str]:
        """Groups that commit, or committed, on any partition of the topic, or read it now."""
        readers = set(self._readers.get(topic, ()))
        for position in self._of_topic.get(topic, ()):
            readers.update(self._commits.get(position, ()))
            readers.update(self._remembered.get(position, ()))
        return frozenset(readers)


def _by_partition(
    table: pa.Table, positions: pa.Array, names: list[str]
) -> tuple[dict[int, dict[str, int | None]], bool]:
    """Commits (`COMMIT_SCHEMA`) of those partitions; and whether one of them was overwritten."""
    table = table.filter(pc.is_in(table["partition_id"], value_set=positions))
    commits: defaultdict[int, dict[str, int | None]] = defaultdict(dict)
    columns = (table[name].to_pylist() for name in ("group_id", "partition_id", "offset"))
    for group, position, offset in zip(*columns, strict=True):
        commits[position][names[group]] = offset
    return dict(commits), table.num_rows != sum(map(len, commits.values()))
