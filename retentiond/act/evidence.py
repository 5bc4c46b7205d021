"""One reading of the cluster, arranged by topic and partition for the guard.

It shares no code with the plan. It takes from the snapshot only the topics that the guard is asked
about. Their commits stay arrays: as dictionaries, ten million would take gigabytes and seconds.
Names are looked up for objections only. Groups go by name, because two readings number them
differently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from retentiond.config import NoPolicy, TopicPolicy
from retentiond.formatting import say_reader
from retentiond.kafka.interface import EpochEnd
from retentiond.model import GroupKind, TopicPartition
from retentiond.snapshot import (
    ABSENT,
    VANISHED,
    GroupReading,
    Integers,
    PartitionReading,
    Snapshot,
    TopicReading,
    known_or,
    namesake_id,
    where,
)

CommittedByGroup = Mapping[str, int | None]
"""The groups' committed offsets on a partition; None if a commit exists and could not be read."""

NOTHING = -1
"""No epoch, and no end of one."""


class Evidence:
    """What a snapshot says about some topics.

    - ``groups``: all groups of the snapshot, whatever they read.
    - ``listed``: the groups that the cluster showed.
    - ``external``: the external readers.
    - ``unreadable``: the groups that failed as a whole, and why.
    - ``vanished``: the groups that earlier cycles saw and this reading doesn't show.
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
            if group.is_listed and group.kind is not GroupKind.EXTERNAL
        }
        self.external = {reader.group_id for reader in snapshot.groups if reader.is_external}
        self.vanished = {group.group_id for group in snapshot.groups if group.state == VANISHED}
        self.unreadable = {
            group.group_id: group.failure for group in snapshot.groups if group.failure is not None
        }
        wanted = set(topics)
        self.topics: dict[str, TopicReading] = {
            topic.name: topic for topic in snapshot.topics if topic.name in wanted
        }
        self.partitions: dict[TopicPartition, PartitionReading] = {}
        self._positions: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
        is_wanted = np.zeros(len(snapshot.partitions), np.bool_)
        for position, partition in enumerate(snapshot.partitions):
            if (name := snapshot.topics[partition.topic].name) in wanted:
                at = TopicPartition(name, partition.partition)
                self.partitions[at] = partition
                self._positions[name][at] = position
                is_wanted[position] = True
        names = [group.group_id for group in snapshot.groups]
        commits = where(snapshot.commits, is_wanted[snapshot.commits["partition_id"].to_numpy()])
        self._commits = _Commits(commits, names)
        self._readers: defaultdict[str, set[str]] = defaultdict(set)
        self._restorers: defaultdict[str, set[str]] = defaultdict(set)
        for pairs, groups_by_topic in (
            (snapshot.readers, self._readers),
            (snapshot.remembered_readers, self._readers),
            (snapshot.changelogs, self._restorers),
        ):
            for group, topic_id in pairs:
                if (name := snapshot.topics[topic_id].name) in wanted:
                    groups_by_topic[name].add(names[group])
        self._ids = {
            (reader.name, reader.is_external): reader.group_id for reader in snapshot.groups
        }
        self._excluded: defaultdict[Hashable, dict[str, bool]] = defaultdict(dict)
        self._first_unreadable: dict[Hashable, str | None] = {}
        self._replaced: defaultdict[int | None, dict[str, str]] = defaultdict(dict)
        ends = {pair: end for pair, end in snapshot.epoch_ends.items() if is_wanted[pair[0]]}
        for row in _of_another_log(commits, ends).to_pylist():
            end = ends[row["partition_id"], row["leader_epoch"]]
            if sentence := _why_replaced(snapshot.groups[row["group_id"]], row, end):
                self._replaced[row["partition_id"]][names[row["group_id"]]] = sentence
        for row in commits.filter(commits["is_stale"]).to_pylist():
            group_id = names[row["group_id"]]
            self._replaced[row["partition_id"]][group_id] = (
                f"{say_reader(group_id, self.groups[group_id].kind)} has not committed since its "
                "commit was beyond the end, or the topic was recreated"
            )
        self.is_ambiguous = self._commits.repeated or len(self.groups) != len(snapshot.groups)

    def commits(self, partition: TopicPartition) -> CommittedByGroup:
        return self._commits.at(self._position(partition), is_remembered=False)

    def remembered(self, partition: TopicPartition) -> CommittedByGroup:
        return self._commits.at(self._position(partition), is_remembered=True)

    def _position(self, partition: TopicPartition) -> int | None:
        return self._positions.get(partition.topic, {}).get(partition)

    def commits_of_all(self, topic: str, groups: Sequence[str]) -> dict[TopicPartition, Integers]:
        """The committed offsets of these groups, in their order, which is by name; of each
        partition on which all have one that could be read and belongs to the present log."""
        positions = self._positions.get(topic, {})
        offsets = self._commits.of_all([*positions.values()], groups)
        return {
            at: offsets[position]
            for at, position in positions.items()
            if position in offsets
            and (
                position not in self._replaced or self._replaced[position].keys().isdisjoint(groups)
            )
        }

    def commits_on_replaced_records(self, partition: TopicPartition) -> Mapping[str, str]:
        """Groups whose commits don't belong to the present log, with a sentence that says why."""
        return self._replaced.get(self._position(partition), {})

    def readers_of(self, topic: str) -> frozenset[str]:
        """Groups that have committed on the topic, now or before, or that read it when they were
        last seen."""
        return self.committed_on(topic).union(self._readers.get(topic, ()))

    def committed_on(self, topic: str) -> frozenset[str]:
        """Groups that have committed on a partition of the topic, now or before."""
        return self._commits.groups_on([*self._positions.get(topic, {}).values()])

    def restorers_of(self, topic: str) -> frozenset[str]:
        """Streams groups for which the topic is a changelog."""
        return frozenset(self._restorers.get(topic, ()))

    def reader(self, group_id: str) -> tuple[str, bool]:
        """Its own name, and whether it is an external reader: in two readings it may have different
        ids."""
        group = self.groups.get(group_id)
        return (group_id, False) if group is None else (group.name, group.is_external)

    def required_by(self, policy: TopicPolicy | NoPolicy) -> list[str]:
        """The ids of the readers that the policy requires; of one that is not in the reading, an id
        that no other reader has."""
        return [
            self._ids.get((name, is_external))
            or (namesake_id(name, is_external=is_external) if name in self.groups else name)
            for name, is_external in policy.required_readers()
        ]

    def counting(self, groups: Iterable[str], policy: TopicPolicy | NoPolicy) -> Iterator[str]:
        """The groups without those that the policy excludes, which is asked once about each. One
        of another reading, or of the policy alone, is a group of Kafka."""
        if policy.counts_everybody:
            yield from groups
            return
        excluded = self._excluded[policy.who_counts]
        for group_id in groups:
            if group_id not in excluded:
                group = self.groups.get(group_id, GroupReading(group_id, GroupKind.UNKNOWN, ABSENT))
                excluded[group_id] = group.is_excluded_by(policy)
            if not excluded[group_id]:
                yield group_id

    def first_unreadable(self, policy: TopicPolicy | NoPolicy) -> str | None:
        """The first unreadable group by name that counts. It is looked for once: a coordinator may
        fail for thousands of groups."""
        rule = policy.who_counts
        if rule not in self._first_unreadable:
            counting = self.counting(sorted(self.unreadable), policy)
            self._first_unreadable[rule] = next(counting, None)
        return self._first_unreadable[rule]


