"""A reading with what earlier cycles saw of the same topics.

Invariant: it adds readers, and commits that must be reached; it takes nothing away that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.gather.assemble import positions_of
from retentiond.memory.known_readers import ReaderKey
from retentiond.memory.remembered import Remembered, is_forgotten
from retentiond.model import GroupKind
from retentiond.snapshot import (
    ABSENT,
    COMMIT_SCHEMA,
    NOWHERE,
    VANISHED,
    Flags,
    GroupReading,
    GroupTopic,
    Integers,
    PartitionReading,
    Snapshot,
    TopicReading,
    namesake_id,
    offsets_beside,
)


def recalled(snapshot: Snapshot, remembered: Remembered) -> Snapshot:
    """The snapshot that a cycle decides by: with `Snapshot.remembered`, ``remembered_readers`` and
    ``stale``, the groups that have vanished, the topics that were recreated, and what was lost."""
    topics = tuple(_recognised(topic, remembered) for topic in snapshot.topics)
    readers = remembered.readers
    topic_of = readers.topics_in([topic.name for topic in topics])
    counts = topic_of != NOWHERE
    for each in readers.absent:
        last = remembered.commits[readers.at[each]]
        if counts[each] and is_forgotten(topics[topic_of[each]].policy, last):
            counts[each] = False  # the policy has given up waiting for it
    snapshot = _with_vanished(replace(snapshot, topics=topics), readers.kinds_by_name(counts))
    group_of = readers.groups_in(snapshot)
    # Commits on a topic that was recreated say nothing any more, but who has read it does.
    recreated = np.array([topic.recreated for topic in topics], np.bool_)
    has_commits = counts.copy()
    has_commits[counts] = ~recreated[topic_of[counts]]
    commits = readers.commits
    rows = np.flatnonzero(has_commits[commits.owners])
    owners = commits.owners[rows]
    # A partition that the metadata lacks has no decision to bear on.
    at = positions_of(topic_of[owners], commits.partitions[rows], snapshot.partitions)
    is_there = at != NOWHERE
    rows, owners, at = rows[is_there], owners[is_there], at[is_there]

    def table(some: Flags) -> pa.Table:
        """`COMMIT_SCHEMA`"""
        return pa.Table.from_arrays(
            [
                pa.array(group_of[owners[some]], COMMIT_SCHEMA.field("group_id").type),
                pa.array(at[some], COMMIT_SCHEMA.field("partition_id").type),
                pa.array(commits.offsets[rows[some]]),
                pa.nulls(int(some.sum()), COMMIT_SCHEMA.field("leader_epoch").type),
            ],
            schema=COMMIT_SCHEMA,
        )

    others = _readers_without_commit(counts, owners)
    stale_before = table(commits.is_stale[rows])
    return replace(
        snapshot,
        remembered=table(np.ones(len(rows), np.bool_)),
        remembered_readers=frozenset(
            GroupTopic(int(group_of[each]), int(topic_of[each])) for each in others
        ),
        stale=stale_commits(snapshot.commits, stale_before, topics, snapshot.partitions),
        problems=snapshot.problems + ((remembered.lost,) if remembered.lost else ()),
    )


def _readers_without_commit(counts: Flags, owners: Integers) -> list[int]:
    """Of the readers that count, those that own none of the commits; the others count by these."""
    has_commit = np.zeros(len(counts), np.bool_)
    has_commit[owners] = True
    return np.flatnonzero(counts & ~has_commit).tolist()


def _recognised(topic: TopicReading, remembered: Remembered) -> TopicReading:
    """Marked if the topic of that name was another one when it was last seen."""
    known = remembered.topics.get(topic.name)
    is_another = known is not None and topic.topic_id not in (None, known.topic_id)
    return replace(topic, recreated=True) if is_another else topic


def _with_vanished(snapshot: Snapshot, kinds: Mapping[ReaderKey, GroupKind]) -> Snapshot:
    """With the remembered groups that are not listed. ``kinds``: of the remembered, by name.

    All groups are sorted by name again, so positions change: a gather knows nothing of the memory,
    and of groups that bind alike Spark takes the smallest position for the first by name.

    A group and an external reader of one name are two readers, also one after the other: the one
    that has vanished goes by `namesake_id` while the other has the name.
    """
    readings = {group.group_id: group for group in snapshot.groups}
    names = {name for name, _ in kinds}
    vanished: dict[str, GroupReading] = {}
    for reader in sorted(kinds):
        name, is_external = reader
        of_name = vanished.get(name) or readings.get(name)
        if of_name is None or of_name.state == ABSENT:
            vanished[name] = GroupReading(name, kinds[reader], VANISHED)
        elif of_name.is_external != is_external:
            group_id = namesake_id(name, is_external=is_external)
            while group_id in readings or group_id in vanished or group_id in names:
                group_id += "*"  # no reader is to be taken for another
            vanished[group_id] = GroupReading(group_id, kinds[reader], VANISHED, namesake_of=name)
    if not vanished:
        return snapshot
    groups = tuple(reading for _, reading in sorted({**readings, **vanished}.items()))
    positions = {group.group_id: position for position, group in enumerate(groups)}
    moved = np.array([positions[group.group_id] for group in snapshot.groups], np.int32)

    def renumbered(table: pa.Table) -> pa.Table:
        group_ids = pa.array(moved[table["group_id"].to_numpy()], pa.int32())
        return table.set_column(0, table.schema.field("group_id"), group_ids)

    def of(pairs: Iterable[GroupTopic]) -> frozenset[GroupTopic]:
        return frozenset(GroupTopic(int(moved[group]), topic) for group, topic in pairs)

    return replace(
        snapshot,
        groups=groups,
        commits=renumbered(snapshot.commits),
        epochs=renumbered(snapshot.epochs),
        readers=of(snapshot.readers),
        changelogs=of(snapshot.changelogs),
    )


def stale_commits(
    commits: pa.Table,
    stale_before: pa.Table,
    topics: Sequence[TopicReading],
    partitions: Sequence[PartitionReading],
) -> pa.Table:
    """Those of the commits that may be older than the log that is there.

    A consumer that outlives its topic commits its old position on the new one. So what stands there
    when the new id is first seen proves nothing, nor does a commit beyond the end, which the log
    may grow past; until it moves, however often it is made again. ``stale_before``: the
    remembered commits that were stale. A commit that the log start has passed frees nothing.
    """
    recreated = np.array([topics[each.topic].recreated for each in partitions], np.bool_)
    # Where an end is unreadable, none is known to be passed; where a log start is, every commit may
    # free something.
    none = np.iinfo(np.int64)
    starts, ends = (
        np.array([unreadable if offset is None else offset for offset in read], np.int64)
        for unreadable, read in (
            (none.min, [each.log_start_offset for each in partitions]),
            (none.max, [each.high_watermark for each in partitions]),
        )
    )
    rows = commits.filter(pc.is_valid(commits["offset"]))
    at, offsets = rows["partition_id"].to_numpy(), rows["offset"].to_numpy()
    is_known = offsets_beside(rows, stale_before) == offsets
    is_stale = (recreated[at] | (offsets > ends[at]) | is_known) & (offsets > starts[at])
    return rows.filter(pa.array(is_stale))
