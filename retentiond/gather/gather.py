"""One reading of the cluster, in the order that makes its parts comparable."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence, Set
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from retentiond.background import at_once
from retentiond.clock import earlier_time
from retentiond.config import Config
from retentiond.errors import StateOfOtherCluster
from retentiond.gather.assemble import assemble, external_readers, required_groups
from retentiond.gather.commits import CommitReader
from retentiond.gather.external_reads import FOR_A_PLAN_S, FOR_THE_GUARD_S, start_reading
from retentiond.gather.groups import (
    GroupListing,
    LastCoordinators,
    read_groups,
    standstill_s,
    with_completeness,
)
from retentiond.gather.offsets import read_offsets, retentions, with_epochs
from retentiond.gather.topics import EnabledTopic, enabled_topics, topics_gone
from retentiond.kafka.groups.commit_columns import CommitColumns
from retentiond.kafka.interface import Kafka
from retentiond.model import TopicPartition
from retentiond.snapshot import Snapshot


def get_ready(
    kafka: Kafka,
    coordinators: LastCoordinators,
    partitions: Collection[TopicPartition],
    *,
    wait_until: Callable[[float], None],
) -> float:
    """What `gather_again`, and the deletion after it, need beside evidence: connections, and how
    the coordinators stood before. Returns the round trip to the slowest broker in seconds.

    Raises `KafkaUnavailable`.
    """
    round_trip_s = kafka.get_ready(partitions)
    coordinators.get_ready(kafka, wait_until)
    return round_trip_s


def gather(
    kafka: Kafka,
    config: Config,
    now_ms: int,
    *,
    coordinators: LastCoordinators | None = None,
    cluster_id: str | None = None,
    remembered_topics: Set[str] = frozenset(),
    once_listed: Callable[[], None] = lambda: None,
    wait_until: Callable[[float], None],
) -> Snapshot:
    """One snapshot of the enabled topics and of all groups, without what earlier cycles saw.

    ``now_ms`` is the host's time. ``coordinators``: as the reading before this one left them; a
    first reading waits longer. ``cluster_id``: the cluster that state_dir belongs to, None: any.
    ``remembered_topics`` are looked for where the listing lacks them. ``once_listed`` is called
    when the topics are listed. ``wait_until`` sleeps until a `time.monotonic` instant.

    Raises `KafkaUnavailable` when the cluster or its topics can't be asked, and
    `StateOfOtherCluster` when it is another cluster; everything else that fails holds what it
    touches.
    """
    coordinators = coordinators or LastCoordinators()
    before = coordinators.before(kafka)
    refuse_another_cluster(cluster_id, before.cluster_id, config.state_dir)
    stood_still_at = time.monotonic() + coordinators.seconds_to_wait(before)
    with at_once() as executor:
        cluster_time = executor.submit(kafka.cluster_time)
        topics_to_come = executor.submit(
            _topics, kafka, config, remembered_topics, once_listed, executor
        )
        wait_until(stood_still_at)
        listing = read_groups(kafka, executor=executor)
        topics = topics_to_come.result()
        positions = start_reading(
            external_readers(topics.enabled) | config.spark_queries,
            now_ms,
            kafka,
            most_seconds=FOR_A_PLAN_S,
        )
        cluster_ms = cluster_time.result()
        clock = earlier_time(now_ms, cluster_ms)
        external = positions()  # before the ends, or one that moves meanwhile lies beyond its end
        offsets = read_offsets(
            kafka,
            topics.enabled,
            _partitions(topics.enabled),
            executor,
            retentions_ms=retentions(topics.enabled),
            now_ms=clock.now_ms,
        )
        listing = with_completeness(listing, kafka, before, coordinators, wait_until)
    snapshot = assemble(
        before.cluster_id,
        clock.now_ms,
        topics.enabled,
        offsets.readings(topics.enabled),
        replace(listing, problems=listing.problems + clock.problems),
        external=external,
        required_elsewhere=_required_groups(config),
    )
    existing = topics.listed | {topic.reading.name for topic in topics.enabled}
    snapshot = replace(
        snapshot,
        gone_topics=topics.gone,
        visible_topics=topics.listed,
        other_topics=_awaited(listing, config, existing, topics.gone),
        commit_counts={group: len(commits) for group, commits in listing.commits.items()},
        knows_external=not config.unreadable,
        clock_skew_ms=now_ms - cluster_ms if isinstance(cluster_ms, int) else None,
    )
    return with_epochs(snapshot, kafka)


def gather_again(
    kafka: Kafka,
    config: Config,
    now_ms: int,
    first: Snapshot,
    only: Set[TopicPartition],
    *,
    coordinators: LastCoordinators | None = None,
    cluster_id: str | None = None,
    wait_until: Callable[[float], None],
) -> Snapshot:
    """The guard's reading: all groups once more, and the offsets of those partitions alone.

    Records are as old as at the moment of the ``first`` one, whose retentions are in force;
    positions of external readers are as old as they are now (``now_ms``, the host's time). Who
    reads the other topics of that one is in `Snapshot.other_topics`. The rest is as for `gather`.
    """
    coordinators = coordinators or LastCoordinators()
    before = coordinators.last or coordinators.before(kafka)  # as the first reading left them
    refuse_another_cluster(cluster_id, before.cluster_id, config.state_dir)
    stood_still_at = time.monotonic() + coordinators.seconds_to_wait(before)

    with at_once() as executor:
        names = {partition.topic for partition in only}
        topics_to_come = executor.submit(enabled_topics, kafka, config, names, executor)
        commits = CommitReader(kafka, first.commit_counts, topics_to_come.result, executor)
        wait_until(stood_still_at)
        # The wait comes before the commits, which would grow old.
        listing = read_groups(
            kafka,
            lambda at: wait_until(at + standstill_s(before)),
            commits.read,
            executor,
            had_commits={group for group, count in first.commit_counts.items() if count},
        )
        topics = topics_to_come.result()
        # From here on, all is about the same groups, and as late as the commits or later.
        complete = executor.submit(
            with_completeness, listing, kafka, before, coordinators, wait_until
        )
        unchanged = executor.submit(commits.unless_more_partitions, topics)
        positions = start_reading(
            external_readers(topics) | config.spark_queries,
            now_ms,
            kafka,
            most_seconds=FOR_THE_GUARD_S,
        )
        external = positions()
        offsets = read_offsets(
            kafka,
            topics,
            [partition for partition in _partitions(topics) if partition in only],
            executor,
            retentions_ms=retentions(topics, first),
            now_ms=first.taken_at_ms,
        )
        listing = complete.result()
        topics = unchanged.result()
    snapshot = assemble(
        before.cluster_id,
        first.taken_at_ms,
        topics,
        offsets.readings(topics, first),
        listing,
        external=external,
        required_elsewhere=_required_groups(config),
    )
    snapshot = replace(
        snapshot,
        other_topics=_readers_of_other_topics(snapshot, listing, config, first),
        commit_counts={group: len(found) for group, found in listing.commits.items()},
    )
    return with_epochs(snapshot, kafka)


def _required_groups(config: Config) -> frozenset[str]:
    return required_groups(entry.policy for entry in config.entries if entry.policy.enabled)


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
    existing = frozenset(topic.name for topic in first.topics)
    others = existing - {topic.name for topic in second.topics}
    awaited = _awaited(listing, config, existing, first.gone_topics)
    readers: dict[str, frozenset[str]] = {}
    for group in listing.groups:
        commits = CommitColumns.of(listing.commits.get(group, ()))
        committed = others.intersection(name for name, _ in commits.topics)
        # About all of them, as in each slice: then patterns need not be matched again.
        reads = listing.read_by(group, existing) & others
        names = committed | reads | awaited.get(group, frozenset())
        if names:
            readers[group] = frozenset(names)
    return readers


class _Topics(NamedTuple):
    """``enabled``: with those that the policy names and that may not be seen; ``gone``: those that
    are remembered and deleted; ``listed``: the names of all."""

    enabled: tuple[EnabledTopic, ...]
    gone: frozenset[str]
    listed: frozenset[str]


def _topics(
    kafka: Kafka,
    config: Config,
    remembered: Set[str],
    once_listed: Callable[[], None],
    executor: Executor,
) -> _Topics:
    listed = frozenset(kafka.topic_names())
    once_listed()
    unlisted = config.exact_names - listed
    enabled = enabled_topics(kafka, config, listed | unlisted, executor)
    # A topic that the policy names, and that may not be seen, is a topic with a failure.
    existing = tuple(
        topic for topic in enabled if not (topic.reading.name in unlisted and topic.is_gone)
    )
    return _Topics(existing, topics_gone(kafka, remembered - listed), listed)


def _partitions(topics: Sequence[EnabledTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.reading.name, at) for topic in topics for at in topic.partitions]
