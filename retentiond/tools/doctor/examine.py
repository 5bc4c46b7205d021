"""Reads the cluster and this host part by part, and runs all checks, one after the other.

Invariant: if a part can't be read or checked, a finding says so, and the other parts are still read
and checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from retentiond.act.evidence import Evidence
from retentiond.config import Config, ExternalReader
from retentiond.errors import KafkaUnavailable, RetentiondError
from retentiond.gather.assemble import assemble, external_readers
from retentiond.gather.external_positions import Position, read_external
from retentiond.gather.groups import GroupListing, read_groups
from retentiond.gather.topics import EnabledTopic, enabled_topics
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import Kafka
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import Remembered
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import PartitionReading
from retentiond.state.groups_lookup import recall
from retentiond.tell.reasons import tool_options, with_address
from retentiond.tools.doctor.cluster import (
    OFFSETS_RETENTION,
    check_brokers,
    check_clocks,
    check_distances,
    check_leaders,
    check_offsets_retention,
    check_servers,
    try_servers,
    with_answering_servers,
)
from retentiond.tools.doctor.finding import (
    Clocks,
    ExaminedCluster,
    Finding,
    Level,
    PartitionLog,
    both_checked,
    checked,
    unchecked,
)
from retentiond.tools.doctor.groups import (
    check_external,
    check_groups,
    check_groups_visible,
    check_readers,
    check_unseen,
)
from retentiond.tools.doctor.host import (
    check_port,
    check_remembered,
    check_state_dir,
    read_port,
    read_state_dir,
)
from retentiond.tools.doctor.segments import check_segments, read_logs
from retentiond.tools.doctor.spark import (
    check_java_options,
    check_spark,
    java_version,
    spark_version,
)
from retentiond.tools.doctor.topics import (
    check_entries,
    check_policy_files,
    check_topic_rights,
    check_topics,
    check_undated,
    deletable,
    read_undated,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Examination:
    """The result of doctor. ``cluster_id``: None if the cluster can't be reached."""

    cluster_id: str | None
    findings: tuple[Finding, ...]

    def count(self, level: Level) -> int:
        return sum(finding.level is level for finding in self.findings)


def examine(config: Config, settings: ClientSettings, now: Callable[[], int]) -> Examination:
    """Runs all checks. ``now``: this host's clock, in epoch milliseconds."""
    cluster_id: str | None = None
    findings: list[Finding] = []
    try:
        reached = try_servers(settings)
        reachable = with_answering_servers(with_short_timeouts(settings), reached)
        with closing(KafkaCluster(reachable, lambda *_: None)) as kafka:
            cluster = read_cluster(kafka, config, now)
            measured = value_or_failure(kafka.distances)
        cluster_id = cluster.brokers.cluster_id
        findings += checked(
            "bootstrap.servers", reached, lambda _: check_servers(reached, settings)
        )
        findings += checked("distance", measured, check_distances)
        findings += examine_cluster(cluster, config)
    except KafkaUnavailable as error:
        findings += [Finding(Level.PROBLEM, "cluster", str(error)), NOT_ASKED]
    except Exception as error:  # noqa: BLE001 - see the invariant
        why = f"{type(error).__name__}: {error}; please report this"
        findings += [unchecked("cluster", why), NOT_ASKED]
    options = tool_options(config.kafka)
    with_commands = (
        replace(finding, sentence=with_address(finding.sentence, options))
        for finding in (*findings, *examine_host(config))
    )
    return Examination(cluster_id, tuple(with_commands))


NOT_ASKED = unchecked(
    "the cluster's checks",
    "brokers, rights, topics, groups, segments, commits' retention and clocks can "
    "be looked at only where the cluster answers",
)


