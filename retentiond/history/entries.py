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
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.fields import document_of
from retentiond.history.schema import COLUMNS, PLAN_FIELDS, SCHEMA, CommitState, RowKind
from retentiond.model import DeletionOutcome, Outcome, Plan, TopicPartition
from retentiond.snapshot import (
    ABSENT,
    NOWHERE,
    Integers,
    Snapshot,
    current,
    distinct,
    keys_of_commits,
    numbered,
    pairs_of,
    partitions_of,
    positions_of_names,
    rows_among,
    values_at,
)

NO_OFFSET = -1
"""An offset that is missing or not known."""

NO_COMMIT = np.iinfo(np.int64).min
"""No commit at all."""

REPLACED = -2
"""``REPLACED - offset``: a commit at this offset whose records may have been replaced since the
group read them."""


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
    now = current(snapshot.commits)
    keys = keys_of_commits(now, len(partitions))
    offsets = now["offset"].fill_null(NO_OFFSET).to_numpy()
    is_doubtful = pc.or_(now["is_replaced"], now["is_stale"]).to_numpy()
    offsets = np.where(is_doubtful & (offsets != NO_OFFSET), REPLACED - offsets, offsets)
    order = np.argsort(keys, kind="stable")
    keys, offsets = keys[order], offsets[order]
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


def _readers(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """Groups that read a topic without a commit there, with the topic."""
    without_offsets = numbered(snapshot, snapshot.readers | snapshot.remembered_readers)
    gone = snapshot.commits.filter(pc.invert(snapshot.commits["is_committed"]))
    pairs = np.append(without_offsets, distinct(pairs_of(snapshot, gone)))
    committed = distinct(pairs_of(snapshot, current(snapshot.commits)))
    topics = len(snapshot.topics)
    return frozenset(
        (snapshot.groups[pair // topics].group_id, snapshot.topics[pair % topics].name)
        for pair in pairs[~np.isin(pairs, committed)].tolist()
    )


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
        RowKind.LOG_DIR: _columns(map(document_of, seen.disk.space)),
    }
    return pa.concat_tables([_table(kind, columns, of_all_rows) for kind, columns in parts.items()])


def _columns(rows: Iterable[Mapping[str, Any]]) -> Columns:
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
        **{field.name: [*map(field.of, rows)] for field in PLAN_FIELDS},
        "last_stable_offset": [
            None if reading is None else reading.last_stable_offset for reading in readings_of_rows
        ],
        "size_bytes": [seen.disk.size_bytes.get(at) for at in partitions],
        "log_dirs": [
            None if (log_dirs := seen.disk.log_dirs.get(at)) is None else log_dirs_texts[log_dirs]
            for at in partitions
        ],
        "forced_retention_ms": [forced.get(row.topic) for row in rows],
    }


def _changed_commits(now: RecordedState, before: RecordedState) -> Columns:
    groups = (*now.groups, *sorted({*before.groups} - {*now.groups}))
    partitions = (*now.partitions, *sorted({*before.partitions} - {*now.partitions}))
    new, old = (_renumbered(columns, groups, partitions) for columns in (now, before))
    at = rows_among(new.keys, old.keys)
    is_changed = values_at(old.offsets, at, NO_COMMIT) != new.offsets
    gone = old.keys[rows_among(old.keys, new.keys) == NOWHERE]
    offsets = np.concatenate([new.offsets[is_changed], np.full(len(gone), NO_COMMIT)])
    is_replaced = (offsets <= REPLACED) & (offsets != NO_COMMIT)
    states = np.where(is_replaced, 2, np.where(offsets == NO_OFFSET, 1, 0))
    states[offsets == NO_COMMIT] = 3
    offsets = np.where(is_replaced, REPLACED - offsets, offsets)
    group, partition = np.divmod(
        np.concatenate([new.keys[is_changed], gone]), max(1, len(partitions))
    )
    return {
        "topic": _taken([reading.topic for reading in partitions], partition, pa.string()),
        "partition": _taken([reading.partition for reading in partitions], partition, pa.int32()),
        "group": _taken(groups, group, pa.string()),
        "committed_offset": pa.array(offsets, mask=offsets < 0),
        "state": _taken([*CommitState, None], states, pa.string()),
    }


def _taken(values: Sequence[Any], at: Integers, kind: Any) -> Any:
    return pa.array(values, kind).take(pa.array(at))


def _renumbered(
    state: RecordedState, groups: tuple[str, ...], partitions: tuple[TopicPartition, ...]
) -> RecordedCommits:
    """With the positions of their groups and partitions among these."""
    if (state.groups, state.partitions) == (groups, partitions):
        return state.commits
    group, partition = np.divmod(state.commits.keys, max(1, len(state.partitions)))
    keys = positions_of_names(state.groups, groups)[group] * len(partitions)
    keys += positions_of_names(state.partitions, partitions)[partition]
    order = np.argsort(keys, kind="stable")
    return RecordedCommits(keys[order], state.commits.offsets[order])


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
