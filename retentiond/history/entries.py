"""From what cycles have seen to the rows of an entry.

An entry that is not whole holds only what has changed since the last one that was really written:
`RecordedState` is what that one left. Everything is compared as columns of numbers, because a
cluster may have hundreds of thousands of commits.
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
from retentiond.snapshot import ABSENT, Integers, Snapshot, partitions_of

NO_OFFSET = -1
"""Stands for an offset that is not there, or not known; no offset is negative."""

REPLACED = -2
"""`REPLACED` less an offset stands for a commit at that offset whose records may have been replaced
since the group read them."""


@dataclass(frozen=True, slots=True)
class FinishedCycle:
    """What a cycle leaves. ``plan``: as it was carried out; ``result``: `result_of` it.
    ``read_ms``: how long its first reading took; ``took_ms``: all of it."""

    plan: Plan
    outcomes: Mapping[TopicPartition, DeletionOutcome]
    result: str
    snapshot: Snapshot
    disk: DiskReport = NO_DISKS
    read_ms: int = 0
    took_ms: int = 0


Columns: TypeAlias = Mapping[str, Any]
"""Values by the names of the history's columns; nothing where there is no row."""


class Deletion(NamedTuple):
    """One that was requested, as a row says it."""

    topic: str
    partition: int
    cycle_id: str
    cutoff: int | None
    records: int
    outcome: str


class RecordedCommits(NamedTuple):
    """Columns, one row for each group and partition; ``keys`` are in order.

    A key is the group's position times the number of partitions, plus the partition's position.
    """

    keys: Integers
    offsets: Integers  # or `NO_OFFSET`, or `REPLACED` less one


class GroupRecord(NamedTuple):
    """What a row of a group says; None: it counts no more."""

    group_kind: str
    state: str | None
    complete: bool | None