def examine_cluster(seen: ExaminedCluster, config: Config) -> Iterator[Finding]:
    options = tool_options(config.kafka)
    yield from checked("brokers", seen.brokers, check_brokers)
    yield from checked("leaders", seen.brokers, lambda found: check_leaders(found, config))
    yield from checked(
        "rights on cluster and groups",
        seen.coordinators,
        lambda state: check_groups_visible(state, config),
    )
    yield from checked(
        "rights on topics", seen.rights, lambda found: check_topic_rights(found, options)
    )
    yield from checked(
        "topics", seen.names, lambda names: check_entries(config, names, seen.rights)
    )
    yield from check_policy_files(config)
    yield from checked("enabled topics", seen.topics, lambda topics: check_topics(topics, config))
    yield from checked("timestamps", seen.undated, check_undated)
    yield from checked("groups", seen.listing, check_groups)
    deleted_from = seen.topics if isinstance(seen.topics, Failure) else deletable(seen.topics)
    yield from both_checked("readers", deleted_from, seen.evidence, check_readers)
    yield from both_checked("readers that commit nothing", seen.names, seen.evidence, check_unseen)
    groups = () if isinstance(seen.listing, Failure) else seen.listing.groups
    yield from both_checked(
        "external readers",
        deleted_from,
        seen.external,
        lambda topics, external: check_external(
            topics, external, groups, {} if isinstance(seen.logs, Failure) else seen.logs
        ),
    )
    yield from both_checked(
        "segments",
        deleted_from,
        seen.logs,
        lambda topics, logs: check_segments(topics, logs, options),
    )
    yield from both_checked(
        OFFSETS_RETENTION, deleted_from, seen.offsets_retention, check_offsets_retention
    )
    yield from checked("clocks", seen.clocks, check_clocks)
    yield from checked(
        "state_dir",
        seen.remembered,
        lambda known: check_remembered(known, seen.brokers.cluster_id, config.state_dir),
    )


def examine_host(config: Config) -> Iterator[Finding]:
    java = value_or_failure(java_version)
    yield from checked(
        "Spark",
        value_or_failure(spark_version),
        lambda spark: check_spark(config.spark.master, spark, java),
    )
    yield from checked(
        "Java", os.environ, lambda given: check_java_options(config.spark.master, given)
    )
    state_dir = value_or_failure(lambda: read_state_dir(config.state_dir))
    yield from checked("state_dir", state_dir, check_state_dir)
    holder = None if isinstance(state_dir, Failure) else state_dir.holder
    port = value_or_failure(lambda: read_port(config.http.host, config.http.port))
    yield from checked("port", port, lambda found: check_port(found, holder))


TIMEOUT_MS = 5_000
"""How long a request may take. Doctor should not wait for a frozen broker as long as a cycle
does."""

WORKERS = 6


def with_short_timeouts(settings: ClientSettings) -> ClientSettings:
    """The settings with a timeout of at most `TIMEOUT_MS` for requests."""
    ms = min(TIMEOUT_MS, round(settings.request_timeout_s * 1000))
    return replace(
        settings,
        confluent={**settings.confluent, "socket.timeout.ms": str(ms)},
        kafka_python={**settings.kafka_python, "request_timeout_ms": ms},
        request_timeout_s=ms / 1000,
    )


def read_cluster(kafka: KafkaCluster, config: Config, now: Callable[[], int]) -> ExaminedCluster:
    """Reads all parts of the cluster at once. Raises `KafkaUnavailable` only if no broker answers.

    ``now``: this host's clock, in epoch milliseconds.
    """
    found = kafka.brokers()
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="doctor") as executor:
        names_to_come = executor.submit(value_or_failure, kafka.topic_names)
        topics_to_come = executor.submit(value_or_failure, lambda: enabled_topics(kafka, config))
        coordinators = executor.submit(value_or_failure, kafka.coordinator_state)
        listing = executor.submit(value_or_failure, lambda: read_groups(kafka))
        clocks = executor.submit(value_or_failure, lambda: _clocks(kafka, now))
        offsets_retention = executor.submit(value_or_failure, lambda: _offsets_retention(kafka))
        names, topics = names_to_come.result(), topics_to_come.result()
        positions = executor.submit(value_or_failure, lambda: _positions(topics, now, kafka))
        wanted = _enabled_names(config, names)
        allowed = executor.submit(value_or_failure, lambda: kafka.topic_rights(wanted))
        external = positions.result()  # before the logs' ends, else a live reader seems beyond them
        logs = (
            topics
            if isinstance(topics, Failure)
            else value_or_failure(lambda: read_logs(kafka, topics, executor))
        )
        remembered = value_or_failure(lambda: recall(config.state_dir))
        groups = listing.result()
        return ExaminedCluster(
            brokers=found,
            names=names,
            topics=topics,
            rights=allowed.result(),
            coordinators=coordinators.result(),
            listing=groups,
            external=external,
            remembered=remembered,
            evidence=value_or_failure(lambda: evidence_about(topics, groups, external, remembered)),
            clocks=clocks.result(),
            offsets_retention=offsets_retention.result(),
            logs=logs,
            undated=_undated(kafka, topics, logs, now),
        )


