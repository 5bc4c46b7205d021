"""Deletes sooner on log directories that are nearly full: only as much as is needed.

Invariant: pressure shortens the consumed retention and nothing else. A row under pressure is the
row that `decide` gives for the pressure retention, so its groups and its end bound it as ever. The
guard judges by the same retention. Its detail says why it goes sooner, and the audit log keeps it.

A topic on trial frees nothing: it is neither chosen nor counted, so the others go as soon as if it
were not there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from retentiond.disks.log_dirs import LogDirKey
from retentiond.disks.predictions import Predictions, predict
from retentiond.disks.pressure import (
    LogDirRelief,
    PressedLogDir,
    Pressure,
    bytes_by_disk,
    bytes_by_log_dir,
    say_log_dir,
)
from retentiond.formatting import listed, say_duration
from retentiond.model import PlanRow, Reason, TopicPartition
from retentiond.snapshot import Snapshot


class Relieved(NamedTuple):
    """A plan that heeds pressure, and the snapshot with the retention of each of its rows.

    ``most_first``: the partitions whose deletions free something where it is needed, those that
    free most there first. A limit that leaves deletions out leaves out the others.
    """

    rows: tuple[PlanRow, ...]
    snapshot: Snapshot
    most_first: tuple[TopicPartition, ...] = ()


def relieved(
    rows: Sequence[PlanRow], snapshot: Snapshot, eager_rows: Sequence[PlanRow], pressure: Pressure
) -> Relieved:
    """The plan with the pressure retention on as many partitions as the log directories need.

    ``rows`` are decided from ``snapshot``, by the consumed retention. ``eager_rows`` are decided
    from ``pressure.eager``, by the pressure retention. Partitions that an unsettled topic keeps
    from deletion are holds in both. A pause comes later, so that it holds what would go sooner.
    """
    eager = pressure.eager or snapshot
    frees = _freed(rows, snapshot, pressure)
    may_free = _freed(eager_rows, eager, pressure)
    chosen = partitions_to_relieve(pressure.log_dirs, frees, may_free)
    relieved_rows = list(rows)
    partitions = list(snapshot.partitions)
    for position, row in enumerate(eager_rows):
        if row.topic_partition in chosen:
            log_dirs = pressure.log_dirs_of(row.topic_partition)
            relieved_rows[position] = _sooner(row, rows[position], log_dirs)
            partitions[position] = eager.partitions[position]
    for position in pressure.partitions(snapshot):
        relieved_rows[position] = replace(relieved_rows[position], under_pressure=True)
    freed = {**frees, **{at: may_free[at] for at in chosen}}
    return Relieved(
        tuple(relieved_rows),
        replace(snapshot, partitions=tuple(partitions)),
        _most_first(pressure.log_dirs, freed),
    )


def _freed(rows: Sequence[PlanRow], snapshot: Snapshot, pressure: Pressure) -> Predictions:
    """What these rows really free: not what a trial would free."""
    real = [row for row in rows if not row.dry_run]
    return predict(real, snapshot, pressure.reading, pressure.awaited_bytes)


def _most_first(
    log_dirs: Iterable[PressedLogDir], frees: Predictions
) -> tuple[TopicPartition, ...]:
    """`Relieved.most_first`. Equal ones are in the order of their names."""
    needy = {log_dir.key for log_dir in log_dirs if log_dir.needed_bytes}
    freed_bytes = {
        at: sum(freed for replica, freed in by_replica.items() if replica[1:] in needy)
        for at, by_replica in frees.items()
    }
    freeing = [at for at, freed in freed_bytes.items() if freed > 0]
    return tuple(sorted(freeing, key=lambda at: (-freed_bytes[at], at)))


def _sooner(row: PlanRow, normal: PlanRow, log_dirs: Sequence[PressedLogDir]) -> PlanRow:
    """The row by the pressure retention. Its detail says which directories it relieves.

    ``normal`` is the row by the consumed retention. Only a policy conflict has neither retention,
    and nothing is deleted under one.
    """
    where = listed([say_log_dir(log_dir) for log_dir in log_dirs])
    what = say_sooner(
        "this partition", row.consumed_retention_ms or 0, normal.consumed_retention_ms or 0
    )
    return replace(row, detail="; ".join(filter(None, (row.detail, f"{where}: {what}"))))


def say_sooner(whose: str, pressure_ms: int, normal_ms: int) -> str:
    """``records of this partition can be deleted after 10 minutes instead of after 1 day``"""
    when = f"after {say_duration(pressure_ms)}" if pressure_ms else "as soon as they are consumed"
    normally = say_duration(normal_ms)
    return f"records of {whose} can be deleted {when} instead of after {normally}"


def partitions_to_relieve(
    log_dirs: Iterable[PressedLogDir], frees: Predictions, may_free: Predictions
) -> frozenset[TopicPartition]:
    """The partitions that get the pressure retention, disk by disk.

    ``frees``: what the normal plan frees. ``may_free``: what the plan by the pressure retention
    frees. On each disk, the partition that frees most in addition to the normal plan comes first
    (equal ones in the order of their names), until the predictions reach what is needed. So at
    most one partition exceeds the need of a disk, and no partition is chosen that frees nothing.
    """
    additional = {
        at: {
            (replica.broker, replica.log_dir): freed - frees.get(at, {}).get(replica, 0)
            for replica, freed in by_replica.items()
        }
        for at, by_replica in may_free.items()
    }
    normally_freed = bytes_by_log_dir(frees)
    chosen: dict[TopicPartition, None] = {}
    disks: defaultdict[LogDirKey, list[PressedLogDir]] = defaultdict(list)
    for log_dir in log_dirs:
        disks[log_dir.disk_key].append(log_dir)
    for disk in disks.values():
        keys = [log_dir.key for log_dir in disk]
        needed = max(
            pressed.until_bytes - pressed.usable_bytes - pressed.awaited_bytes for pressed in disk
        )
        needed -= _bytes_on(keys, normally_freed)
        needed -= sum(_bytes_on(keys, additional[at]) for at in chosen)
        largest_first = sorted(
            ((_bytes_on(keys, freed), at) for at, freed in additional.items() if at not in chosen),
            key=lambda candidate: (-candidate[0], candidate[1]),
        )
        for freed_on_disk, at in largest_first:
            if needed <= 0 or freed_on_disk <= 0:
                break
            chosen[at] = None
            needed -= freed_on_disk
    return frozenset(chosen)


def _bytes_on(keys: Sequence[LogDirKey], by_log_dir: Mapping[LogDirKey, int]) -> int:
    return sum(by_log_dir.get(key, 0) for key in keys)


def relief(
    rows: Sequence[PlanRow],
    snapshot: Snapshot,
    pressure: Pressure,
    undelayed: Sequence[PlanRow] | None = None,
    eager_rows: Sequence[PlanRow] = (),
) -> tuple[LogDirRelief, ...]:
    """What the plan does for each log directory under pressure.

    ``rows``: the final plan. ``undelayed``: the same plan before pause and limits; None if they
    changed nothing. Records that wait only for the end of a pause or for a limit count as
    deletable, so no directory is short of them.
    ``eager_rows``: as for `relieved`.
    """
    if not pressure.log_dirs:
        return ()
    eager_rows_at = {row.topic_partition: row for row in eager_rows}

    def freed_by(some_rows: Sequence[PlanRow]) -> dict[LogDirKey, int]:
        frees = _freed(some_rows, snapshot, pressure)
        return bytes_by_disk(pressure.log_dirs, bytes_by_log_dir(frees))

    planned = freed_by(rows)
    may_go = planned if undelayed is None else freed_by(undelayed)
    disk_keys = {log_dir.key: log_dir.disk_key for log_dir in pressure.log_dirs}
    kept: defaultdict[LogDirKey, Counter[str]] = defaultdict(Counter)
    sizes: defaultdict[LogDirKey, dict[TopicPartition, int]] = defaultdict(dict)
    eager: defaultdict[LogDirKey, dict[TopicPartition, PlanRow]] = defaultdict(dict)
    delayed: defaultdict[LogDirKey, set[Reason]] = defaultdict(set)
    for row in rows:
        at = row.topic_partition
        for folder in pressure.reading.replicas(at) or ():
            key = folder.broker, folder.log_dir
            sizes[key][at] = folder.size_bytes
            if at in eager_rows_at:
                eager[key][at] = eager_rows_at[at]
            disk = disk_keys.get(key)
            if row.dry_run:  # whatever keeps its records: they would not go without it, either
                continue
            if disk is not None and row.reason in (Reason.PAUSED, Reason.LIMIT_REACHED):
                delayed[disk].add(row.reason)
            if row.binding_group is not None and row.reason is not Reason.TOO_YOUNG:
                kept[key][row.binding_group] += int(folder.size_bytes * _kept_share(row))
    return tuple(
        LogDirRelief(
            log_dir,
            planned[log_dir.disk_key],
            max(0, log_dir.needed_bytes - max(planned[log_dir.disk_key], may_go[log_dir.disk_key])),
            dict((+kept[log_dir.key]).most_common()),
            sizes[log_dir.key],
            max(0, may_go[log_dir.disk_key] - planned[log_dir.disk_key]),
            eager[log_dir.key],
            frozenset(delayed[log_dir.disk_key]),
        )
        for log_dir in pressure.log_dirs
    )


def _kept_share(row: PlanRow) -> float:
    """The part of a partition's records that its binding group has not read; all of them if its
    commit is not known."""
    start, end, read_up_to = row.log_start_offset, row.high_watermark, row.binding_committed_offset
    if start is None or end is None or end <= start:
        return 0.0
    return (end - min(max(start, read_up_to or start), end)) / (end - start)
