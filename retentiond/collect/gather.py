"""Gather: one frozen snapshot of everything that a decision rests on."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from retentiond.collect.assemble import assemble
from retentiond.collect.census import CoordinatorWatch, completed, take_census
from retentiond.collect.clock import Time, earlier_time
from retentiond.collect.external import external_readers
from retentiond.collect.offsets import OffsetReads, ends, young_since
from retentiond.collect.positions import read_external
from retentiond.collect.remembered import NOTHING, Remembered
from retentiond.collect.snapshot import Snapshot
from retentiond.collect.topics import EnabledTopic, enabled_topics
from retentiond.config import Config
from retentiond.kafka.port import Kafka, OffsetBound
from retentiond.model import TopicPartition

WORKERS = 3


def gather(
    kafka: Kafka,
    config: Config,
    now_ms: int,
    *,
    only: Collection[TopicPartition] | None = None,
    watch: CoordinatorWatch | None = None,
    remembered: Remembered = NOTHING,
    wait_until: Callable[[float], None],
) -> Snapshot:
    """One snapshot of the enabled topics and of all groups.

    ``now_ms`` is the host's time. ``only`` asks for the offsets of those partitions alone, and
    leaves their topics' other partitions unread: the guard's second reading, and then ``now_ms``
    is the moment that the first one is about. ``watch`` has seen the reading before this one; a
    first reading waits longer. Raises `KafkaUnavailable` when the cluster or its topics can't be
    asked; everything else that fails holds what it touches.
    """
    watch = watch or CoordinatorWatch()
    before = watch.before(kafka, again=only is not None)
    settled_at = time.monotonic() + watch.seconds_to_settle(before)
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="gather") as executor:
        time_to_come = executor.submit(earlier_time, kafka, now_ms) if only is None else None
        names = None if only is None else {partition.topic for partition in only}
        topics_to_come = executor.submit(enabled_topics, kafka, config, names)
        wait_until(settled_at)
        census = take_census(kafka)
        topics = topics_to_come.result()
        asked = _asked(topics, only)
        log_starts = executor.submit(kafka.offsets, asked, OffsetBound.LOG_START)
        external = {
            reader: executor.submit(read_external, reader, now_ms)
            for reader in external_readers(topics)
        }
        high_watermarks, last_stable = ends(kafka, asked, executor)
        clock = time_to_come.result() if time_to_come else Time(now_ms)
        by_time = young_since(kafka, topics, asked, clock.now_ms)
        positions = {reader: found.result() for reader, found in external.items()}
        census = completed(census, kafka, before, watch, wait_until)
        reads = OffsetReads(log_starts.result(), high_watermarks, last_stable, by_time)
    partitions = reads.readings(topics, asked)
    return assemble(
        before.cluster_id,
        clock.now_ms,
        topics,
        partitions,
        replace(census, problems=census.problems + clock.problems),
        external=positions,
        remembered=remembered,
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
