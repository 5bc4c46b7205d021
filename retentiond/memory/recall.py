"""A reading with what earlier cycles saw of the same topics.

Invariant: it adds readers, and commits that must be reached; it takes nothing away that was read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.gather.assemble import commit_rows
from retentiond.kafka.groups.commit_columns import CommitColumns
from retentiond.memory.remembered import (
    GroupOnTopic,
    ReaderName,
    Remembered,
    RememberedReader,
    is_forgotten,
)
from retentiond.snapshot import (
    ABSENT,
    VANISHED,
    GroupReading,
    GroupTopic,
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
    known = known_commits(topics, remembered)
    snapshot = _with_vanished(replace(snapshot, topics=topics), known)
    group_ids = {
        ReaderName(group.name, group.is_external): position
        for position, group in enumerate(snapshot.groups)
    }
    topic_ids = {topic.name: position for position, topic in enumerate(topics)}

    def table(commits: Mapping[GroupOnTopic, Mapping[int, int]]) -> pa.Table:
        """`COMMIT_SCHEMA`; a partition that the metadata lacks has no decision to bear on."""
        by_group: defaultdict[int, dict[str, Mapping[int, int]]] = defaultdict(dict)
        for at, offsets in commits.items():
            by_group[group_ids[at.reader]][at.topic] = offsets
        columns = {group: CommitColumns.by_topic(offsets) for group, offsets in by_group.items()}
        return commit_rows(columns, topic_ids, snapshot.partitions)[0]

    stale_before = table({at: last.stale_offsets() for at, last in known.items()})
    return replace(
        snapshot,
        remembered=table({at: last.offsets for at, last in known.items()}),
        remembered_readers=frozenset(
            GroupTopic(group_ids[at.reader], topic_ids[at.topic])
            for at in _readers_without_commit(snapshot, known)
        ),
        stale=stale_commits(snapshot.commits, stale_before, topics, snapshot.partitions),
        problems=snapshot.problems + ((remembered.lost,) if remembered.lost else ()),
    )


def _recognised(topic: TopicReading, remembered: Remembered) -> TopicReading:
    """Marked if the topic of that name was another one when it was last seen."""
    known = remembered.topics.get(topic.name)
    is_another = known is not None and topic.topic_id not in (None, known.topic_id)
    return replace(topic, recreated=True) if is_another else topic


def known_commits(
    topics: Iterable[TopicReading], remembered: Remembered
) -> dict[GroupOnTopic, RememberedReader]:
    """What is remembered about these topics, less what says nothing any more: commits on a
    topic that was recreated, and readers that the policy has given up waiting for."""
    by_name = {topic.name: topic for topic in topics}
    return {
        at: last.without_commits() if by_name[at.topic].recreated else last
        for at, last in remembered.commits.items()
        if at.topic in by_name and not is_forgotten(by_name[at.topic].policy, last)
    }


def _readers_without_commit(
    snapshot: Snapshot, known: Mapping[GroupOnTopic, RememberedReader]
) -> list[GroupOnTopic]:
    """The others count by their commits."""
    partitions: defaultdict[str, set[int]] = defaultdict(set)
    for each in snapshot.partitions:
        partitions[snapshot.topics[each.topic].name].add(each.partition)
    return [at for at, last in known.items() if partitions[at.topic].isdisjoint(last.offsets)]


def _with_vanished(snapshot: Snapshot, known: Mapping[GroupOnTopic, RememberedReader]) -> Snapshot:
    """With the remembered groups that are not listed; all groups are sorted by name again.

    A group and an external reader of one name are two readers, also one after the other: the one
    that has vanished goes by `namesake_id` while the other has the name.
    """
    readings = {group.group_id: group for group in snapshot.groups}
    kinds = {at.reader: last.kind for at, last in known.items()}
    names = {reader.group_id for reader in kinds}
    vanished: dict[str, GroupReading] = {}
    for reader in sorted(kinds):
        of_name = vanished.get(reader.group_id) or readings.get(reader.group_id)
        if of_name is None or of_name.state == ABSENT:
            vanished[reader.group_id] = GroupReading(reader.group_id, kinds[reader], VANISHED)
        elif of_name.is_external != reader.is_external:
            group_id = namesake_id(reader.group_id, is_external=reader.is_external)
            while group_id in readings or group_id in vanished or group_id in names:
                group_id += "*"  # no reader is to be taken for another
            vanished[group_id] = GroupReading(
                group_id, kinds[reader], VANISHED, namesake_of=reader.group_id
            )
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
