"""What goes sooner because a log directory runs full: as much as is needed, and no more.

Invariant: pressure shortens the retention and nothing else. A row under pressure is the row that
`decide` gives for the pressure retention: its groups and its end bound it as ever. The guard judges
by the same retention.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from retentiond.disks.log_dirs import ReplicaKey
from retentiond.disks.predictions import Predictions, predict
from retentiond.disks.pressure import (
    LogDirKey,
    LogDirRelief,
    PressedLogDir,
    Pressure,
    bytes_by_log_dir,
    grouped_by_disk,
)
from retentiond.model import PlanRow, Reason, TopicPartition
from retentiond.snapshot import Snapshot


class Relieved(NamedTuple):
    """A plan that heeds pressure, and the snapshot whose retentions it was made by."""

    rows: tuple[PlanRow, ...]
    snapshot: Snapshot


def relieved(
    rows: Sequence[PlanRow], snapshot: Snapshot, sooner: Sequence[PlanRow], pressure: Pressure
) -> Relieved:
    """The plan with the pressure retention on as many partitions as its directories need.

    ``rows`` are decided from ``snapshot``, by the consumed retention, and ``sooner`` from
    ``pressure.eager``. Rows that may not be deleted now, because of a pause or as they have yet to
    settle, are holds in both.
    """
    eager = pressure.eager or snapshot
    frees = predict(rows, snapshot, pressure.reading, pressure.awaited_bytes)
    may_free = predict(sooner, eager, pressure.reading, pressure.awaited_bytes)
    chosen = partitions_to_relieve(pressure.log_dirs, frees, may_free)
    found = list(rows)
    partitions = list(snapshot.partitions)
    for position, row in enumerate(sooner):
        if row.topic_partition in chosen:
            found[position] = row
            partitions[position] = eager.partitions[position]
    for position in pressure.partitions(snapshot):
        found[position] = replace(found[position], under_pressure=True)
    return Relieved(tuple(found), replace(snapshot, partitions=tuple(partitions)))


def partitions_to_relieve(
    log_dirs: Iterable[PressedLogDir], frees: Predictions, may_free: Predictions
) -> frozenset[TopicPartition]:
    """Those that are to have the pressure retention, disk by disk.

    On each disk the partition comes first that frees most there beyond the normal plan, then its
    equals in the order of their names, until what is needed is predicted to go. So no disk is given
    more than one partition beyond that, and none that frees nothing there. ``frees``: what the
    normal plan frees; ``may_free``: what the plan under the pressure retention does.
    """
    more = {at: _beyond(found, frees.get(at, {})) for at, found in may_free.items()}
    freed = bytes_by_log_dir(frees, frees)
    chosen: dict[TopicPartition, None] = {}
    for disk in grouped_by_disk(log_dirs):
        keys = [each.key for each in disk]
        needed = max(each.until_bytes - each.usable_bytes for each in disk)
        needed -= sum(each.awaited_bytes + freed.get(each.key, 0) for each in disk)
        needed -= sum(_on(more[at], keys) for at in chosen)
        in_turn = sorted(
            ((_on(found, keys), at) for at, found in more.items() if at not in chosen),
            key=lambda each: (-each[0], each[1]),
        )
        for bytes_there, at in in_turn:
            if needed <= 0 or bytes_there <= 0:
                break
            chosen[at] = None
            needed -= bytes_there
    return frozenset(chosen)


def _beyond(
    may_free: Mapping[ReplicaKey, int], frees: Mapping[ReplicaKey, int]
) -> dict[LogDirKey, int]:
    """By log directory, what the one frees more than the other."""
    return {
        (replica.broker, replica.log_dir): freed - frees.get(replica, 0)
        for replica, freed in may_free.items()
    }


def _on(by_log_dir: Mapping[LogDirKey, int], keys: Sequence[LogDirKey]) -> int:
    return sum(by_log_dir.get(key, 0) for key in keys)


def relief(
    rows: Sequence[PlanRow], snapshot: Snapshot, pressure: Pressure
) -> tuple[LogDirRelief, ...]:
    """One for each directory under pressure. ``rows``: the plan as it is to be carried out."""
    if not pressure.log_dirs:
        return ()
    frees = predict(rows, snapshot, pressure.reading, pressure.awaited_bytes)
    planned = bytes_by_log_dir(frees, frees)
    kept: defaultdict[LogDirKey, Counter[str]] = defaultdict(Counter)
    sizes: defaultdict[LogDirKey, dict[TopicPartition, int]] = defaultdict(dict)
    for row in rows:
        for folder in pressure.reading.replicas(row.topic_partition) or ():
            sizes[folder.broker, folder.log_dir][row.topic_partition] = folder.size_bytes
            if row.binding_group is not None and row.reason is not Reason.TOO_YOUNG:
                share = _kept_share(row)
                kept[folder.broker, folder.log_dir][row.binding_group] += int(
                    folder.size_bytes * share
                )
    return tuple(
        LogDirRelief(
            each,
            planned.get(each.key, 0),
            max(0, each.needed_bytes - planned.get(each.key, 0)),
            dict((+kept[each.key]).most_common()),
            sizes[each.key],
        )
        for each in pressure.log_dirs
    )


def _kept_share(row: PlanRow) -> float:
    """The part of a partition's records that its binding group has not read; all of them where that
    is not known."""
    start, end, read_up_to = row.log_start_offset, row.high_watermark, row.binding_committed_offset
    if start is None or end is None or end <= start:
        return 0.0
    return (end - min(max(start, read_up_to or start), end)) / (end - start)
