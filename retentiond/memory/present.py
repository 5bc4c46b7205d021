"""The readers that a reading shows, and what to remember of them.

Nearly all of it is known already: the same readers with the same commits. Arrays of positions are
compared to find these readers, and only the other ones become objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from retentiond.memory.known_readers import KnownReaders
from retentiond.memory.remembered import (
    GroupOnTopic,
    ReaderName,
    RememberedReader,
    group_and_topic,
    unique_runs,
)
from retentiond.model import GroupKind
from retentiond.snapshot import NOWHERE, Integers, Snapshot, offsets_beside

TopicsByReader = Mapping[ReaderName, Set[str]]
"""The topics that each reader reads."""


NOBODY: TopicsByReader = {}


class Present(NamedTuple):
    """``readers``: the readers that have a commit on a topic, or may read it, as they are to be
    remembered; without those that the reading leaves unchanged. ``unchanged`` flags these in the
    order of `KnownReaders.at`."""

    readers: dict[GroupOnTopic, RememberedReader]
    unchanged: npt.NDArray[np.bool_]


def present_readers(
    snapshot: Snapshot,
    known: Mapping[GroupOnTopic, RememberedReader],
    index: KnownReaders,
    but: TopicsByReader = NOBODY,
) -> Present:
    """Compares a reading with the memory. ``index`` has the remembered readers as arrays; ``known``
    has them as objects, without the commits that a recreated topic has voided. Readers in ``but``
    are left out."""
    pairs = group_and_topic(snapshot, snapshot.commits)
    offset_now = snapshot.commits["offset"].fill_null(NOWHERE - 1).to_numpy()
    has_moved = offsets_beside(snapshot.commits, snapshot.remembered) != offset_now
    stale = stale_by_reader(snapshot)
    moved = unique_runs(pairs[has_moved])
    every = unique_runs(pairs)
    doubtful = np.concatenate([moved, group_and_topic(snapshot, snapshot.stale)])
    recreated = [at for at, topic in enumerate(snapshot.topics) if topic.recreated]
    is_quiet = ~np.isin(every, doubtful)
    is_quiet &= ~np.isin(every % max(1, len(snapshot.topics)), recreated)
    unchanged = index.unchanged(snapshot, every[is_quiet])
    quiet = index.pairs(snapshot)[unchanged]
    has_moved_pairs = {*moved.tolist()}
    present: dict[GroupOnTopic, RememberedReader] = {}
    changed: dict[int, GroupOnTopic] = {}
    for pair in every[~np.isin(every, quiet)].tolist():
        group_id, topic_id = divmod(pair, len(snapshot.topics))
        group, at = snapshot.groups[group_id], reader_at(snapshot, group_id, topic_id)
        if at.topic in but.get(at.reader, ()):
            continue
        last = known.get(at, RememberedReader(group.kind, {}, seen_at_ms=snapshot.taken_at_ms))
        present[at] = last
        is_as_it_was = last.is_settled and last.kind is group.kind
        if pair in has_moved_pairs or at in stale or not is_as_it_was:
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
        present[at] = _renewed(
            snapshot, present[at], kind, offsets[at], frozenset(stale.get(at, ()))
        )
    kinds = {ReaderName(group.name, group.is_external): group.kind for group in snapshot.groups}
    for at in _members(snapshot, quiet) - present.keys():
        if at.topic in but.get(at.reader, ()):
            continue
        kind = kinds[at.reader]
        last = known.get(at, RememberedReader(kind, {}, seen_at_ms=snapshot.taken_at_ms))
        present[at] = replace(last, kind=kind, absent_since_ms=None, absent_ms=0)
    return Present(present, unchanged)


def _members(snapshot: Snapshot, but: Integers) -> set[GroupOnTopic]:
    """Readers that may read a topic, with or without a commit, except the pairs in ``but``."""
    pairs = np.array([each.group * len(snapshot.topics) + each.topic for each in snapshot.readers])
    others = pairs[~np.isin(pairs, but)].astype(int).tolist()
    return {reader_at(snapshot, *divmod(pair, len(snapshot.topics))) for pair in others} | {
        GroupOnTopic(group, topic)
        for group, topics in snapshot.other_topics.items()
        for topic in topics
    }


def stale_by_reader(snapshot: Snapshot) -> dict[GroupOnTopic, dict[int, int]]:
    """The stale commits of each reader, by partition."""
    stale: defaultdict[GroupOnTopic, dict[int, int]] = defaultdict(dict)
    columns = (snapshot.stale[name].to_pylist() for name in ("group_id", "partition_id", "offset"))
    for group, position, offset in zip(*columns, strict=True):
        reading = snapshot.partitions[position]
        stale[reader_at(snapshot, group, reading.topic)][reading.partition] = offset
    return dict(stale)


def _renewed(
    snapshot: Snapshot,
    last: RememberedReader,
    kind: GroupKind,
    now: Mapping[int, int],
    stale: frozenset[int],
) -> RememberedReader:
    """The reader with its current offsets. ``now`` has them by the partition's position in the
    snapshot; ``stale`` has the numbers of the partitions whose offset is stale."""
    offsets = {}
    for partition_id, offset in now.items():
        reading = snapshot.partitions[partition_id]
        before = last.offsets.get(reading.partition)
        offsets[reading.partition] = _offset_to_remember(offset, before, reading.log_start_offset)
    return RememberedReader(
        kind,
        {**last.offsets, **offsets},
        moved_at_ms=moved_at_ms(last, offsets, snapshot.taken_at_ms),
        seen_at_ms=last.seen_at_ms,
        stale=(last.stale - offsets.keys()) | stale,
    )


def moved_at_ms(
    before: RememberedReader, offsets: Mapping[int, int], now_ms: int
) -> dict[int, int]:
    """When each commit was first seen at its remembered offset."""
    return {
        **before.moved_at_ms,
        **{
            partition: now_ms
            for partition, offset in offsets.items()
            if offset != before.offsets.get(partition) or partition not in before.moved_at_ms
        },
    }


def _offset_to_remember(offset: int, before: int | None, log_start: int | None) -> int:
    """The current commit, unless the group went back to records that are gone.

    As long as this lasts, the higher commit stays remembered, so that a later cycle sees it too.
    """
    if before is None or log_start is None or offset >= min(before, log_start):
        return offset
    return before


def reader_at(snapshot: Snapshot, group: int, topic: int) -> GroupOnTopic:
    reading = snapshot.groups[group]
    return GroupOnTopic(reading.name, snapshot.topics[topic].name, reading.is_external)
