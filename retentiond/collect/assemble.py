"""From what was read to a `Snapshot`: names become positions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from retentiond.collect.census import Census
from retentiond.collect.commit_rows import commit_rows
from retentiond.collect.external import NO_EXTERNAL, with_external
from retentiond.collect.positions import Position
from retentiond.collect.remembered import (
    NOTHING,
    GroupOnTopic,
    LastCommits,
    Remembered,
    known_commits,
    recognised,
)
from retentiond.collect.snapshot import (
    ABSENT,
    VANISHED,
    GroupReading,
    GroupTopic,
    PartitionReading,
    Snapshot,
)
from retentiond.collect.topics import EnabledTopic
from retentiond.commit_columns import CommitColumns
from retentiond.config import ExternalReader, TopicPolicy
from retentiond.model import GroupKind


def assemble(
    cluster_id: str,
    now_ms: int,
    topics: Sequence[EnabledTopic],
    partitions: Sequence[PartitionReading],
    census: Census,
    *,
    external: Mapping[ExternalReader, Position] = NO_EXTERNAL,
    remembered: Remembered = NOTHING,
) -> Snapshot:
    """Commits on topics that aren't enabled are left out."""
    readings = [recognised(topic.reading, remembered) for topic in topics]
    known = known_commits(readings, remembered, now_ms)
    census = with_external(census, topics, external)
    groups = _groups(topics, census, known)
    group_ids = {group.group_id: position for position, group in enumerate(groups)}
    topic_ids = {topic.reading.name: position for position, topic in enumerate(topics)}
    by_position = {group_ids[group]: commits for group, commits in census.commits.items()}
    commits, strays = commit_rows(by_position, topics, partitions)
    readers = {
        GroupTopic(group_ids[group], topic_ids[topic])
        for group in census.members
        for topic in topic_ids
        if census.may_read(group, topic)
    }
    return Snapshot(
        cluster_id=cluster_id,
        taken_at_ms=now_ms,
        topics=tuple(readings),
        partitions=tuple(partitions),
        groups=groups,
        commits=commits,
        remembered=_remembered(known, group_ids, topics, partitions),
        readers=frozenset(readers | strays),
        problems=census.problems + ((remembered.lost,) if remembered.lost else ()),
        hidden=census.hidden,
    )


def _groups(
    topics: Sequence[EnabledTopic], census: Census, known: Mapping[GroupOnTopic, LastCommits]
) -> tuple[GroupReading, ...]:
    """All groups of the census, those that are remembered, and those that a policy requires."""
    required = {
        group
        for topic in topics
        if isinstance(topic.reading.policy, TopicPolicy)
        for group in topic.reading.policy.required_groups
    }
    absent = {
        group: GroupReading(group, GroupKind.UNKNOWN, ABSENT)
        for group in required - census.groups.keys()
    }
    vanished = {
        at.group_id: GroupReading(at.group_id, last.kind, VANISHED)
        for at, last in known.items()
        if at.group_id not in census.groups
    }
    every = {**absent, **vanished, **census.groups}
    return tuple(reading for _, reading in sorted(every.items()))


def _remembered(
    known: Mapping[GroupOnTopic, LastCommits],
    group_ids: Mapping[str, int],
    topics: Sequence[EnabledTopic],
    partitions: Sequence[PartitionReading],
) -> pa.Table:
    """`COMMIT_SCHEMA`; a partition that the metadata lacks has no decision to bear on."""
    offsets: defaultdict[int, dict[str, Mapping[int, int]]] = defaultdict(dict)
    for at, last in known.items():
        offsets[group_ids[at.group_id]][at.topic] = last.offsets
    columns = {group: CommitColumns.by_topic(of_group) for group, of_group in offsets.items()}
    return commit_rows(columns, topics, partitions)[0]
