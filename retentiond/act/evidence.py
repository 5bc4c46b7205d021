"""One reading of the cluster, arranged by topic and partition for the guard.

It shares no code with the plan, and takes from the snapshot only what concerns the topics about
to be deleted from. Groups go by name: two readings number them differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

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
"""A partition's committed offset by group; None: there is one, and it could not be read."""


class Evidence:
    """What a snapshot says about some topics.

    - ``topics``, ``partitions``: those of the topics asked for, as far as the snapshot has them.
    - ``groups``: all groups of the snapshot; ``listed``: the names of those that the cluster
      showed; ``unreadable``: those that failed as a whole, by name, and why.
    - ``vanished``: the names of those that earlier cycles saw and this reading doesn't show.
    - ``is_ambiguous``: a group has two commits on one partition, so one of them is wrong.
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
        self._of_topic: defaultdict[str, list[int]] = defaultdict(list)
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
                self._of_topic[name].append(position)
        for pairs, of_topic in (
            (snapshot.readers, self._readers),
            (snapshot.remembered_readers, self._readers),
            (snapshot.changelogs, self._restorers),
        ):
            for group, topic_id in pairs:
                if (name := snapshot.topics[topic_id].name) in wanted:
                    of_topic[name].add(snapshot.groups[group].group_id)

        is_here = np.zeros(len(snapshot.partitions), np.bool_)
        is_here[list(self._positions.values())] = True
        names = [group.group_id for group in snapshot.groups]
        self._commits, repeated = _by_partition(snapshot.commits, is_here, names)
        self._remembered, _ = _by_partition(snapshot.remembered, is_here, names)
        self._doubtful: defaultdict[int, dict[str, dict[str, Any] | None]] = defaultdict(dict)
        for row in _on(snapshot.epochs, is_here).to_pylist():
            self._doubtful[row["partition_id"]][names[row["group_id"]]] = row
        for row in _on(snapshot.stale, is_here).to_pylist():
            self._doubtful[row["partition_id"]][names[row["group_id"]]] = None
        self.is_ambiguous = repeated or len(self.groups) != len(snapshot.groups)

    def commits(self, partition: TopicPartition) -> CommittedByGroup:
        position = self._positions.get(partition)
        return {} if position is None else self._commits.get(position, {})

    def remembered(self, partition: TopicPartition) -> CommittedByGroup:
        position = self._positions.get(partition)
        return {} if position is None else self._remembered.get(position, {})

    def commits_on_replaced_records(self, partition: TopicPartition) -> Mapping[str, str]:
        """Groups whose commits do not belong to the log that is there, and why, in a sentence."""
        doubtful = self._doubtful.get(self._positions.get(partition, -1), {})
        return {
            group_id: sentence
            for group_id, row in doubtful.items()
            if (sentence := self._why_replaced(group_id, row)) is not None
        }

    def _why_replaced(self, group_id: str, row: Mapping[str, Any] | None) -> str | None:
        """``row``: of `EPOCH_SCHEMA`; None: the commit is stale.

        Whoever has read up to an offset in some leader epoch has read other records if the log
        says that the epoch, or the last it knows before it, ended below. The same log before its
        epoch began can't go on behind the commit either, but for a share group, whose epoch is no
        record's.
        """
        if row is None:
            return f"group {group_id} has not committed anew since the log is there"
        committed, epoch, end = row["offset"], row["leader_epoch"], row["end_offset"]
        of_a_record = self.groups[group_id].kind is not GroupKind.SHARE
        if end is None or row["known_epoch"] is None:
            what = "which the log does not know"
        elif end < committed:
            what = f"and the log knows it up to {end} only"
        elif end > committed and of_a_record and row["known_epoch"] != epoch:
            what = f"and the log was written in epoch {row['known_epoch']} there"
        else:
            return None
        return f"group {group_id} has committed {committed} in leader epoch {epoch}, {what}"

    def readers_of(self, topic: str) -> frozenset[str]:
        """Groups that commit, or committed, on any partition of the topic, or read it, now or when
        they were last seen."""
        return self.committed_on(topic).union(self._readers.get(topic, ()))

    def committed_on(self, topic: str) -> frozenset[str]:
        """The groups that commit on the topic, or committed."""
        committed: set[str] = set()
        for position in self._of_topic.get(topic, ()):
            committed.update(self._commits.get(position, ()))
            committed.update(self._remembered.get(position, ()))
        return frozenset(committed)

    def restorers_of(self, topic: str) -> frozenset[str]:
        """Streams groups for which the topic is a changelog."""
        return frozenset(self._restorers.get(topic, ()))


def _on(table: pa.Table, is_here: Flags) -> pa.Table:
    """The rows about those partitions, flagged by their positions."""
    return table.filter(pa.array(is_here[table["partition_id"].to_numpy()]))


def _by_partition(
    table: pa.Table, is_here: Flags, names: list[str]
) -> tuple[dict[int, dict[str, int | None]], bool]:
    """Commits (`COMMIT_SCHEMA`) of those partitions; and whether one of them was overwritten."""
    table = _on(table, is_here)
    partitions = table["partition_id"].to_numpy()
    table = table.take(pa.array(np.argsort(partitions, kind="stable")))
    found, starts = np.unique(np.sort(partitions), return_index=True)
    groups = [names[group] for group in table["group_id"].to_pylist()]
    offsets = table["offset"].to_pylist()
    ends = [*starts[1:].tolist(), len(offsets)]
    commits = {
        position: dict(zip(groups[start:end], offsets[start:end], strict=True))
        for position, start, end in zip(found.tolist(), starts.tolist(), ends, strict=False)
    }
    return commits, table.num_rows != sum(map(len, commits.values()))
