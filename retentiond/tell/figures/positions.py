"""The positions of the groups that count, and the records that one group alone keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from retentiond.decide.named_readers import excluded_groups
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import PlanRow, Reason
from retentiond.snapshot import Integers, PartitionReading, Snapshot, topics_of

Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class CommittedPositions:
    """The groups' positions (grain: group and partition), as columns of one length.

    ``group`` and ``partition`` are positions in the snapshot. ``offset`` is the next record that
    the group will read, as far as it is known. A group without any commit has no row.
    """

    group: Integers
    partition: Integers
    offset: Integers

    def where(self, mask: Booleans) -> CommittedPositions:
        if mask.all():
            return self  # mostly so, and of ten million positions a copy is 160 MB
        return CommittedPositions(self.group[mask], self.partition[mask], self.offset[mask])


def positions(snapshot: Snapshot) -> CommittedPositions:
    """The positions of the groups that count for the topic's policy: the current commit if there is
    one, else the remembered one."""
    commits = snapshot.commits
    offsets = pc.coalesce(commits["offset"], commits["remembered_offset"])
    if offsets.null_count:
        commits, offsets = commits.filter(offsets.is_valid()), offsets.drop_null()
    groups, partitions = commits["group_id"].to_numpy(), commits["partition_id"].to_numpy()
    committed = CommittedPositions(groups, partitions, offsets.to_numpy())
    return committed.where(_group_counts(snapshot, committed))


def _group_counts(snapshot: Snapshot, positions: CommittedPositions) -> Booleans:
    """Whether the policy of the topic doesn't exclude the group, for each position."""
    excluded, topics = excluded_groups(snapshot), max(1, len(snapshot.topics))
    keys = positions.group.astype(np.int64) * topics + topics_of(snapshot)[positions.partition]
    excluded_keys = excluded["group_id"].to_numpy().astype(np.int64) * topics + excluded["topic_id"]
    return ~np.isin(keys, excluded_keys)


NO_GROUP = -1
"""The position of no group."""


def kept_by_one_group(
    snapshot: Snapshot, rows: Sequence[PlanRow], positions: CommittedPositions
) -> Mapping[GroupOnTopic, int]:
    """How many records a binding group alone keeps, summed over the partitions that it binds.

    They lie from its commit (from the log start offset if it has none) up to the next bound: the
    commit of another group, the consumed retention or the end. There are none if another group
    without a commit holds the partition, too. ``rows``: one for each partition of the snapshot.
    """
    bounds, counts = _positions_of_others(snapshot, rows, positions)
    kept: defaultdict[GroupOnTopic, int] = defaultdict(int)
    for at, (row, reading) in enumerate(zip(rows, snapshot.partitions, strict=True)):
        end = _end_without_groups(reading)
        if row.binding_group is None or reading.log_start_offset is None or end is None:
            continue
        start = reading.log_start_offset
        has_commit = row.reason is not Reason.GROUP_VANISHED
        if has_commit and row.binding_committed_offset is not None:
            start = max(start, row.binding_committed_offset)
        is_alone = counts[at] >= row.groups - 1
        upto = min(end, int(bounds[at]))
        kept[GroupOnTopic(row.binding_group, row.topic)] += max(0, upto - start) * is_alone
    return dict(kept)


def _positions_of_others(
    snapshot: Snapshot, rows: Sequence[PlanRow], positions: CommittedPositions
) -> tuple[Integers, Integers]:
    """For each partition, the smallest position of all groups but the binding one, and how many of
    them have a position."""
    numbers = {group.group_id: number for number, group in enumerate(snapshot.groups)}
    binding = np.fromiter(
        (
            NO_GROUP if row.binding_group is None else numbers.get(row.binding_group, NO_GROUP)
            for row in rows
        ),
        np.int64,
        len(rows),
    )
    others = positions.where(positions.group != binding[positions.partition])
    bounds = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(bounds, others.partition, others.offset)
    return bounds, np.bincount(others.partition, minlength=len(rows))


def _end_without_groups(reading: PartitionReading) -> int | None:
    """The offset where deletion would stop if no group bound it; None if it is not known."""
    bounds = (reading.retention_offset, reading.last_stable_offset, reading.high_watermark)
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None