def _of_another_log(commits: pa.Table, ends: Mapping[tuple[int, int], EpochEnd]) -> pa.Table:
    """The commits (`COMMIT_SCHEMA`) that the leaders' answers (`Snapshot.epoch_ends`) may
    contradict: hardly any, even after all brokers were restarted."""
    if not ends:
        return commits.slice(0, 0)
    pairs = sorted(ends)
    asked_keys = np.array([_key(*pair) for pair in pairs])
    epoch_before, end = (
        known_or(NOTHING, told) for told in zip(*(ends[pair] for pair in pairs), strict=True)
    )
    epoch, offset = (
        commits[name].fill_null(NOTHING).to_numpy() for name in ("leader_epoch", "offset")
    )
    keys = _key(commits["partition_id"].to_numpy().astype(np.int64), epoch)
    at = np.minimum(np.searchsorted(asked_keys, keys), len(pairs) - 1)
    is_of_this_log = (end[at] == offset) | ((end[at] > offset) & (epoch_before[at] == epoch))
    is_of_this_log &= epoch_before[at] != NOTHING
    return commits.filter(pa.array((asked_keys[at] == keys) & ~is_of_this_log))


def _key(partition: Any, epoch: Any) -> Any:
    """Of numbers, or of columns of them."""
    return partition * 2**32 + epoch


