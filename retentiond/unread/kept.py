"""The records that one group alone keeps from being deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from retentiond.collect.remembered import GroupOnTopic
from retentiond.collect.snapshot import PartitionReading, Snapshot
from retentiond.model import PlanRow
from retentiond.unread.positions import Integers, Positions

NOBODY = -1
"""The position of no group."""


def kept_by_one(
    snapshot: Snapshot, rows: Sequence[PlanRow], positions: Positions
) -> Mapping[GroupOnTopic, int]:
    """Records kept by the binding group alone, summed over the partitions that it binds.

    These lie from its commit (from the log start, where it has none) up to whatever would bind
    next: another group, the consumed retention or the end. None do where another group that has
    no commit would go on holding the partition. ``rows``: one for each partition of the snapshot.
    """
    bounds, counts = _others(snapshot, rows, positions)
    kept: defaultdict[GroupOnTopic, int] = defaultdict(int)
    for at, (row, reading) in enumerate(zip(rows, snapshot.partitions, strict=True)):
        end = _end(reading)
        if row.binding_group is None or reading.log_start_offset is None or end is None:
            continue
        start = reading.log_start_offset
        if row.binding_committed_offset is not None:
            start = max(start, row.binding_committed_offset)
        is_alone = counts[at] >= row.groups - 1
        upto = min(end, int(bounds[at]))
        kept[GroupOnTopic(row.binding_group, row.topic)] += max(0, upto - start) * is_alone
    return dict(kept)


def _others(
    snapshot: Snapshot, rows: Sequence[PlanRow], positions: Positions
) -> tuple[Integers, Integers]:
    """By partition: the smallest position of groups other than the binding one, and how many of
    these have one."""
    numbers = {group.group_id: number for number, group in enumerate(snapshot.groups)}
    binding = np.fromiter(
        (numbers.get(row.binding_group or "", NOBODY) for row in rows), np.int64, len(rows)
    )
    others = positions.where(positions.group != binding[positions.partition])
    bounds = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(bounds, others.partition, others.offset)
    return bounds, np.bincount(others.partition, minlength=len(rows))


def _end(reading: PartitionReading) -> int | None:
    """Where deletion would stop if no group bound it; None where that is not known."""
    bounds = (reading.retention_offset, reading.last_stable_offset, reading.high_watermark)
    known = [bound for bound in bounds if bound is not None]
    return min(known) if len(known) == len(bounds) else None
