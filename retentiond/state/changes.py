"""What a cycle has seen that is not yet remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from retentiond.collect.agreement import known_topics
from retentiond.collect.remembered import (
    GroupOnTopic,
    KnownTopic,
    LastCommits,
    Remembered,
    is_forgotten,
)
from retentiond.collect.snapshot import Snapshot
from retentiond.model import GroupKind

NOWHERE = -1
"""No position and no offset."""


@dataclass(frozen=True, slots=True)
class Changes:
    """In the order in which they apply.

    ``void_topics`` were recreated, and lose all that was known of their groups; ``topics``
    replace what was remembered; so do ``found``, which were not remembered, and ``seen``, which
    were, if nobody has released them meanwhile; ``absent`` are missing for the first time, at
    ``now_ms``; ``forgotten`` are missing for longer than their policy waits.
    """

    now_ms: int
    void_topics: tuple[str, ...]
    topics: Mapping[str, KnownTopic]
    found: Mapping[GroupOnTopic, LastCommits]
    seen: Mapping[GroupOnTopic, LastCommits]
    absent: tuple[GroupOnTopic, ...]
    forgotten: tuple[GroupOnTopic, ...]

    def __bool__(self) -> bool:
        return any(
            (self.void_topics, self.topics, self.found, self.seen, self.absent, self.forgotten)
        )


def changes(snapshot: Snapshot, before: Remembered, settle_cycles: int) -> Changes:
    """From what was remembered to what is to be."""
    void = {topic.name for topic in snapshot.topics if topic.recreated}
    known = {at: last for at, last in before.commits.items() if at.topic not in void}
    present = _present(snapshot, known)
    policies = {topic.name: topic.policy for topic in snapshot.topics if topic.failure is None}
    missing = _missing(snapshot, known, present)
    return Changes(
        now_ms=snapshot.taken_at_ms,
        void_topics=tuple(sorted(void)),
        topics={
            name: topic
            for name, topic in known_topics(snapshot, before, settle_cycles).items()
            if topic != before.topics.get(name)
        },
        found={at: last for at, last in present.items() if at not in known},
        seen={
            **{at: last for at, last in present.items() if at in known and last != known[at]},
            **_back_in_doubt(snapshot, known, present),
        },
        absent=tuple(at for at, last in missing.items() if last.absent_since_ms is None),
        forgotten=tuple(
            at
            for at, last in missing.items()
            if is_forgotten(policies[at.topic], last, snapshot.taken_at_ms)
        ),
    )


def _present(
    snapshot: Snapshot, known: Mapping[GroupOnTopic, LastCommits]
) -> dict[GroupOnTopic, LastCommits]:
    """What is to be remembered of the groups that have a commit on a topic."""
    topic_of = np.array([reading.topic for reading in snapshot.partitions], np.int64)
    pairs = _column(snapshot.commits, "group_id") * len(snapshot.topics)
    pairs += topic_of[_column(snapshot.commits, "partition_id")]
    moved = {*pairs[~_is_remembered(snapshot)].tolist()}
    present: dict[GroupOnTopic, LastCommits] = {}
    changed: dict[int, GroupOnTopic] = {}
    for pair in np.unique(pairs).tolist():
        group_id, topic_id = divmod(pair, len(snapshot.topics))
        group = snapshot.groups[group_id]
        at = GroupOnTopic(group.group_id, snapshot.topics[topic_id].name)
        last = known.get(at, LastCommits(group.kind, {}))
        present[at] = last
        if pair in moved or not _says_all(last, group.kind):
            changed[pair] = at
    offsets: dict[GroupOnTopic, dict[int, int]] = {at: {} for at in changed.values()}
    is_changed = np.isin(pairs, [*changed])
    rows = snapshot.commits.filter(pa.array(is_changed))
    columns = (rows[name].to_pylist() for name in ("partition_id", "offset"))
    for pair, partition_id, offset in zip(pairs[is_changed].tolist(), *columns, strict=True):
        if offset is not None:
            offsets[changed[pair]][partition_id] = offset
    for pair, at in changed.items():
        kind = snapshot.groups[pair // len(snapshot.topics)].kind
        present[at] = _renewed(snapshot, present[at], kind, offsets[at])
    return present


def _is_remembered(snapshot: Snapshot) -> npt.NDArray[np.bool_]:
    """Of each row of the commits, whether it is remembered as it is."""
    width = len(snapshot.partitions)
    now, before = (
        _column(table, "group_id") * width + _column(table, "partition_id")
        for table in (snapshot.commits, snapshot.remembered)
    )
    order = np.argsort(before)
    keys = np.append(before[order], NOWHERE)
    offsets = np.append(_column(snapshot.remembered, "offset")[order], NOWHERE)
    at = np.searchsorted(before[order], now)
    same = offsets[at] == snapshot.commits["offset"].fill_null(NOWHERE).to_numpy()
    remembered: npt.NDArray[np.bool_] = (keys[at] == now) & same
    return remembered


def _column(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    column: npt.NDArray[np.int64] = table[name].to_numpy().astype(np.int64)
    return column


def _says_all(last: LastCommits, kind: GroupKind) -> bool:
    """Whether a group that has not moved has nothing to add."""
    is_dated = last.offsets.keys() <= last.moved_at_ms.keys()
    return last.kind is kind and last.absent_since_ms is None and is_dated


def _renewed(
    snapshot: Snapshot, last: LastCommits, kind: GroupKind, now: Mapping[int, int]
) -> LastCommits:
    """With the offsets of ``now``, by the partition's position."""
    kept = {}
    for partition_id, offset in now.items():
        reading = snapshot.partitions[partition_id]
        before = last.offsets.get(reading.partition)
        kept[reading.partition] = _kept(offset, before, reading.log_start_offset)
    return LastCommits(
        kind,
        {**last.offsets, **kept},
        moved_at_ms=_moved_at_ms(last, kept, snapshot.taken_at_ms),
    )