def _why_replaced(group: GroupReading, row: Mapping[str, Any], end: EpochEnd) -> str | None:
    """Why the commit of the row (`COMMIT_SCHEMA`) doesn't belong to the present log; None if it
    does. A share group's epoch is not a record's."""
    committed, epoch = row["offset"], row["leader_epoch"]
    is_records_epoch = group.kind is not GroupKind.SHARE
    problem = end.contradiction(committed, epoch, is_records_epoch=is_records_epoch)
    reader = say_reader(group.group_id, group.kind)
    return problem and f"{reader} has committed {committed} in leader epoch {epoch}, {problem}"


class _Commits:
    """Commits (`COMMIT_SCHEMA`), sorted by partition and group. ``repeated``: a group has two on a
    partition."""

    def __init__(self, table: pa.Table, names: Sequence[str]) -> None:
        at, groups = table["partition_id"].to_numpy(), table["group_id"].to_numpy()
        order = np.argsort(at.astype(np.int64) * len(names) + groups, kind="stable")
        self._at, self._groups = at[order], groups[order]
        self._is_committed, self._offsets, self._remembered = (
            table[name].combine_chunks().take(pa.array(order))
            for name in ("is_committed", "offset", "remembered_offset")
        )
        self._names = np.array(names, object)
        self._numbers = {name: number for number, name in enumerate(names)}
        is_again = (self._at[1:] == self._at[:-1]) & (self._groups[1:] == self._groups[:-1])
        self.repeated = bool(is_again.any())

    def at(self, position: int | None, *, is_remembered: bool) -> CommittedByGroup:
        rows = self._on([] if position is None else [position])
        names = self._names[self._groups[rows]].tolist()
        if is_remembered:
            remembered = zip(names, self._remembered[rows].to_pylist(), strict=True)
            return {name: offset for name, offset in remembered if offset is not None}
        is_committed = self._is_committed[rows].to_pylist()
        committed = zip(names, self._offsets[rows].to_pylist(), is_committed, strict=True)
        return {name: offset for name, offset, is_there in committed if is_there}

    def groups_on(self, positions: Sequence[int]) -> frozenset[str]:
        are_there = np.zeros(len(self._names), np.bool_)
        are_there[self._groups[self._on(positions)]] = True
        return frozenset(self._names[are_there].tolist())

    def of_all(self, positions: Sequence[int], groups: Sequence[str]) -> dict[int, Integers]:
        """By position; see `Evidence.commits_of_all`."""
        numbers = [number for number in map(self._numbers.get, groups) if number is not None]
        is_known = positions and 0 < len(numbers) == len(groups)
        if not is_known or numbers != sorted(numbers) or self.repeated:
            return {}
        counts = np.zeros(len(self._names), np.bool_)
        counts[numbers] = True
        rows = self._on(positions)
        offsets = self._offsets[rows]
        is_read = counts[self._groups[rows]] & offsets.is_valid().to_numpy(zero_copy_only=False)
        at = self._at[rows][is_read] - positions[0]
        has_all = np.bincount(at) == len(groups)
        read: Integers = offsets.fill_null(0).to_numpy()[is_read][has_all[at]]
        positions_of_all = (np.flatnonzero(has_all) + positions[0]).tolist()
        return dict(zip(positions_of_all, read.reshape(-1, len(groups)), strict=True))

    def _on(self, positions: Sequence[int]) -> slice:
        """The commits on neighbouring partitions."""
        ends = [positions[0], positions[-1] + 1] if positions else [0, 0]
        # Of another type, they would have all of the array converted.
        return slice(*np.searchsorted(self._at, np.array(ends, self._at.dtype)).tolist())
