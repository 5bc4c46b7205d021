"""Gather: one frozen snapshot of everything that a decision rests on."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from retentiond.collect.census import Census, CoordinatorWatch, completed, take_census
from retentiond.collect.offsets import OffsetReads, ends, young_since
from retentiond.collect.snapshot import (
    COMMIT_SCHEMA,
    GroupReading,
    GroupTopic,
    PartitionReading,
    Snapshot,
)
from retentiond.collect.topics import EnabledTopic, enabled_topics
from retentiond.config import Config, TopicPolicy
from retentiond.kafka.port import Kafka, OffsetBound
from retentiond.model import GroupKind, TopicPartition

WORKERS = 3


def gather(
    kafka: Kafka,
    config: Config,
    now_ms: int,
    *,
    only: Collection[TopicPartition] | None = None,
    watch: CoordinatorWatch | None = None,
    wait_until: Callable[[float], None],
) -> Snapshot:
    """One snapshot of the enabled topics and of all groups.

    ``only`` asks for the offsets of those partitions alone, and leaves their topics' other
    partitions unread: the guard's second reading. ``watch`` has seen the reading before this
    one; a first reading waits longer. Raises `KafkaUnavailable` when the cluster or its topics
    can't be asked; everything else that fails holds what it touches.
    """
    watch = watch or CoordinatorWatch()
    before = kafka.coordinator_state()
    settled_at = time.monotonic() + watch.seconds_to_settle(before)
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="gather") as executor:
        cluster_id = executor.submit(kafka.cluster_id)
        names = None if only is None else {partition.topic for partition in only}
        topics_to_come = executor.submit(enabled_topics, kafka, config, names)
        wait_until(settled_at)
        census = take_census(kafka)
        topics = topics_to_come.result()
        asked = _asked(topics, only)
        log_starts = executor.submit(kafka.offsets, asked, OffsetBound.LOG_START)
        high_watermarks, last_stable = ends(kafka, asked, executor)
        by_time = young_since(kafka, topics, asked, now_ms)
        census = completed(census, kafka, before, watch, wait_until)
        reads = OffsetReads(log_starts.result(), high_watermarks, last_stable, by_time)
    partitions = reads.readings(topics, asked)
    return assemble(cluster_id.result(), now_ms, topics, partitions, census)


def assemble(
    cluster_id: str,
    now_ms: int,
    topics: Sequence[EnabledTopic],
    partitions: Sequence[PartitionReading],
    census: Census,
) -> Snapshot:
    """Names become positions; commits on topics that aren't enabled are left out."""
    groups = _groups(topics, census)
    group_ids = {group.group_id: position for position, group in enumerate(groups)}
    topic_ids = {topic.reading.name: position for position, topic in enumerate(topics)}
    partition_ids = {
        (topics[reading.topic].reading.name, reading.partition): position
        for position, reading in enumerate(partitions)
    }
    commits, strays = _commits(census, group_ids, topic_ids, partition_ids)
    readers = {
        GroupTopic(group_ids[group], topic_ids[topic])
        for group in census.members
        for topic in topic_ids
        if census.may_read(group, topic)
    }
    return Snapshot(
        cluster_id=cluster_id,
        taken_at_ms=now_ms,
        topics=tuple(topic.reading for topic in topics),
        partitions=tuple(partitions),
        groups=groups,
        commits=commits,
        remembered=COMMIT_SCHEMA.empty_table(),
        readers=frozenset(readers | strays),
        problems=census.problems,
    )


def _asked(
    topics: Sequence[EnabledTopic], only: Collection[TopicPartition] | None
) -> list[TopicPartition]:
    every = [
        TopicPartition(topic.reading.name, partition)
        for topic in topics
        for partition in topic.partitions
    ]
    if only is None:
        return every
    wanted = set(only)
    return [partition for partition in every if partition in wanted]


def _groups(topics: Sequence[EnabledTopic], census: Census) -> tuple[GroupReading, ...]:
    """All groups of the census, and those that a policy requires but nobody has seen."""
    required = {
        group
        for topic in topics
        if isinstance(topic.reading.policy, TopicPolicy)
        for group in topic.reading.policy.required_groups
    }
    absent = {
        group: GroupReading(group, GroupKind.UNKNOWN, "Absent")
        for group in required - census.groups.keys()
    }
    return tuple(reading for _, reading in sorted({**census.groups, **absent}.items()))


def _commits(
    census: Census,
    group_ids: Mapping[str, int],
    topic_ids: Mapping[str, int],
    partition_ids: Mapping[tuple[str, int], int],
) -> tuple[pa.Table, set[GroupTopic]]:
    """`COMMIT_SCHEMA`, and the groups with commits on partitions that the metadata lacks."""
    groups: list[int] = []
    partitions: list[int] = []
    offsets: list[int | None] = []
    strays: set[GroupTopic] = set()
    for group, commits in census.commits.items():
        group_id = group_ids[group]
        for topic, partition, offset in commits:
            partition_id = partition_ids.get((topic, partition))
            if partition_id is not None:
                groups.append(group_id)
                partitions.append(partition_id)
                offsets.append(offset)
            elif topic in topic_ids:
                strays.add(GroupTopic(group_id, topic_ids[topic]))
    columns = [
        pa.array(values, field.type)
        for values, field in zip((groups, partitions, offsets), COMMIT_SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=COMMIT_SCHEMA), strays
