"""Adds to a reading what earlier cycles saw of the same topics.

Invariant: this adds readers, and commits that their groups must reach. It removes nothing that was
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from retentiond.gather.assemble import positions_of
from retentiond.memory.readers import Commits, ReaderName
from retentiond.memory.remembered import Remembered, are_forgotten
from retentiond.model import GroupKind
from retentiond.snapshot import (
    ABSENT,
    NOWHERE,
    VANISHED,
    Flags,
    GroupReading,
    GroupTopic,
    Integers,
    PartitionReading,
    Snapshot,
    TopicReading,
    commit_table,
    keys_of_commits,
    namesake_id,
    rows_among,
    with_columns,
)


def recalled(snapshot: Snapshot, remembered: Remembered) -> Snapshot:
    """The snapshot from which a cycle decides: with what is remembered of its commits and readers,
    with the vanished groups, with recreated topics marked, and with `Remembered.lost` as a problem.
    """
    topics = tuple(_recognised(topic, remembered) for topic in snapshot.topics)
    readers = remembered.readers
    topic_of = readers.topics_in([topic.name for topic in topics])
    counts = (topic_of != NOWHERE) & ~are_forgotten(readers, topic_of, topics)
    snapshot = _with_vanished(replace(snapshot, topics=topics), readers.kinds_by_name(counts))
    group_of = readers.readers_in([(each.name, each.is_external) for each in snapshot.groups])
    if (group_of[counts] == NOWHERE).any():
        raise ValueError("a reader that counts is no group of the reading")  # it would be forgotten
    # The commits on a recreated topic prove nothing any more, but its readers still count.
    recreated = np.array([*(topic.recreated for topic in topics), False], np.bool_)
    has_commits = counts & ~recreated[topic_of]
    commits = readers.commits.where(has_commits[readers.commits.owners])
    # A partition that the metadata lacks gets no decision.
    at = positions_of(topic_of[commits.owners], commits.partitions, snapshot.partitions)
    commits, at = commits.where(at != NOWHERE), at[at != NOWHERE]
    absent = np.flatnonzero(counts & readers.is_absent)
    since_ms = readers.column("absent_since_ms").take(pa.array(absent)).to_pylist()

    def pairs(rows: Integers) -> list[GroupTopic]:
        found = zip(group_of[rows].tolist(), topic_of[rows].tolist(), strict=True)
        return [GroupTopic(*each) for each in found]

    return replace(
        snapshot,
        commits=_with_remembered(snapshot, group_of[commits.owners], at, commits),
        absent_since_ms=dict(zip(pairs(absent), since_ms, strict=True)),
        remembered_readers=frozenset(pairs(_readers_without_commit(counts, commits.owners))),
        problems=snapshot.problems + ((remembered.lost,) if remembered.lost else ()),
    )


def _with_remembered(
    snapshot: Snapshot, groups: Integers, partitions: Integers, remembered: Commits
) -> pa.Table:
    """The snapshot's commits beside the ``remembered`` ones of these groups and partitions, and
    those that are only remembered."""
    now, count = snapshot.commits, len(snapshot.partitions)
    at = rows_among(keys_of_commits(now, count), groups * count + partitions)
    is_known = at != NOWHERE
    beside = np.append(remembered.offsets, NOWHERE)[at]
    moved_at_ms = np.append(remembered.moved_at_ms, NOWHERE)[at]
    was_stale = np.append(remembered.is_stale, False)[at] & (
        now["offset"].fill_null(NOWHERE).to_numpy() == beside
    )
    now = with_columns(
        now,
        is_stale=pa.array(are_stale(now, was_stale, snapshot.topics, snapshot.partitions)),
        remembered_offset=pa.array(beside, mask=~is_known),
        moved_at_ms=pa.array(moved_at_ms, mask=moved_at_ms == NOWHERE),
    )
    is_missing = np.ones(len(partitions), np.bool_)
    is_missing[at[is_known]] = False
    if not is_missing.any():
        return now
    gone = remembered.where(is_missing)
    others = commit_table(
        group_id=pa.array(groups[is_missing], pa.int32()),
        partition_id=pa.array(partitions[is_missing], pa.int32()),
        remembered_offset=pa.array(gone.offsets),
        moved_at_ms=pa.array(gone.moved_at_ms, mask=gone.moved_at_ms == NOWHERE),
    )
    return pa.concat_tables([now, others])


def _readers_without_commit(counts: Flags, owners: Integers) -> Integers:
    """Those that count and own none of the commits. The others count by their commits."""
    is_silent = counts.copy()
    is_silent[owners] = False
    return np.flatnonzero(is_silent)


def _recognised(topic: TopicReading, remembered: Remembered) -> TopicReading:
    """The topic, marked as recreated if its name had another topic id when it was last seen."""
    known = remembered.topics.get(topic.name)
    is_another = known is not None and topic.topic_id not in (None, known.topic_id)
    return replace(topic, recreated=True) if is_another else topic


def _with_vanished(snapshot: Snapshot, kinds: Mapping[ReaderName, GroupKind]) -> Snapshot:
    """The snapshot with the remembered groups that are not listed. ``kinds``: the kinds of the
    remembered readers, by name.

    All groups are sorted by name again, so positions change: a gather knows nothing of the memory,
    and of groups that bind alike Spark takes the smallest position for the first by name.

    A group and an external reader of the same name are two readers. If the other one, be it listed
    or only required, has the name as its id, the vanished one goes by `namesake_id`.
    """
    readings = {group.group_id: group for group in snapshot.groups}
    listed = {(each.name, each.is_external) for each in snapshot.groups if each.state != ABSENT}
    names = {name for name, _ in kinds}
    vanished: dict[str, GroupReading] = {}
    for reader in sorted(kinds.keys() - listed):
        name, is_external = reader
        is_only_required = name in readings and readings[name].state == ABSENT and not is_external
        has_own_name = name not in vanished and (name not in readings or is_only_required)
        group_id = (
            name
            if has_own_name
            else namesake_id(name, is_external=is_external, taken={*readings, *vanished, *names})
        )
        vanished[group_id] = GroupReading(
            group_id, kinds[reader], VANISHED, namesake_of=None if has_own_name else name
        )
    if not vanished:
        return snapshot
    groups = tuple(reading for _, reading in sorted({**readings, **vanished}.items()))
    positions = {group.group_id: position for position, group in enumerate(groups)}
    moved = np.array([positions[group.group_id] for group in snapshot.groups], np.int32)

    def of(pairs: Iterable[GroupTopic]) -> frozenset[GroupTopic]:
        return frozenset(GroupTopic(int(moved[group]), topic) for group, topic in pairs)

    return replace(
        snapshot,
        groups=groups,
        commits=with_columns(
            snapshot.commits,
            group_id=pa.array(moved[snapshot.commits["group_id"].to_numpy()], pa.int32()),
        ),
        readers=of(snapshot.readers),
        changelogs=of(snapshot.changelogs),
    )


def are_stale(
    commits: pa.Table,
    was_stale: Flags,
    topics: Sequence[TopicReading],
    partitions: Sequence[PartitionReading],
) -> Flags:
    """Which commits may be older than the present log.

    A consumer that outlives its topic commits its old position on the new one. So two kinds of
    commits prove nothing until they move, however often they are committed again: a commit that
    exists when a new topic id is first seen, and a commit beyond the end, which the log may grow
    past. ``was_stale``: whether the commit was stale where it stands now. A commit at or below the
    log start offset frees nothing, so it isn't stale.
    """
    recreated = np.array([topics[each.topic].recreated for each in partitions], np.bool_)
    # If an end is unreadable, no commit is known to be beyond it. If a log start is unreadable,
    # every commit may free something.
    none = np.iinfo(np.int64)
    starts, ends = (
        np.array([unreadable if offset is None else offset for offset in read], np.int64)
        for unreadable, read in (
            (none.min, [each.log_start_offset for each in partitions]),
            (none.max, [each.high_watermark for each in partitions]),
        )
    )
    at, offsets = commits["partition_id"].to_numpy(), commits["offset"]
    offset = offsets.fill_null(NOWHERE).to_numpy()
    is_stale: Flags = offsets.is_valid().to_numpy()
    is_stale &= recreated[at] | (offset > ends[at]) | was_stale
    is_stale &= offset > starts[at]
    return is_stale
