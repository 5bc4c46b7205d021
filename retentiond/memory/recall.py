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
from retentiond.memory.readers import Commits, ReaderName, Readers, flags
from retentiond.memory.remembered import Remembered, Rows, are_forgotten
from retentiond.model import GroupKind
from retentiond.snapshot import (
    ABSENT,
    NOWHERE,
    SHARED_NAME,
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
    known_or,
    namesake_id,
    positions_of_names,
    rows_among,
    values_at,
    with_columns,
)


def recalled(
    snapshot: Snapshot, remembered: Remembered, everybody: Readers | None = None
) -> Snapshot:
    """The snapshot from which a cycle decides: with what is remembered of its commits and readers,
    with the vanished groups, with recreated topics marked, and with `Remembered.lost` as a problem.

    ``everybody``: the readers of all topics, where ``remembered`` has those of some.
    """
    snapshot = _with_known_queries(snapshot, everybody or remembered.readers)
    topics = tuple(_recognised(topic, remembered) for topic in snapshot.topics)
    readers = remembered.readers
    topic_of = readers.topics_in([topic.name for topic in topics])
    counts = (topic_of != NOWHERE) & ~are_forgotten(readers, topic_of, topics)
    vanished = _vanished(snapshot.groups, readers.kinds_by_name(counts))
    snapshot = _with_groups(replace(snapshot, topics=topics), vanished)
    rows = Rows.of(readers, snapshot)
    if (rows.groups[counts] == NOWHERE).any():
        raise ValueError("a reader that counts is no group of the reading")  # it would be forgotten
    # The commits on a recreated topic prove nothing any more, but its readers still count.
    has_commits = counts & ~rows.of_topics(topic.recreated for topic in topics)
    commits = readers.commits
    commits = commits.where(has_commits[commits.owners])
    # A partition that the metadata lacks gets no decision.
    at = positions_of(rows.topics[commits.owners], commits.partitions, snapshot.partitions)
    commits, at = commits.where(at != NOWHERE), at[at != NOWHERE]
    absent = np.flatnonzero(counts & readers.is_absent)
    since_ms = readers.column("absent_since_ms").take(pa.array(absent)).to_pylist()
    return replace(
        snapshot,
        commits=_with_remembered(
            snapshot, commits._replace(owners=rows.groups[commits.owners], partitions=at)
        ),
        absent_since_ms=dict(zip(rows.group_topics(absent), since_ms, strict=True)),
        remembered_readers=frozenset(
            rows.group_topics(_readers_without_commit(counts, commits.owners))
        ),
        problems=snapshot.problems + ((remembered.lost,) if remembered.lost else ()),
    )


def _with_known_queries(snapshot: Snapshot, readers: Readers) -> Snapshot:
    """A Spark query that can't be read now, and was read before, holds the topics that it read. One
    that was never read may read any topic, and so may one with another reader's name."""
    if not any(group.is_external and group.failure for group in snapshot.groups):
        return snapshot
    were_read = readers.has_commits & flags(readers.column("is_external"))
    names = {*readers.column("group").filter(pa.array(were_read)).to_pylist()}

    def was_read(group: GroupReading) -> bool:
        is_unclear = group.failure is not None and group.failure.code == SHARED_NAME
        return group.is_external and group.name in names and not is_unclear

    groups = (
        replace(group, failure=None) if was_read(group) else group for group in snapshot.groups
    )
    return replace(snapshot, groups=tuple(groups))


def _readers_without_commit(counts: Flags, owners: Integers) -> Integers:
    """Those that count and own none of the commits. The others count by their commits."""
    is_silent = counts.copy()
    is_silent[owners] = False
    return np.flatnonzero(is_silent)