def value_or_failure(read: Callable[[], T | Failure]) -> T | Failure:
    """The value that was read, or why it could not be read."""
    try:
        return read()
    except RetentiondError as error:
        return Failure(type(error).__name__, str(error))
    except Exception as error:  # noqa: BLE001 - one reading must not keep the others from running
        return Failure(type(error).__name__, f"{error}; please report this")


def _undated(
    kafka: Kafka,
    topics: tuple[EnabledTopic, ...] | Failure,
    logs: Mapping[TopicPartition, PartitionLog | Failure] | Failure,
    now: Callable[[], int],
) -> frozenset[str] | Failure:
    if isinstance(topics, Failure):
        return topics
    if isinstance(logs, Failure):
        return logs
    return value_or_failure(lambda: read_undated(kafka, topics, logs, now()))


def _positions(
    topics: tuple[EnabledTopic, ...] | Failure, now: Callable[[], int], kafka: Kafka
) -> Mapping[ExternalReader, Position] | Failure:
    """The position of every external reader of the topics, read once."""
    if isinstance(topics, Failure):
        return topics
    return {reader: read_external(reader, now(), kafka) for reader in external_readers(topics)}


def evidence_about(
    topics: Sequence[EnabledTopic] | Failure,
    listing: GroupListing | Failure,
    external: Mapping[ExternalReader, Position] | Failure,
    remembered: Remembered | Failure,
) -> Evidence | Failure:
    """The readers of the topics, arranged as for the guard."""
    if isinstance(topics, Failure):
        return topics
    if isinstance(listing, Failure):
        return listing
    if isinstance(external, Failure):
        return external
    if isinstance(remembered, Failure):
        return remembered
    partitions = [
        PartitionReading(at, partition, None, None, None, None)
        for at, topic in enumerate(topics)
        for partition in topic.partitions
    ]
    snapshot = assemble("", 0, topics, partitions, listing, external=external)
    return Evidence(recalled(snapshot, remembered), [topic.reading.name for topic in topics])


def _offsets_retention(kafka: Kafka) -> dict[int, str | Failure]:
    answers = kafka.broker_configs([OFFSETS_RETENTION])
    return {
        broker: answer if isinstance(answer, Failure) else answer.get(OFFSETS_RETENTION, NOT_TOLD)
        for broker, answer in answers.items()
    }


NOT_TOLD = Failure("NOT_TOLD", "the broker leaves the setting out of its answer")


def _enabled_names(config: Config, visible: frozenset[str] | Failure) -> set[str]:
    """The visible topics that are enabled, and those that the configuration names exactly."""
    exact = config.exact_names
    names = exact if isinstance(visible, Failure) else exact | visible
    return {name for name in names if config.policy_for(name) is not None}


def _clocks(kafka: Kafka, now: Callable[[], int]) -> Clocks | Failure:
    before_ms = now()
    cluster_ms = kafka.cluster_time()
    if isinstance(cluster_ms, Failure):
        return cluster_ms
    return Clocks(before_ms, cluster_ms, now())
