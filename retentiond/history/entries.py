"""Turns a finished cycle into the rows of an entry.

An entry that is not whole has only the changes since the last entry that was written.
`RecordedState` is the state that the history tells after that entry. States are compared as columns
of numbers, because a cluster may have hundreds of thousands of commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.history.schema import COLUMNS, PLAN_FIELDS, SCHEMA, CommitState, RowKind
from retentiond.model import DeletionOutcome, Outcome, Plan, TopicPartition
from retentiond.snapshot import (
    ABSENT,
    Integers,
    Snapshot,
    partitions_of,
    positions_of_names,
    topics_of,
)

NO_OFFSET = -1
"""Stands for an offset that is missing or not known."""

REPLACED = -2
"""``REPLACED - offset`` stands for a commit at this offset whose records may have been replaced
since the group read them."""


@dataclass(frozen=True, slots=True)
class FinishedCycle:
    """A cycle that has ended. ``plan``: with the guard's holds. ``result``: from `result_of`.
    ``read_ms``: how long its first reading took. ``took_ms``: how long the cycle took."""

    plan: Plan
    outcomes: Mapping[TopicPartition, DeletionOutcome]
    result: str
    snapshot: Snapshot
    disk: DiskReport = NO_DISKS
    read_ms: int = 0
    took_ms: int = 0


Columns: TypeAlias = Mapping[str, Any]
"""The values of rows, by the names of the history's columns; empty if there are no rows."""


class Deletion(NamedTuple):
    """A deletion that was requested, with the columns of its row."""

    topic: str
    partition: int
    cycle_id: str
    cutoff: int | None
    records: int
    outcome: str


class RecordedCommits(NamedTuple):
    """Commits as columns, one row for each group and partition, sorted by ``keys``.

    A key is the group's position times the number of partitions, plus the partition's position.
    """

    keys: Integers
    offsets: Integers  # an offset, `NO_OFFSET`, or `REPLACED` - offset


class GroupRecord(NamedTuple):
    """The columns of a group's row; None if the group counts no longer."""

    group_kind: str
    state: str | None
    complete: bool | None


