"""Lag: where each group stands that counts, and the records that one group alone keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from retentiond.decide.star_schema import excluded_groups
from retentiond.memory.remembered import GroupOnTopic
from retentiond.model import PlanRow, Reason
from retentiond.snapshot import Integers, PartitionReading, Snapshot

Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class CommittedPositions:
    """Grain: group and partition. Columns of one length.

    ``group`` and ``partition`` are positions in the snapshot; ``offset`` is the next record that
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
    """Where each group stands that counts for the topic's policy: at its commit of now, else at the
    remembered one."""
    now = _readable_commits(snapshot.commits)
    before = _readable_commits(snapshot.remembered)
    silent = ~np.isin(
        _group_and_partition_keys(before, snapshot), _group_and_partition_keys(now, snapshot)
    )
    if not silent.any():
        return now.where(_group_counts(snapshot, now))
    then = before.where(silent)
    every = CommittedPositions(
        np.concatenate([now.group, then.group]),
        np.concatenate([now.partition, then.partition]),
        np.concatenate([now.offset, then.offset]),
    )
    return every.where(_group_counts(snapshot, every))


def topics_of(snapshot: Snapshot) -> Integers:
    """The topic of each partition, both as positions in the snapshot."""
    return np.fromiter((each.topic for each in snapshot.partitions), np.int64)


def _readable_commits(commits: pa.Table) -> CommittedPositions:
    """`COMMIT_SCHEMA` less the commits that could not be read."""
    if commits["offset"].null_count:
        commits = commits.filter(pc.is_valid(commits["offset"]))
    columns = (commits[name].to_numpy() for name in ("group_id", "partition_id", "offset"))
    return CommittedPositions(*columns)


def _group_and_partition_keys(of: CommittedPositions, snapshot: Snapshot) -> Integers:
    return of.group.astype(np.int64) * len(snapshot.partitions) + of.partition


def _group_counts(snapshot: Snapshot, of: CommittedPositions) -> Booleans:
    excluded, width = excluded_groups(snapshot), max(1, len(snapshot.topics))
    keys = of.group.astype(np.int64) * width + topics_of(snapshot)[of.partition]
    of_excluded = excluded["group_id"].to_numpy().astype(np.int64) * width + excluded["topic_id"]
    return ~np.isin(keys, of_excluded)


NO_GROUP = -1
"""The position of no group."""


def kept_by_one_group(
    snapshot: Snapshot, rows: Sequence[PlanRow], positions: CommittedPositions
) -> Mapping[GroupOnTopic, int]:
    """Records kept by the binding group alone, summed over the partitions that it binds.

    These lie from its commit (from the log start, where it has none) up to whatever would bind
    next: another group, the consumed retention or the end. None do where another group that has
    no commit would go on holding the partition. ``rows``: one for each partition of the snapshot.
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
    """By partition: the smallest position of groups other than the binding one, and how many of
    these have one."""
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
    """Where deletion would stop if no group bound it; None where that is not known."""
    bounds = (reading.retention_offset, reading.last_stable_offset, reading.high_watermark)
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None
