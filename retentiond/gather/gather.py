"""One reading of the cluster, in the order that makes its parts comparable."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from retentiond.clock import Time, earlier_time
from retentiond.config import Config, ExternalReader
from retentiond.errors import StateOfOtherCluster
from retentiond.gather.assemble import assemble, external_readers
from retentiond.gather.commits import CommitReader
from retentiond.gather.external_reads import FOR_A_PLAN_S, FOR_THE_GUARD_S, start_reading
from retentiond.gather.groups import (
    GroupListing,
    LastCoordinators,
    read_groups,
    standstill_s,
    with_completeness,
)
from retentiond.gather.offsets import (
    OffsetReads,
    ends,
    retention_offsets,
    retentions,
    tiered_among,
    with_epochs,
)
from retentiond.gather.topics import EnabledTopic, enabled_topics, topics_gone
from retentiond.kafka.groups.commit_columns import CommitColumns
from retentiond.kafka.interface import Kafka, OffsetBound
from retentiond.model import TopicPartition
from retentiond.snapshot import Snapshot

WORKERS = 3


def gather(
    kafka: Kafka,
    config: Config,
    now_ms: int,
    *,
    only: Collection[TopicPartition] | None = None,
    first: Snapshot | None = None,
    coordinators: LastCoordinators | None = None,
    cluster_id: str | None = None,
    remembered_topics: Set[str] = frozenset(),
    wait_until: Callable[[float], None],
) -> Snapshot:
    """One snapshot of the enabled topics and of all groups, without what earlier cycles saw.

    ``now_ms`` is the host's time. ``only`` asks for the offsets of those partitions alone,
    not of their topics' other ones: the guard's second reading, and then ``now_ms``
    is the moment that the first one is about. ``first`` is that one: its retentions are in force,
    and who reads its other topics is in `Snapshot.other_topics`. ``coordinators``: as the reading
    before this one left them; a first reading waits longer. ``cluster_id``: the cluster that
    state_dir belongs to, None: any. ``remembered_topics`` are looked for where the listing lacks
    them.

    Raises `KafkaUnavailable` when the cluster or its topics can't be asked, and
    `StateOfOtherCluster` when it is another cluster; everything else that fails holds what it
    touches.
    """
    coordinators = coordinators or LastCoordinators()
    before = coordinators.before(kafka, again=only is not None)
    refuse_another_cluster(cluster_id, before.cluster_id, config.state_dir)
    stood_still_at = time.monotonic() + coordinators.seconds_to_wait(before)
    counts = first.commit_counts if first is not None else {}

    def stand_still(listed_at: float) -> None:
        """The guard's reading waits here, and not after the commits, which would grow old."""
        wait_until(listed_at + standstill_s(before))

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="gather") as executor:
        cluster_time = executor.submit(kafka.cluster_time) if only is None else None
        names = None if only is None else {partition.topic for partition in only}
        topics_to_come = executor.submit(_topics, kafka, config, names, remembered_topics)
        commits = CommitReader(kafka, counts, lambda: topics_to_come.result()[0])
        wait_until(stood_still_at)
        listing = (
            read_groups(kafka) if only is None else read_groups(kafka, stand_still, commits.read)
        )
        topics, gone, listed = topics_to_come.result()
        asked = _asked(topics, only)
        log_starts = executor.submit(kafka.offsets, asked, OffsetBound.LOG_START)
        tiered = tiered_among(topics, asked)
        local_starts = (
            executor.submit(kafka.offsets, tiered, OffsetBound.LOCAL_START) if tiered else None
        )
        positions = start_reading(
            external_readers(topics) | _spark_queries(config),
            now_ms,
            kafka,
            most_seconds=FOR_A_PLAN_S if only is None else FOR_THE_GUARD_S,
        )
        high_watermarks, last_stable = ends(kafka, asked, executor)
        clock = earlier_time(now_ms, cluster_time.result()) if cluster_time else Time(now_ms)
        in_force = retentions(topics, first)
        by_time = retention_offsets(
            kafka, {at: in_force[at] for at in asked if at in in_force}, clock.now_ms
        )
        external = positions()
        unchanged = executor.submit(commits.unless_more_partitions, topics)
        listing = with_completeness(listing, kafka, before, coordinators, wait_until)
        topics = unchanged.result()
        reads = OffsetReads(
            log_starts.result(),
            high_watermarks,
            last_stable,
            by_time,
            local_starts.result() if local_starts else {},
            in_force,
            first,
        )
    snapshot = assemble(
        before.cluster_id,
        clock.now_ms,
        topics,
        reads.readings(topics, asked),
        replace(listing, problems=listing.problems + clock.problems),
        external=external,
    )
    if listed is not None:
        others = _awaited(listing, config, listed | {each.reading.name for each in topics}, gone)
    elif first is not None:
        others = _readers_of_other_topics(snapshot, listing, config, first)
    else:
        others = {}
    snapshot = replace(
        snapshot,
        gone_topics=gone,
        other_topics=others,
        visible_topics=listed or frozenset(),
        commit_counts={group: len(found) for group, found in listing.commits.items()},
    )
    return with_epochs(snapshot, kafka)


