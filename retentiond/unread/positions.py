"""Where each group stands that counts: its commit, else the last one that is remembered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from retentiond.collect.snapshot import Snapshot
from retentiond.config import PolicyConflict, TopicPolicy

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Grain: group and partition. Columns of one length.

    ``group`` and ``partition`` are positions in the snapshot; ``offset`` is the next record that
    the group will read, as far as it is known. A group without any commit has no row.
    """

    group: Integers
    partition: Integers
    offset: Integers

    def where(self, mask: Booleans) -> Positions:
        return Positions(self.group[mask], self.partition[mask], self.offset[mask])


def positions(snapshot: Snapshot) -> Positions:
    """Of every group that the policy of the topic lets count."""
    now = _known(snapshot.commits)
    before = _known(snapshot.remembered)
    has_commit = pc.is_in(_keys(before, snapshot), value_set=_keys(now, snapshot))
    silent = ~has_commit.to_numpy(zero_copy_only=False)
    every = Positions(
        np.concatenate([now.group, before.group[silent]]),
        np.concatenate([now.partition, before.partition[silent]]),
        np.concatenate([now.offset, before.offset[silent]]),
    )
    return every.where(_counts(snapshot, every))


def topics_of(snapshot: Snapshot) -> Integers:
    """The topic of each partition, both as positions in the snapshot."""
    return np.fromiter((each.topic for each in snapshot.partitions), np.int64)


def _known(commits: pa.Table) -> Positions:
    """`COMMIT_SCHEMA` less the commits that could not be read."""
    commits = commits.filter(pc.is_valid(commits["offset"]))
    columns = (commits[name].to_numpy() for name in ("group_id", "partition_id", "offset"))
    return Positions(*(column.astype(np.int64) for column in columns))


def _keys(of: Positions, snapshot: Snapshot) -> pa.Array:
    return pa.array(of.group * len(snapshot.partitions) + of.partition)


def _counts(snapshot: Snapshot, of: Positions) -> Booleans:
    """Each policy is asked once about each group, however many topics it is for."""
    numbers: dict[TopicPolicy | PolicyConflict, int] = {}
    of_topic = [numbers.setdefault(topic.policy, len(numbers)) for topic in snapshot.topics]
    excluded = np.zeros((len(numbers), len(snapshot.groups)), np.bool_)
    for policy, number in numbers.items():
        if isinstance(policy, TopicPolicy) and policy.excluded:
            excluded[number] = [policy.excludes(group.group_id) for group in snapshot.groups]
    of_partition = np.array(of_topic, np.int64)[topics_of(snapshot)]
    return ~excluded[of_partition[of.partition], of.group]