NO_COMMITS = RecordedCommits(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class RecordedState:
    """What stands in the history once an entry is written.

    ``readers``: groups that are known to read a topic, and have no commit there.
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
    at, is_there = _places(doubtful, keys)
    at = np.unique(at[is_there])
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
    """Those of `EPOCH_SCHEMA` of which the leader does not bear out that the log holds what was
    read. A share group's may be among them needlessly."""
    is_same = pc.equal(epochs["known_epoch"], epochs["leader_epoch"])
    holds = pc.and_(is_same, pc.greater_equal(epochs["end_offset"], epochs["offset"]))
    holds = pc.or_kleene(holds, pc.equal(epochs["end_offset"], epochs["offset"]))
    return epochs.filter(pc.invert(pc.fill_null(holds, False)))


def _readers(snapshot: Snapshot) -> frozenset[tuple[str, str]]:
    """A pair is the group's position times the number of topics, plus the topic's position."""
    width = max(1, len(snapshot.topics))
    others = snapshot.readers | snapshot.remembered_readers
    pairs = [group * width + topic for group, topic in others]
    remembered = _pairs(snapshot, snapshot.remembered, width)
    every = np.concatenate([np.array(pairs, np.int64), remembered])
    _, has_commit = _places(every, _pairs(snapshot, snapshot.commits, width))
    return frozenset(
        (snapshot.groups[pair // width].group_id, snapshot.topics[pair % width].name)
        for pair in every[~has_commit].tolist()
    )


def _pairs(snapshot: Snapshot, commits: pa.Table, width: int) -> Integers:
    """The groups and topics of the commits, one for each commit, in order."""
    topic_of = np.array([each.topic for each in snapshot.partitions], np.int64)
    groups = commits["group_id"].to_numpy().astype(np.int64)
    return np.sort(groups * width + topic_of[commits["partition_id"].to_numpy()])


def deletions_of(seen: FinishedCycle) -> list[Deletion]:
    rows = {row.topic_partition: row for row in seen.plan.rows}
    return [
        Deletion(
            topic=at.topic,
            partition=at.partition,
            cycle_id=seen.plan.cycle_id,
            cutoff=rows[at].cutoff,
            records=rows[at].records,
            outcome=each.outcome.value,
        )
        for at, each in seen.outcomes.items()
        if each.outcome is not Outcome.NOT_ATTEMPTED
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
    """The entry's rows, with the columns of `SCHEMA`. ``before`` is None for a whole one."""
    plan = seen.plan
    every = {
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
        RowKind.COMMIT: _moved(now, past),
        RowKind.GROUP: _groups(now.states, past.states),
        RowKind.READER: _changed_readers(now.readers, past.readers),
        RowKind.DELETION: _columns(each._asdict() for each in deletions),
        RowKind.LOG_DIR: _columns(each._asdict() for each in seen.disk.space),
    }
    return pa.concat_tables([_table(kind, columns, every) for kind, columns in parts.items()])


def _columns(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """The columns of rows that all have the same names; without rows there is none."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def _table(kind: RowKind, given: Columns, every: Mapping[str, Any]) -> pa.Table:
    """Raises ValueError for columns that are not all of the kind's."""
    if given and given.keys() != set(COLUMNS[kind]):
        raise ValueError(f"a row of kind {kind} has no {set(COLUMNS[kind]) ^ given.keys()}")
    count = len(next(iter(given.values()), ()))
    same = {**every, "kind": str(kind)}
    arrays = [
        pa.array(given[field.name], field.type)
        if field.name in given
        else pa.repeat(pa.scalar(same[field.name], field.type), count)
        if field.name in same
        else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _partitions(seen: FinishedCycle, now: RecordedState) -> Columns:
    readings = dict(zip(now.partitions, seen.snapshot.partitions, strict=True))
    forced = {topic.name: topic.forced_retention_ms for topic in seen.snapshot.topics}
    rows = seen.plan.rows
    places = [row.topic_partition for row in rows]
    written = {
        log_dirs: json.dumps([f"{broker}:{path}" for broker, path in log_dirs])
        for log_dirs in set(seen.disk.log_dirs.values())
    }
    of_row = [readings.get(at) for at in places]
    return {
        **{name: [getattr(row, name) for row in rows] for name, _ in PLAN_FIELDS},
        "last_stable_offset": [
            None if each is None else each.last_stable_offset for each in of_row
        ],
        "size_bytes": [seen.disk.size_bytes.get(at) for at in places],
        "log_dirs": [
            None if (log_dirs := seen.disk.log_dirs.get(at)) is None else written[log_dirs]
            for at in places
        ],
        "remote_bytes": [seen.disk.remote_bytes.get(at) for at in places],
        "forced_retention_ms": [forced.get(row.topic) for row in rows],
    }


def _moved(now: RecordedState, before: RecordedState) -> Columns:
    """Commits that are new or elsewhere, and those that are not there any more."""
    old = _in_terms_of(now, before)
    at, is_known = _places(now.commits.keys, old.keys)
    is_new = ~is_known
    is_new[is_known] = old.offsets[at[is_known]] != now.commits.offsets[is_known]
    keys, offsets = now.commits.keys[is_new], now.commits.offsets[is_new]
    _, is_still = _places(old.keys, now.commits.keys)
    gone = old.keys[~is_still]
    lost = _unknown_to(now, before)
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


def _places(keys: Integers, among: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Where each stands among those others, which are in order, and whether it is there."""
    at = np.searchsorted(among, keys)
    if not len(among):
        return at, np.zeros(len(keys), bool)
    at = np.minimum(at, len(among) - 1)
    return at, among[at] == keys


def _in_terms_of(now: RecordedState, before: RecordedState) -> RecordedCommits:
    """The commits of before by today's positions, less those that have none."""
    if (before.groups, before.partitions) == (now.groups, now.partitions):
        return before.commits
    group, partition = _positions(now, before)
    kept = (group >= 0) & (partition >= 0)
    keys = group[kept] * len(now.partitions) + partition[kept]
    order = np.argsort(keys, kind="stable")
    return RecordedCommits(keys[order], before.commits.offsets[kept][order])


def _positions(now: RecordedState, before: RecordedState) -> tuple[Integers, Integers]:
    """Where the earlier commits' groups and partitions stand today; -1: gone."""
    groups, partitions = np.divmod(before.commits.keys, max(1, len(before.partitions)))
    return (
        _renumbered(before.groups, now.groups)[groups],
        _renumbered(before.partitions, now.partitions)[partitions],
    )


def _renumbered(before: Sequence[Any], now: Sequence[Any]) -> Integers:
    places = {name: at for at, name in enumerate(now)}
    return np.array([places.get(name, -1) for name in before], np.int64)


def _unknown_to(now: RecordedState, before: RecordedState) -> list[tuple[str, TopicPartition]]:
    """Commits of before whose group or partition is not there any more."""
    if (before.groups, before.partitions) == (now.groups, now.partitions):
        return []
    group, partition = _positions(now, before)
    keys = before.commits.keys[(group < 0) | (partition < 0)].tolist()
    return [
        (before.groups[group], before.partitions[partition])
        for group, partition in (divmod(key, len(before.partitions)) for key in keys)
    ]


def _groups(now: Mapping[str, GroupRecord], before: Mapping[str, GroupRecord]) -> Columns:
    changed = [(group, each) for group, each in now.items() if before.get(group) != each]
    gone = [
        (group, GroupRecord(before[group].group_kind, None, None))
        for group in before.keys() - now.keys()
    ]
    return _columns({"group": group, **each._asdict()} for group, each in [*changed, *gone])


def _changed_readers(
    now: frozenset[tuple[str, str]], before: frozenset[tuple[str, str]]
) -> Columns:
    come = [(pair, "live") for pair in sorted(now - before)]
    gone = [(pair, None) for pair in sorted(before - now)]
    return _columns(
        {"topic": topic, "group": group, "state": state} for (group, topic), state in [*come, *gone]
    )