def _with_remembered(snapshot: Snapshot, remembered: Commits) -> pa.Table:
    """The snapshot's commits beside the ``remembered`` ones, and those that are only remembered.
    Owners and partitions of the ``remembered`` ones are positions in the snapshot."""
    now, count = snapshot.commits, len(snapshot.partitions)
    at = rows_among(keys_of_commits(now, count), remembered.owners * count + remembered.partitions)
    offset = values_at(remembered.offsets, at, NOWHERE)
    stands = now["offset"].fill_null(NOWHERE).to_numpy() == offset
    was_stale = stands & values_at(remembered.is_stale, at, False)
    now = with_columns(
        now,
        is_stale=pa.array(are_stale(now, was_stale, snapshot.topics, snapshot.partitions)),
        remembered_offset=_or_absent(offset),
        moved_at_ms=_or_absent(values_at(remembered.moved_at_ms, at, NOWHERE)),
    )
    is_gone = np.ones(len(remembered.owners), np.bool_)
    is_gone[at[at != NOWHERE]] = False
    if not is_gone.any():
        return now
    gone = remembered.where(is_gone)
    others = commit_table(
        group_id=pa.array(gone.owners, pa.int32()),
        partition_id=pa.array(gone.partitions, pa.int32()),
        remembered_offset=_or_absent(gone.offsets),
        moved_at_ms=_or_absent(gone.moved_at_ms),
    )
    return pa.concat_tables([now, others])


def _or_absent(values: Integers) -> pa.Array:
    return pa.array(values, mask=values == NOWHERE)


def _recognised(topic: TopicReading, remembered: Remembered) -> TopicReading:
    """The topic, marked as recreated if its name had another topic id when it was last seen."""
    last = remembered.topics.get(topic.name)
    is_another = last is not None and topic.topic_id not in (None, last.topic_id)
    return replace(topic, recreated=True) if is_another else topic


def _vanished(
    groups: Iterable[GroupReading], kinds: Mapping[ReaderName, GroupKind]
) -> list[GroupReading]:
    """The remembered readers that are not among the ``groups`` of a reading. ``kinds``: of all
    remembered ones, by name.

    A group and an external reader of the same name are two readers. If the other one, be it listed
    or only required, has the name as its id, the vanished one goes by `namesake_id`.
    """
    readings = {group.group_id: group for group in groups}
    listed = {(row.name, row.is_external) for row in readings.values() if row.state != ABSENT}
    taken = {*readings, *(name for name, _ in kinds)}
    vanished: dict[str, GroupReading] = {}
    for reader in sorted(kinds.keys() - listed):
        name, is_external = reader
        is_only_required = name in readings and readings[name].state == ABSENT and not is_external
        if name not in vanished and (name not in readings or is_only_required):
            vanished[name] = GroupReading(name, kinds[reader], VANISHED)
        else:
            group_id = namesake_id(name, is_external=is_external, taken={*taken, *vanished})
            vanished[group_id] = GroupReading(group_id, kinds[reader], VANISHED, namesake_of=name)
    return [*vanished.values()]


def _with_groups(snapshot: Snapshot, more: Sequence[GroupReading]) -> Snapshot:
    """The snapshot with these groups, also in place of its own.

    All are sorted by name again, so positions change: a gather knows nothing of the memory, and
    of groups that bind alike Spark takes the smallest position for the first by name.
    """
    if not more:
        return snapshot
    readings = {group.group_id: group for group in (*snapshot.groups, *more)}
    names = sorted(readings)
    moved = positions_of_names([group.group_id for group in snapshot.groups], names)

    def of(pairs: Iterable[GroupTopic]) -> frozenset[GroupTopic]:
        return frozenset(GroupTopic(int(moved[group]), topic) for group, topic in pairs)

    group_id = pa.array(moved[snapshot.commits["group_id"].to_numpy()], pa.int32())
    return replace(
        snapshot,
        groups=tuple(readings[name] for name in names),
        commits=with_columns(snapshot.commits, group_id=group_id),
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
    recreated = np.array([topics[partition.topic].recreated for partition in partitions], np.bool_)
    # If an end is unreadable, no commit is known to be beyond it. If a log start is unreadable,
    # every commit may free something.
    starts = known_or(NOWHERE, [partition.log_start_offset for partition in partitions])
    ends = known_or(np.iinfo(np.int64).max, [partition.high_watermark for partition in partitions])
    at, offsets = commits["partition_id"].to_numpy(), commits["offset"]
    offset = offsets.fill_null(NOWHERE).to_numpy()
    is_stale: Flags = offsets.is_valid().to_numpy()
    is_stale &= recreated[at] | (offset > ends[at]) | was_stale
    is_stale &= offset > starts[at]
    return is_stale