NO_COMMITS = RecordedCommits(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class RecordedState:
    """The state that the history tells once an entry is written.

    ``readers``: groups that are known to read a topic and have no commit there.
    """

    groups: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    commits: RecordedCommits = NO_COMMITS
    states: Mapping[str, GroupRecord] = field(default_factory=dict)
    readers: frozenset[tuple[str, str]] = frozenset()  # group and topic


NOTHING_RECORDED = RecordedState()


def recorded_state(snapshot: Snapshot) -> RecordedState:
    partitions = tuple(partitions_of(snapshot))

    def keys_of(table: pa.Table) -> Integers:
        keys: Integers = table["group_id"].to_numpy().astype(np.int64) * len(partitions)
        keys += table["partition_id"].to_numpy()
        return keys

    table = snapshot.commits
    keys = keys_of(table)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    offsets = table["offset"].fill_null(NO_OFFSET).to_numpy().astype(np.int64)[order]
    doubtful = np.concatenate([keys_of(snapshot.stale), keys_of(_replaced(snapshot.epochs))])
    at, is_found = _find(doubtful, keys)
    at = np.unique(at[is_found])
    offsets[at] = np.where(offsets[at] == NO_OFFSET, NO_OFFSET, REPLACED - offsets[at])
    return RecordedState(
        groups=tuple(group.group_id for group in snapshot.groups),
        partitions=partitions,
        commits=RecordedCommits(keys, offsets),
        states={
            group.group_id: GroupRecord(
                str(group.kind), group.condition.value, group.failure is None
            )
            for group in snapshot.groups
            if group.state != ABSENT
        },
        readers=_readers(snapshot),
    )


def _replaced(epochs: pa.Table) -> pa.Table:
    """The commits (`EPOCH_SCHEMA`) for which the leader doesn't prove that the log still has the
    records that were read. Commits of share groups may be among them needlessly."""
    is_same = pc.equal(epochs["known_epoch"], epochs["leader_epoch"])
    holds = pc.and_(is_same, pc.greater_equal(epochs["end_offset"], epochs["offset"]))
    holds = pc.or_kleene(holds, pc.equal(epochs["end_offset"], epochs["offset"]))
    return epochs.filter(pc.invert(pc.fill_null(holds, False)))


def _readers(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """Groups that read a topic without a commit there, with the topic. A pair is the group's
    position times the number of topics, plus the topic's position."""
    topics = max(1, len(snapshot.topics))
    without_offsets = snapshot.readers | snapshot.remembered_readers
    pairs = [group * topics + topic for group, topic in without_offsets]
    remembered = _pairs(snapshot, snapshot.remembered, topics)
    all_pairs = np.concatenate([np.array(pairs, np.int64), remembered])
    _, has_commit = _find(all_pairs, _pairs(snapshot, snapshot.commits, topics))
    return frozenset(
        (snapshot.groups[pair // topics].group_id, snapshot.topics[pair % topics].name)
        for pair in all_pairs[~has_commit].tolist()
    )


def _pairs(snapshot: Snapshot, commits: pa.Table, topics: int) -> Integers:
    """The pair of group and topic of each commit, sorted. ``topics``: their number."""
    groups = commits["group_id"].to_numpy().astype(np.int64)
    return np.sort(groups * topics + topics_of(snapshot)[commits["partition_id"].to_numpy()])


def deletions_of(seen: FinishedCycle) -> list[Deletion]:
    rows = {row.topic_partition: row for row in seen.plan.rows}
    return [
        Deletion(
            topic=at.topic,
            partition=at.partition,
            cycle_id=seen.plan.cycle_id,
            cutoff=rows[at].cutoff,
            records=rows[at].records,
            outcome=outcome.outcome.value,
        )
        for at, outcome in seen.outcomes.items()
        if outcome.outcome is not Outcome.NOT_ATTEMPTED
    ]


def day_of(epoch_ms: int) -> str:
    """The day in UTC, as ``YYYY-MM-DD``."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d")


def rows_of(
    seen: FinishedCycle,
    now: RecordedState,
    before: RecordedState | None,
    *,
    entry: int,
    deletions: Sequence[Deletion],
    observed_ms: int | None,
) -> pa.Table:
    """The entry's rows, with the columns of `SCHEMA`. ``before`` is None for a whole entry."""
    plan = seen.plan
    of_all_rows = {
        "day": day_of(plan.planned_at_ms),
        "entry": entry,
        "at": plan.planned_at_ms * 1000,
        "cluster_id": plan.cluster_id,
    }
    cycle = {
        "cycle_id": plan.cycle_id,
        "complete": plan.complete,
        "result": seen.result,
        "dry_run": plan.dry_run,
        "observed_ms": observed_ms,
        "read_ms": seen.read_ms,
        "is_whole": before is None,
    }
    past = before or NOTHING_RECORDED
    parts: dict[RowKind, Columns] = {
        RowKind.CYCLE: {name: [value] for name, value in cycle.items()},
        RowKind.PARTITION: _partitions(seen, now),
        RowKind.COMMIT: _changed_commits(now, past),
        RowKind.GROUP: _changed_groups(now.states, past.states),
        RowKind.READER: _changed_readers(now.readers, past.readers),
        RowKind.DELETION: _columns(deletion._asdict() for deletion in deletions),
        RowKind.LOG_DIR: _columns(log_dir._asdict() for log_dir in seen.disk.space),
    }
    return pa.concat_tables([_table(kind, columns, of_all_rows) for kind, columns in parts.items()])


def _columns(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """The columns of rows that all have the same names; empty if there are no rows."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def _table(kind: RowKind, columns: Columns, of_all_rows: Mapping[str, Any]) -> pa.Table:
    """The rows of a kind. ``of_all_rows``: values that all rows of the entry have. Raises
    ValueError unless ``columns`` are those of the kind."""
    if columns and columns.keys() != set(COLUMNS[kind]):
        raise ValueError(f"a row of kind {kind} has no {set(COLUMNS[kind]) ^ columns.keys()}")
    count = len(next(iter(columns.values()), ()))
    constants = {**of_all_rows, "kind": str(kind)}
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.repeat(pa.scalar(constants[field.name], field.type), count)
        if field.name in constants
        else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _partitions(seen: FinishedCycle, now: RecordedState) -> Columns:
    readings = dict(zip(now.partitions, seen.snapshot.partitions, strict=True))
    forced = {topic.name: topic.forced_retention_ms for topic in seen.snapshot.topics}
    rows = seen.plan.rows
    partitions = [row.topic_partition for row in rows]
    log_dirs_texts = {
        log_dirs: json.dumps([f"{broker}:{path}" for broker, path in log_dirs])
        for log_dirs in set(seen.disk.log_dirs.values())
    }
    readings_of_rows = [readings.get(at) for at in partitions]
    return {
        **{name: [getattr(row, name) for row in rows] for name, _ in PLAN_FIELDS},
        "last_stable_offset": [
            None if reading is None else reading.last_stable_offset for reading in readings_of_rows
        ],
        "size_bytes": [seen.disk.size_bytes.get(at) for at in partitions],
        "log_dirs": [
            None if (log_dirs := seen.disk.log_dirs.get(at)) is None else log_dirs_texts[log_dirs]
            for at in partitions
        ],
        "remote_bytes": [seen.disk.remote_bytes.get(at) for at in partitions],
        "forced_retention_ms": [forced.get(row.topic) for row in rows],
    }


def _changed_commits(now: RecordedState, before: RecordedState) -> Columns:
    """Commits that are new or have moved, and commits that are gone."""
    old = _renumbered_commits(now, before)
    at, is_known = _find(now.commits.keys, old.keys)
    is_changed = ~is_known
    is_changed[is_known] = old.offsets[at[is_known]] != now.commits.offsets[is_known]
    keys, offsets = now.commits.keys[is_changed], now.commits.offsets[is_changed]
    _, is_still_there = _find(old.keys, now.commits.keys)
    gone = old.keys[~is_still_there]
    lost = _commits_of_lost(now, before)
    is_replaced = offsets <= REPLACED
    states = np.where(is_replaced, 2, np.where(offsets == NO_OFFSET, 1, 0))
    states = np.concatenate([states, np.full(len(gone), 3)])
    offsets = np.where(is_replaced, REPLACED - offsets, offsets)
    keys = np.concatenate([keys, gone])
    offsets = np.concatenate([offsets, np.full(len(gone), NO_OFFSET)])
    group, partition = np.divmod(keys, max(1, len(now.partitions)))
    columns = {
        "topic": _taken([each.topic for each in now.partitions], partition, pa.string()),
        "partition": _taken([each.partition for each in now.partitions], partition, pa.int32()),
        "group": _taken(now.groups, group, pa.string()),
        "committed_offset": pa.array(offsets, mask=offsets == NO_OFFSET),
        "state": _taken([*CommitState, None], states, pa.string()),
    }
    if not lost:
        return columns
    others = {
        "topic": pa.array([at.topic for _, at in lost], pa.string()),
        "partition": pa.array([at.partition for _, at in lost], pa.int32()),
        "group": pa.array([group_id for group_id, _ in lost], pa.string()),
        "committed_offset": pa.nulls(len(lost), pa.int64()),
        "state": pa.nulls(len(lost), pa.string()),
    }
    return {name: pa.concat_arrays([columns[name], others[name]]) for name in columns}


def _taken(values: Sequence[Any], at: Integers, kind: Any) -> Any:
    return pa.array(values, kind).take(pa.array(at))


def _find(keys: Integers, ordered: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """For each key, its position in ``ordered``, and whether it is there."""
    at = np.searchsorted(ordered, keys)
    if not len(ordered):
        return at, np.zeros(len(keys), bool)
    at = np.minimum(at, len(ordered) - 1)
    return at, ordered[at] == keys


def _renumbered_commits(now: RecordedState, before: RecordedState) -> RecordedCommits:
    """The earlier commits with the present positions of groups and partitions, without those whose
    group or partition is gone."""
    if (before.groups, before.partitions) == (now.groups, now.partitions):
        return before.commits
    group, partition = _positions(now, before)
    kept = (group >= 0) & (partition >= 0)
    keys = group[kept] * len(now.partitions) + partition[kept]
    order = np.argsort(keys, kind="stable")
    return RecordedCommits(keys[order], before.commits.offsets[kept][order])


def _positions(now: RecordedState, before: RecordedState) -> tuple[Integers, Integers]:
    """The present positions of the earlier commits' groups and partitions; -1 if they are gone."""
    groups, partitions = np.divmod(before.commits.keys, max(1, len(before.partitions)))
    return (
        positions_of_names(before.groups, now.groups)[groups],
        positions_of_names(before.partitions, now.partitions)[partitions],
    )


def _commits_of_lost(now: RecordedState, before: RecordedState) -> list[tuple[str, TopicPartition]]:
    """Earlier commits whose group or partition is gone."""
    if (before.groups, before.partitions) == (now.groups, now.partitions):
        return []
    group, partition = _positions(now, before)
    keys = before.commits.keys[(group < 0) | (partition < 0)].tolist()
    return [
        (before.groups[group], before.partitions[partition])
        for group, partition in (divmod(key, len(before.partitions)) for key in keys)
    ]


def _changed_groups(now: Mapping[str, GroupRecord], before: Mapping[str, GroupRecord]) -> Columns:
    changed = [(group, record) for group, record in now.items() if before.get(group) != record]
    gone = [
        (group, GroupRecord(before[group].group_kind, None, None))
        for group in before.keys() - now.keys()
    ]
    return _columns({"group": group, **record._asdict()} for group, record in [*changed, *gone])


def _changed_readers(
    now: frozenset[tuple[str, str]], before: frozenset[tuple[str, str]]
) -> Columns:
    new = [(pair, "live") for pair in sorted(now - before)]
    gone = [(pair, None) for pair in sorted(before - now)]
    return _columns(
        {"topic": topic, "group": group, "state": state} for (group, topic), state in [*new, *gone]
    )
