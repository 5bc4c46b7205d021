"""One reading of the cluster, arranged by topic and partition for the guard.

It shares no code with the plan. It takes from the snapshot only the topics that the guard is asked
about. Groups go by name, because two readings number them differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from retentiond.formatting import say_reader
from retentiond.kafka.interface import EpochEnd
from retentiond.model import GroupKind, TopicPartition
from retentiond.snapshot import (
    ABSENT,
    VANISHED,
    Flags,
    PartitionReading,
    Snapshot,
    TopicReading,
)

CommittedByGroup = Mapping[str, int | None]
"""The groups' committed offsets on a partition; None if a commit exists and could not be read."""


class Evidence:
    """What a snapshot says about some topics.

    - ``topics``, ``partitions``: the requested topics that the snapshot has, and their partitions.
    - ``groups``: all groups of the snapshot, by name.
    - ``listed``: the names of the groups that the cluster showed.
    - ``unreadable``: the groups that failed as a whole, by name, and why.
    - ``vanished``: the names of the groups that earlier cycles saw and this reading doesn't show.
    - ``is_ambiguous``: a group, or a group's commit on a partition, is in the reading twice, so one
      of the two is wrong.
    """

    def __init__(self, snapshot: Snapshot, topics: Collection[str]) -> None:
        self.cluster_id = snapshot.cluster_id
        self.problems = snapshot.problems
        self.hidden = snapshot.hidden
        self.negative_commits = snapshot.negative_commits
        self.groups = {group.group_id: group for group in snapshot.groups}
        self.listed = {
            group.group_id
            for group in snapshot.groups
            if group.state not in (ABSENT, VANISHED) and group.kind is not GroupKind.EXTERNAL
        }
        self.vanished = {group.group_id for group in snapshot.groups if group.state == VANISHED}
        self.unreadable = {
            group.group_id: group.failure for group in snapshot.groups if group.failure is not None
        }
        self.topics: dict[str, TopicReading] = {}
        self.partitions: dict[TopicPartition, PartitionReading] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._positions_by_topic: defaultdict[str, list[int]] = defaultdict(list)
        self._readers: defaultdict[str, set[str]] = defaultdict(set)
        self._restorers: defaultdict[str, set[str]] = defaultdict(set)

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
                self._positions_by_topic[name].append(position)
        for pairs, groups_by_topic in (
            (snapshot.readers, self._readers),
            (snapshot.remembered_readers, self._readers),
            (snapshot.changelogs, self._restorers),
        ):
            for group, topic_id in pairs:
                if (name := snapshot.topics[topic_id].name) in wanted:
                    groups_by_topic[name].add(snapshot.groups[group].group_id)

        is_wanted = np.zeros(len(snapshot.partitions), np.bool_)
        is_wanted[list(self._positions.values())] = True
        names = [group.group_id for group in snapshot.groups]
        self._commits = _Commits(snapshot.commits, is_wanted, names)
        self._remembered = _Commits(snapshot.remembered, is_wanted, names)
        self._doubtful: defaultdict[int, dict[str, dict[str, Any] | None]] = defaultdict(dict)
        for row in _rows_on(snapshot.epochs, is_wanted).to_pylist():
            self._doubtful[row["partition_id"]][names[row["group_id"]]] = row
        for row in _rows_on(snapshot.stale, is_wanted).to_pylist():
            self._doubtful[row["partition_id"]][names[row["group_id"]]] = None
        self.is_ambiguous = self._commits.repeated or len(self.groups) != len(snapshot.groups)

    def commits(self, partition: TopicPartition) -> CommittedByGroup:
        position = self._positions.get(partition)
        return {} if position is None else self._commits.at(position)

    def remembered(self, partition: TopicPartition) -> CommittedByGroup:
        position = self._positions.get(partition)
        return {} if position is None else self._remembered.at(position)

    def commits_on_replaced_records(self, partition: TopicPartition) -> Mapping[str, str]:
        """Groups whose commits don't belong to the present log, with a sentence that says why."""
        position = self._positions.get(partition)
        doubtful = {} if position is None else self._doubtful.get(position, {})
        return {
            group_id: sentence
            for group_id, row in doubtful.items()
            if (sentence := self._why_replaced(group_id, row)) is not None
        }

    def _why_replaced(self, group_id: str, row: Mapping[str, Any] | None) -> str | None:
        """Why the commit doesn't belong to the present log; None if it does. ``row`` is a row of
        `EPOCH_SCHEMA`; None if the commit is stale. A share group's epoch is not a record's."""
        kind = self.groups[group_id].kind
        reader = say_reader(group_id, kind)
        if row is None:
            return (
                f"{reader} has not committed since its commit was beyond the end, or the topic "
                "was recreated"
            )
        committed, epoch = row["offset"], row["leader_epoch"]
        end = EpochEnd(row["known_epoch"], row["end_offset"])
        is_records_epoch = kind is not GroupKind.SHARE
        problem = end.contradiction(committed, epoch, is_records_epoch=is_records_epoch)
        if problem is None:
            return None
        return f"{reader} has committed {committed} in leader epoch {epoch}, {problem}"

    def readers_of(self, topic: str) -> frozenset[str]:
        """Groups that have committed on the topic, now or before, or that read it when they were
        last seen."""
        return self.committed_on(topic).union(self._readers.get(topic, ()))

    def committed_on(self, topic: str) -> frozenset[str]:
        """Groups that have committed on a partition of the topic, now or before."""
        positions = self._positions_by_topic.get(topic, ())
        return self._commits.groups_on(positions) | self._remembered.groups_on(positions)

    def restorers_of(self, topic: str) -> frozenset[str]:
        """Streams groups for which the topic is a changelog."""
        return frozenset(self._restorers.get(topic, ()))


def _rows_on(table: pa.Table, is_wanted: Flags) -> pa.Table:
    """The rows about the wanted partitions, which are flagged by their positions."""
    return table.filter(pa.array(is_wanted[table["partition_id"].to_numpy()]))


class _Commits:
    """The commits (`COMMIT_SCHEMA`) on the wanted partitions. They stay columns, sorted by
    partition and group: as dictionaries, ten million would take gigabytes.

    ``repeated``: a group has two commits on a partition.
    """

    def __init__(self, table: pa.Table, is_wanted: Flags, names: Sequence[str]) -> None:
        table = _rows_on(table, is_wanted)
        groups = table["group_id"].to_numpy()
        partitions = table["partition_id"].to_numpy()
        keys = partitions.astype(np.int64) * len(names) + groups
        order = np.argsort(keys, kind="stable")
        self.repeated = bool((np.diff(keys[order]) == 0).any())
        commits = np.bincount(partitions, minlength=len(is_wanted))
        self._starts = np.append(0, np.cumsum(commits)).tolist()
        self._groups = groups[order]
        self._offsets = table["offset"].combine_chunks().take(pa.array(order))
        self._names = names

    def at(self, position: int) -> CommittedByGroup:
        start, end = self._starts[position : position + 2]
        groups = map(self._names.__getitem__, self._groups[start:end].tolist())
        return dict(zip(groups, self._offsets[start:end].to_pylist(), strict=True))

    def groups_on(self, positions: Iterable[int]) -> frozenset[str]:
        is_there = np.zeros(len(self._names), np.bool_)
        for at in positions:
            is_there[self._groups[self._starts[at] : self._starts[at + 1]]] = True
        return frozenset(map(self._names.__getitem__, np.flatnonzero(is_there).tolist()))