def _spark_queries(config: Config) -> frozenset[ExternalReader]:
    """They count on each topic that their checkpoint names, whichever topics are asked about."""
    return frozenset(
        reader
        for each in config.entries
        if each.policy.enabled
        for reader in each.policy.external_readers
        if reader.spark_checkpoint is not None
    )


def refuse_another_cluster(known: str | None, cluster_id: str, state_dir: Path) -> None:
    """Raises `StateOfOtherCluster`: what is known of one cluster says nothing about another."""
    if known not in (None, cluster_id):
        raise StateOfOtherCluster(
            f"state_dir {state_dir} belongs to cluster {known}, and "
            f"kafka.bootstrap.servers lead to cluster {cluster_id}, so nothing is read or deleted: "
            "correct bootstrap.servers, or give each cluster a state_dir of its own"
        )


def _awaited(
    listing: GroupListing, config: Config, existing: Set[str], gone: frozenset[str]
) -> dict[str, frozenset[str]]:
    """Topics that the policy enables, that members want, and that do not exist yet.

    What a member's pattern may match is known of the policy's exact names, and of topics that are
    gone.
    """
    subscribed = {topic for members in listing.members.values() for topic in members.topics}
    names = (subscribed | gone | config.exact_names) - existing
    policies = {name: policy for name in names if (policy := config.policy_for(name)) is not None}
    awaited = {
        group: frozenset(
            name
            for name in listing.read_by(group, policies.keys())
            if not policies[name].excludes(group)
        )
        for group in listing.members
    }
    return {group: names for group, names in awaited.items() if names}


def _readers_of_other_topics(
    second: Snapshot, listing: GroupListing, config: Config, first: Snapshot
) -> dict[str, frozenset[str]]:
    """What all groups say of the topics that the guard's reading is not about."""
    existing = {topic.name for topic in first.topics}
    others = existing - {topic.name for topic in second.topics}
    awaited = _awaited(listing, config, existing, first.gone_topics)
    readers: dict[str, frozenset[str]] = {}
    for group in listing.groups:
        commits = CommitColumns.of(listing.commits.get(group, ()))
        committed = others.intersection(name for name, _ in commits.topics)
        names = committed | listing.read_by(group, others) | awaited.get(group, frozenset())
        if names:
            readers[group] = frozenset(names)
    return readers


def _topics(
    kafka: Kafka, config: Config, only: Collection[str] | None, remembered: Set[str]
) -> tuple[tuple[EnabledTopic, ...], frozenset[str], frozenset[str] | None]:
    """The enabled topics; those that are remembered and gone, by a first reading; and all that it
    has listed."""
    if only is not None:
        return enabled_topics(kafka, config, only), frozenset(), None
    listed = kafka.topic_names()
    unlisted = config.exact_names - listed
    enabled = enabled_topics(kafka, config, listed | unlisted)
    # A topic that the policy names, and that may not be seen, is a topic with a failure.
    found = tuple(each for each in enabled if not (each.reading.name in unlisted and each.is_gone))
    return found, topics_gone(kafka, remembered - listed), listed


def _asked(
    topics: Sequence[EnabledTopic], only: Collection[TopicPartition] | None
) -> list[TopicPartition]:
    every = [TopicPartition(each.reading.name, at) for each in topics for at in each.partitions]
    wanted = None if only is None else set(only)
    return every if wanted is None else [partition for partition in every if partition in wanted]
