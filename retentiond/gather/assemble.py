"""From what was read to a `Snapshot`: names become positions, for all commits at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from retentiond.config import ExternalReader, TopicPolicy
from retentiond.gather.external_groups import NO_EXTERNAL, with_external
from retentiond.gather.external_positions import Position
from retentiond.gather.groups import GroupListing
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.groups.commit_columns import NOT_TOLD, CommitColumns
from retentiond.model import Commit, GroupKind
from retentiond.snapshot import (
    ABSENT,
    COMMIT_SCHEMA,
    NOWHERE,
    GroupReading,
    GroupTopic,
    Integers,
    PartitionReading,
    Snapshot,
)


def assemble(
    cluster_id: str,
    now_ms: int,
    topics: Sequence[EnabledTopic],
    partitions: Sequence[PartitionReading],
    listing: GroupListing,
    *,
    external: Mapping[ExternalReader, Position] = NO_EXTERNAL,
) -> Snapshot:
    """What was read, and nothing that is remembered. Commits on topics that aren't enabled are left
    out."""
    listing = with_external(listing, topics, external)
    groups = _groups(topics, listing)
    group_ids = {group.group_id: position for position, group in enumerate(groups)}
    topic_ids = {topic.reading.name: position for position, topic in enumerate(topics)}
    by_position = {group_ids[group]: commits for group, commits in listing.commits.items()}
    commits, on_unknown_partitions = commit_rows(by_position, topic_ids, partitions)
    return Snapshot(
        cluster_id=cluster_id,
        taken_at_ms=now_ms,
        topics=tuple(topic.reading for topic in topics),
        partitions=tuple(partitions),
        groups=groups,
        commits=commits,
        readers=on_unknown_partitions.union(
            GroupTopic(group_ids[group], topic_ids[topic])
            for group in listing.members
            for topic in listing.read_by(group, topic_ids.keys())
        ),
        problems=listing.problems,
        hidden=listing.hidden,
        changelogs=frozenset(
            GroupTopic(group_ids[group], topic_ids[topic])
            for group, members in listing.members.items()
            for topic in members.changelogs & topic_ids.keys()
        ),
    )


def _groups(topics: Sequence[EnabledTopic], listing: GroupListing) -> tuple[GroupReading, ...]:
    """All that are listed, and those that a policy requires."""
    required = {
        group
        for topic in topics
        if isinstance(topic.reading.policy, TopicPolicy)
        for group in topic.reading.policy.required_groups
    }
    absent = {group: GroupReading(group, GroupKind.UNKNOWN, ABSENT) for group in required}
    return tuple(reading for _, reading in sorted({**absent, **listing.groups}.items()))


def commit_rows(
    commits: Mapping[int, Sequence[Commit]],
    topic_ids: Mapping[str, int],
    partitions: Sequence[PartitionReading],
) -> tuple[pa.Table, frozenset[GroupTopic]]:
    """`COMMIT_SCHEMA`, and the groups with commits on partitions that the metadata lacks.

    ``commits``: by the group's position; those on topics without a position in ``topic_ids`` are
    left out. ``partitions``: sorted by topic and partition.
    """
    columns = [CommitColumns.of(each) for each in commits.values()]
    groups = np.repeat(np.array([*commits], np.int64), [len(each) for each in columns])
    on = _topics_of(columns, topic_ids)
    numbers, offsets = (
        np.concatenate([np.empty(0, np.int64), *found])
        for found in ([each.partitions for each in columns], [each.offsets for each in columns])
    )
    unread = np.concatenate([np.empty(0, np.bool_), *(each.unread for each in columns)])
    epochs = np.concatenate([np.empty(0, np.int64), *(each.leader_epochs for each in columns)])
    at = np.full(len(on), NOWHERE)
    at[on != NOWHERE] = _positions(on[on != NOWHERE], numbers[on != NOWHERE], partitions)
    is_there = at != NOWHERE
    is_unknown = (on != NOWHERE) & ~is_there
    rows = pa.Table.from_arrays(
        [
            pa.array(groups[is_there], COMMIT_SCHEMA.field("group_id").type),
            pa.array(at[is_there], COMMIT_SCHEMA.field("partition_id").type),
            pa.array(offsets[is_there], mask=unread[is_there]),
            pa.array(
                epochs[is_there].astype(np.int32),
                mask=unread[is_there] | (epochs[is_there] == NOT_TOLD),
            ),
        ],
        schema=COMMIT_SCHEMA,
    )
    unknown = zip(groups[is_unknown].tolist(), on[is_unknown].tolist(), strict=True)
    return rows, frozenset(GroupTopic(*pair) for pair in unknown)


def _topics_of(columns: Sequence[CommitColumns], topic_ids: Mapping[str, int]) -> Integers:
    """Each row's topic."""
    blocks = [block for each in columns for block in each.topics]
    return np.repeat(
        np.array([topic_ids.get(name, NOWHERE) for name, _ in blocks], np.int64),
        np.array([count for _, count in blocks], np.int64),
    )


def _positions(
    topics: Integers, numbers: Integers, partitions: Sequence[PartitionReading]
) -> Integers:
    """Where the numbered partitions of those topics stand among ``partitions``.

    Both are one ascending key: all that is asked for is found by one search.
    """
    if not partitions:
        return np.full(len(topics), NOWHERE)
    width = 1 + max(each.partition for each in partitions)
    keys = np.array([each.topic * width + each.partition for each in partitions], np.int64)
    asked = np.where(numbers < width, topics * width + numbers, NOWHERE)
    found = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[found] == asked, found, NOWHERE)