def _moved_at_ms(before: LastCommits, kept: Mapping[int, int], now_ms: int) -> dict[int, int]:
    """When each commit was first seen where it is kept."""
    return {
        **before.moved_at_ms,
        **{
            partition: now_ms
            for partition, offset in kept.items()
            if offset != before.offsets.get(partition) or partition not in before.moved_at_ms
        },
    }


def _kept(offset: int, before: int | None, log_start: int | None) -> int:
    """The commit of now, unless the group went back to where its records are gone.

    That must stay visible for as long as it lasts, so the higher commit stays remembered.
    """
    if before is None or log_start is None or offset >= min(before, log_start):
        return offset
    return before


def _back_in_doubt(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, LastCommits],
    present: Mapping[GroupOnTopic, LastCommits],
) -> dict[GroupOnTopic, LastCommits]:
    """Groups that were absent and are listed now, but can't be read: their absence ends here, or
    a later one would seem to have begun back then."""
    failed = _failed(snapshot)
    return {
        at: replace(last, absent_since_ms=None)
        for at, last in known.items()
        if at not in present and last.absent_since_ms is not None and at.group_id in failed
    }


def _missing(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, LastCommits],
    present: Mapping[GroupOnTopic, LastCommits],
) -> dict[GroupOnTopic, LastCommits]:
    """Remembered groups that have no commit any more, if the reading is able to say so."""
    if not snapshot.complete:
        return {}
    readable = {topic.name for topic in snapshot.topics if topic.failure is None}
    failed = _failed(snapshot)
    return {
        at: last
        for at, last in known.items()
        if at not in present and at.topic in readable and at.group_id not in failed
    }


def _failed(snapshot: Snapshot) -> set[str]:
    return {group.group_id for group in snapshot.groups if group.failure is not None}
