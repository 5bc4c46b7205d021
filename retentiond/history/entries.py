"""From what cycles have seen to the rows of an entry.

An entry that is not whole holds only what has changed since the last one that was really written:
`RecordedState` is what that one left. Everything is compared as columns of numbers, because a
cluster may have hundreds of thousands of commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.disks.broker_disks import NO_DISKS, DiskReport
from retentiond.history.schema import COLUMNS, SCHEMA, CommitState, RowKind
from retentiond.model import DeletionOutcome, Outcome, Plan, TopicPartition
from retentiond.snapshot import ABSENT, VANISHED, GroupReading, Integers, Snapshot, partitions_of

NONE = -1
"""In place of an offset that is not there, or not known; no offset is negative."""

REPLACED = -2
"""Less an offset, in its place: one up to which the group may have read other records than those
that are there."""


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


class Deletion(NamedTuple):
    """One that was requested."""

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
    offsets: Integers  # or `NONE`, or `REPLACED` less one


NO_COMMITS = RecordedCommits(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class RecordedState:
    """What stands in the history once an entry is written.

    ``readers``: groups that are known to read a topic, and have no commit there.
    """

    groups: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    commits: RecordedCommits = NO_COMMITS
    states: Mapping[str, tuple[str, str, bool]] = field(default_factory=dict)  # as in a row
    readers: frozenset[tuple[str, str]] = frozenset()  # group and topic


NOTHING = RecordedState()


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
    offsets = table["offset"].fill_null(NONE).to_numpy().astype(np.int64)[order]
    doubtful = np.concatenate([keys_of(snapshot.stale), keys_of(_replaced(snapshot.epochs))])
    at, is_there = _places(doubtful, keys)
    at = np.unique(at[is_there])
    offsets[at] = np.where(offsets[at] == NONE, NONE, REPLACED - offsets[at])
    return RecordedState(
        groups=tuple(group.group_id for group in snapshot.groups),
        partitions=partitions,
        commits=RecordedCommits(keys, offsets),
        states={
            group.group_id: (str(group.kind), _state(group), group.failure is None)
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
    """Of groups and topics, one for each commit, in order."""
    topic_of = np.array([each.topic for each in snapshot.partitions], np.int64)
    groups = commits["group_id"].to_numpy().astype(np.int64)
    return np.sort(groups * width + topic_of[commits["partition_id"].to_numpy()])


def _state(group: GroupReading) -> str:
    if group.failure or group.problem:
        return "unreadable"
    if group.state == VANISHED:
        return "vanished"
    return "live" if group.is_live else "empty"


def deletions_of(seen: FinishedCycle) -> list[Deletion]:
    rows = {TopicPartition(row.topic, row.partition): row for row in seen.plan.rows}
    return [
        Deletion(*at, seen.plan.cycle_id, rows[at].cutoff, rows[at].records, each.outcome.value)
        for at, each in seen.outcomes.items()
        if each.outcome is not Outcome.NOT_ATTEMPTED
    ]


def day_of(epoch_ms: int) -> str:
    """In UTC, as ``YYYY-MM-DD``."""
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
    every = (
        day_of(plan.planned_at_ms),
        entry,
        plan.planned_at_ms * 1000,
        plan.cluster_id,
    )
    cycle = (
        plan.cycle_id,
        plan.complete,
        seen.result,
        plan.dry_run,
        observed_ms,
        seen.read_ms,
        before is None,
    )
    past = before or NOTHING
    parts: list[tuple[RowKind, Sequence[Any]]] = [
        (RowKind.CYCLE, [[each] for each in cycle]),
        (RowKind.PARTITION, _partitions(seen, now)),
        (RowKind.COMMIT, _moved(now, past)),
        (RowKind.GROUP, _groups(now.states, past.states)),
        (RowKind.READER, _changed_readers(now.readers, past.readers)),
        (RowKind.DELETION, _columns(deletions, RowKind.DELETION)),
        (RowKind.LOG_DIR, _columns(seen.disk.space, RowKind.LOG_DIR)),
    ]
    return pa.concat_tables([_table(kind, columns, every) for kind, columns in parts])


def _columns(rows: Iterable[Sequence[Any]], kind: RowKind) -> list[list[Any]]:
    """Of rows whose values stand in the order of the kind's columns."""
    columns: list[list[Any]] = [[] for _ in COLUMNS[kind]]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return columns


