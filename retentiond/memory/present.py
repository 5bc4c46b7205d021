"""The readers that a reading shows, and what to remember of them.

Nearly all of it is known already: the same readers with the same commits. Arrays of positions are
compared to find these readers, and only the other ones become objects.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from retentiond.memory.by_partition import NONE, ByPartition
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
) -> Present:
    """Compares a reading with the memory. ``index`` has the remembered readers as arrays; ``known``
    has them as objects, without the commits that a recreated topic has voided."""

    def new_reader(kind: GroupKind) -> RememberedReader:
        return RememberedReader(kind, NONE, seen_at_ms=snapshot.taken_at_ms)

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
    known_pairs = index.pairs(snapshot)
    unchanged = index.unchanged(snapshot, known_pairs, every[is_quiet])
    quiet = known_pairs[unchanged]
    has_moved_pairs = {*moved.tolist()}
    present: dict[GroupOnTopic, RememberedReader] = {}
    changed: dict[int, GroupOnTopic] = {}
    for pair in every[~np.isin(every, quiet)].tolist():
        group_id, topic_id = divmod(pair, len(snapshot.topics))
        group, at = snapshot.groups[group_id], reader_at(snapshot, group_id, topic_id)
        last = known.get(at) or new_reader(group.kind)
        present[at] = last
        has_changed = pair in has_moved_pairs or at in stale or last.kind is not group.kind
        if has_changed or not last.is_settled:
            changed[pair] = at
    renewed = _renewed(snapshot, index, known_pairs, pairs, [*changed])
    for pair, at in changed.items():
        last, stale_now = present[at], frozenset(stale.get(at, ()))
        offsets, times = renewed.get(pair, (NONE, NONE))
        present[at] = RememberedReader(
            snapshot.groups[pair // len(snapshot.topics)].kind,
            last.offsets.updated(offsets),
            moved_at_ms=last.moved_at_ms.updated(times),
            seen_at_ms=last.seen_at_ms,
            stale=(last.stale - {*offsets}) | stale_now if last.stale else stale_now,
        )
    kinds = {ReaderName(group.name, group.is_external): group.kind for group in snapshot.groups}
    for at in _members(snapshot, quiet) - present.keys():
        kind = kinds[at.reader]
        last = known.get(at) or new_reader(kind)
        present[at] = replace(last, kind=kind, absent_since_ms=None, absent_ms=0)
    return Present(present, unchanged)


def _members(snapshot: Snapshot, but: Integers) -> set[GroupOnTopic]:
    """Readers that may read a topic, with or without a commit, except the pairs in ``but``."""
    pairs = np.array([each.group * len(snapshot.topics) + each.topic for each in snapshot.readers])
    others = pairs[~np.isin(pairs, but)].astype(int).tolist()
    of_others = readers_of_other_topics(snapshot)
    return {reader_at(snapshot, *divmod(pair, len(snapshot.topics))) for pair in others} | of_others


def readers_of_other_topics(snapshot: Snapshot) -> set[GroupOnTopic]:
    """Readers of topics that are not in the reading."""
    return {
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
    index: KnownReaders,
    known_pairs: Integers,
    pairs: Integers,
    changed: Sequence[int],
) -> dict[int, tuple[ByPartition, ByPartition]]:
    """The offsets to remember, and when each was first seen, for each of the ``changed`` pairs of
    group and topic. ``known_pairs``: the pair of each row of ``index``; ``pairs``: that of each
    commit of the snapshot.

    The offset is the current commit, unless the group went back to records that are gone. As long
    as this lasts, the higher commit stays remembered, so that a later cycle sees it too.
    """
    can_be_read = snapshot.commits["offset"].is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(np.isin(pairs, changed) & can_be_read)
    position = snapshot.commits["partition_id"].to_numpy()[rows]
    order = np.lexsort((position, pairs[rows]))
    rows, position = rows[order], position[order]
    # With a null in it the column would become floats, which change offsets above 2^53.
    offset = snapshot.commits["offset"].fill_null(NOWHERE).to_numpy()[rows]
    partition = np.array([each.partition for each in snapshot.partitions], np.int32)[position]
    log_start = np.array([_or_nowhere(each.log_start_offset) for each in snapshot.partitions])
    pair = pairs[rows]
    before, moved_before = _known_commits(snapshot, index, known_pairs, pair, partition)
    least = np.minimum(before, log_start[position])  # `NOWHERE` where one of them is not known
    offset = np.where(offset < least, before, offset)
    is_news = (offset != before) | (moved_before == NOWHERE)
    moved = np.where(is_news, snapshot.taken_at_ms, moved_before)
    begins = np.flatnonzero(np.diff(pair, prepend=NOWHERE))
    found = {}
    for begin, end in pairwise([*begins.tolist(), len(pair)]):
        at = slice(begin, end)
        # Copies: a part of an array keeps the whole array, for as long as one reader stands still.
        offsets = ByPartition(partition[at], offset[at].copy())
        found[int(pair[begin])] = offsets, offsets.with_numbers(moved[at].copy())
    return found


def _known_commits(
    snapshot: Snapshot,
    index: KnownReaders,
    known: Integers,
    pair: Integers,
    partition: Integers,
) -> tuple[Integers, Integers]:
    """The remembered offset of each commit, and when it was first seen there; `NOWHERE` if none is
    remembered, or if the topic was recreated."""
    order = np.argsort(known)
    place = np.searchsorted(known[order], pair)
    owner = np.append(order, NOWHERE)[place]
    is_known = np.append(known, NOWHERE)[owner] == pair
    recreated = [at for at, topic in enumerate(snapshot.topics) if topic.recreated]
    is_known &= ~np.isin(pair % max(1, len(snapshot.topics)), recreated)
    at = np.where(is_known, index.commits.rows_of(owner, partition), NOWHERE)
    commits = index.commits
    return (
        np.append(commits.offsets, NOWHERE)[at],
        np.append(commits.moved_at_ms, NOWHERE)[at],
    )


def _or_nowhere(offset: int | None) -> int:
    return NOWHERE if offset is None else offset


def reader_at(snapshot: Snapshot, group: int, topic: int) -> GroupOnTopic:
    reading = snapshot.groups[group]
    return GroupOnTopic(reading.name, snapshot.topics[topic].name, reading.is_external)