def _table(kind: RowKind, columns: Sequence[Any], every: tuple[str, int, int, str]) -> pa.Table:
    count = len(columns[0])
    given = dict(zip(COLUMNS[kind], columns, strict=True))
    same = dict(zip(("day", "entry", "at", "cluster_id", "kind"), (*every, str(kind)), strict=True))
    arrays = [
        pa.array(given[field.name], field.type)
        if field.name in given
        else pa.repeat(pa.scalar(same[field.name], field.type), count)
        if field.name in same
        else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _partitions(seen: FinishedCycle, now: RecordedState) -> list[Any]:
    readings = dict(zip(now.partitions, seen.snapshot.partitions, strict=True))
    forced = {topic.name: topic.forced_retention_ms for topic in seen.snapshot.topics}
    rows = [(TopicPartition(row.topic, row.partition), row) for row in seen.plan.rows]
    of_row = [readings.get(at) for at, _ in rows]
    return [
        [row.topic for _, row in rows],
        [row.topic_id for _, row in rows],
        [row.partition for _, row in rows],
        [row.log_start_offset for _, row in rows],
        [row.high_watermark for _, row in rows],
        [None if each is None else each.last_stable_offset for each in of_row],
        [seen.disk.size_bytes.get(at) for at, _ in rows],
        [seen.disk.remote_bytes.get(at) for at, _ in rows],
        [row.verdict.value for _, row in rows],
        [row.reason.value for _, row in rows],
        [row.groups for _, row in rows],
        [row.min_committed_offset for _, row in rows],
        [row.binding_group for _, row in rows],
        [row.cutoff for _, row in rows],
        [row.consumed_retention_ms for _, row in rows],
        [forced.get(row.topic) for _, row in rows],
    ]


def _moved(now: RecordedState, before: RecordedState) -> list[Any]:
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
    states = np.where(is_replaced, 2, np.where(offsets == NONE, 1, 0))
    states = np.concatenate([states, np.full(len(gone), 3)])
    offsets = np.where(is_replaced, REPLACED - offsets, offsets)
    keys = np.concatenate([keys, gone])
    offsets = np.concatenate([offsets, np.full(len(gone), NONE)])
    group, partition = np.divmod(keys, max(1, len(now.partitions)))
    columns = [
        _taken([each.topic for each in now.partitions], partition, pa.string()),
        _taken([each.partition for each in now.partitions], partition, pa.int32()),
        _taken(now.groups, group, pa.string()),
        pa.array(offsets, mask=offsets == NONE),
        _taken([*CommitState, None], states, pa.string()),
    ]
    if not lost:
        return columns
    others = (
        pa.array([at.topic for _, at in lost], pa.string()),
        pa.array([at.partition for _, at in lost], pa.int32()),
        pa.array([group_id for group_id, _ in lost], pa.string()),
        pa.nulls(len(lost), pa.int64()),
        pa.nulls(len(lost), pa.string()),
    )
    return [pa.concat_arrays(pair) for pair in zip(columns, others, strict=True)]


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
    """Of the commits of before: today's positions of group and partition, -1 where it is gone."""
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


def _groups(
    now: Mapping[str, tuple[str, str, bool]], before: Mapping[str, tuple[str, str, bool]]
) -> list[list[Any]]:
    rows: list[tuple[str, str, str | None, bool | None]] = [
        (group, *state) for group, state in now.items() if before.get(group) != state
    ]
    rows += [(group, before[group][0], None, None) for group in before.keys() - now.keys()]
    return _columns(rows, RowKind.GROUP)


def _changed_readers(
    now: frozenset[tuple[str, str]], before: frozenset[tuple[str, str]]
) -> list[list[Any]]:
    rows: list[tuple[str, str, str | None]] = [
        (topic, group, "live") for group, topic in sorted(now - before)
    ]
    rows += [(topic, group, None) for group, topic in sorted(before - now)]
    return _columns(rows, RowKind.READER)
