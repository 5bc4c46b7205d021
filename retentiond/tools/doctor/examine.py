"""Reads the cluster and this host part by part, and runs all checks, one after the other.

Invariant: if a part can't be read or checked, a finding says so, and the other parts are still read
and checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial

from retentiond.act.evidence import Evidence
from retentiond.config import Config, ExternalReader
from retentiond.errors import KafkaUnavailable
from retentiond.fields import NUMBER, TEXT, described, figure, rows_of, said
from retentiond.gather.assemble import assemble, external_readers
from retentiond.gather.external_positions import Position, read_external
from retentiond.gather.groups import GroupListing, read_groups
from retentiond.gather.topics import EnabledTopic, enabled_topics
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import Kafka
from retentiond.kafka.settings.properties import ClientSettings, translate
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import Remembered
from retentiond.model import Failure
from retentiond.snapshot import PartitionReading
from retentiond.state.groups_lookup import recall
from retentiond.state.state_dir import holder_of
from retentiond.tell.reasons import tool_options, with_address
from retentiond.tools.doctor import cluster, groups, host, segments, spark, topics
from retentiond.tools.doctor.finding import (
    ExaminedCluster,
    Finding,
    Level,
    checked,
    problem,
    unchecked,
    value_or_failure,
)


@described
class Examination:
    """The result of doctor."""

    cluster_id: str | None = said(TEXT, "the cluster's id; null: it can't be reached")

    @figure(NUMBER, "how many findings are problems")
    def problems(self) -> int:
        return self._count(Level.PROBLEM)

    @figure(NUMBER, "how many are warnings")
    def warnings(self) -> int:
        return self._count(Level.WARNING)

    @figure(NUMBER, "how many checks are ok")
    def ok(self) -> int:
        return self._count(Level.OK)

    findings: tuple[Finding, ...] = said(rows_of(Finding), "what was found")

    def _count(self, level: Level) -> int:
        return sum(finding.level is level for finding in self.findings)


def examine(config: Config, now: Callable[[], int]) -> Examination:
    """Runs all checks. ``now``: this host's clock, in epoch milliseconds."""
    settings = translate(config.kafka)
    cluster_id: str | None = None
    findings: list[Finding] = []
    try:
        reached = cluster.try_servers(settings)
        reachable = cluster.with_answering_servers(with_short_timeouts(settings), reached)
        with closing(KafkaCluster(reachable, lambda *_: None)) as kafka:
            seen = read_cluster(kafka, config, now)
            measured = value_or_failure(kafka.distances)
        cluster_id = seen.brokers.cluster_id
        findings += checked("bootstrap.servers", cluster.check_servers, reached, settings)
        findings += checked("distance", cluster.check_distances, measured)
        findings += examine_cluster(seen, config)
    except KafkaUnavailable as error:
        findings += [problem("cluster", str(error)), NOT_ASKED]
    except Exception as error:  # noqa: BLE001 - see the invariant
        why = f"it can't be examined ({type(error).__name__}: {error})"
        findings += [problem("cluster", why, "please report this"), NOT_ASKED]
    options = tool_options(config.kafka)
    with_commands = (
        replace(finding, sentence=with_address(finding.sentence, options))
        for finding in (*findings, *examine_host(config, now()))
    )
    return Examination(cluster_id, tuple(with_commands))


NOT_ASKED = unchecked(
    "the cluster's checks",
    "brokers, rights, topics, groups, segments, commits' retention and clocks can "
    "be looked at only where the cluster answers",
)


def examine_cluster(seen: ExaminedCluster, config: Config) -> Iterator[Finding]:
    options = tool_options(config.kafka)
    yield from checked("brokers", cluster.check_brokers, seen.brokers)
    yield from checked("leaders", cluster.check_leaders, seen.brokers, config)
    yield from checked(
        "rights on cluster and groups", groups.check_groups_visible, seen.coordinators, config
    )
    yield from checked("rights on topics", topics.check_topic_rights, seen.rights, options, config)
    with_rights = partial(topics.check_entries, rights=seen.rights)  # that may be a failure
    yield from checked("topics", with_rights, config, seen.names)
    yield from topics.check_policy_files(config)
    yield from checked("enabled topics", topics.check_topics, seen.topics, config)
    yield from checked("timestamps", topics.check_undated, seen.undated)
    yield from checked("groups", groups.check_groups, seen.listing)
    deleted_from = value_or_failure(topics.deletable, seen.topics)
    yield from checked("readers", groups.check_readers, deleted_from, seen.evidence)
    yield from checked(
        "readers that commit nothing", groups.check_unseen, seen.names, seen.evidence
    )
    group_ids = () if isinstance(seen.listing, Failure) else seen.listing.groups
    logs = {} if isinstance(seen.logs, Failure) else seen.logs
    yield from checked(
        "external readers", groups.check_external, deleted_from, seen.external, group_ids, logs
    )
    yield from checked("segments", segments.check_segments, deleted_from, seen.logs, options)
    yield from checked(
        cluster.OFFSETS_RETENTION,
        cluster.check_offsets_retention,
        deleted_from,
        seen.offsets_retention,
    )
    yield from checked("clocks", cluster.check_clocks, seen.clock_skew_ms)
    cluster_id = seen.brokers.cluster_id
    yield from checked(
        "state_dir", host.check_remembered, seen.remembered, cluster_id, config.state_dir
    )


def examine_host(config: Config, now_ms: int) -> Iterator[Finding]:
    master, http = config.spark.master, config.http
    yield from checked("Spark", spark.check_spark, master)
    yield from checked("Java", spark.check_java_options, master, os.environ)
    holder = holder_of(config.state_dir)
    yield from checked("state_dir", host.check_state_dir, config.state_dir, holder)
    yield from checked("audit log", host.check_audit, config.state_dir, config.audit, now_ms)
    yield from checked("port", host.check_port, http.host, http.port, holder)


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
    brokers = kafka.brokers()
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="doctor") as executor:
        names_to_come = executor.submit(value_or_failure, kafka.topic_names)
        topics_to_come = executor.submit(value_or_failure, enabled_topics, kafka, config)
        coordinators = executor.submit(value_or_failure, kafka.coordinator_state)
        listing = executor.submit(value_or_failure, read_groups, kafka)
        clock_skew = executor.submit(value_or_failure, clock_skew_ms, kafka, now)
        offsets_retention = executor.submit(value_or_failure, _offsets_retention, kafka)
        names, enabled = names_to_come.result(), topics_to_come.result()
        positions = executor.submit(value_or_failure, _positions, enabled, kafka, now)
        wanted = _enabled_names(config, names)
        allowed = executor.submit(value_or_failure, kafka.topic_rights, wanted)
        external = positions.result()  # before the logs' ends, else a live reader seems beyond them
        logs = value_or_failure(segments.read_logs, kafka, enabled, executor)
        remembered = value_or_failure(recall, config.state_dir)
        listed = listing.result()
        return ExaminedCluster(
            brokers=brokers,
            names=names,
            topics=enabled,
            rights=allowed.result(),
            coordinators=coordinators.result(),
            listing=listed,
            external=external,
            remembered=remembered,
            evidence=value_or_failure(evidence_about, enabled, listed, external, remembered),
            clock_skew_ms=clock_skew.result(),
            offsets_retention=offsets_retention.result(),
            logs=logs,
            undated=value_or_failure(topics.read_undated, kafka, enabled, logs, now()),
        )


def _positions(
    enabled: Sequence[EnabledTopic], kafka: Kafka, now: Callable[[], int]
) -> dict[ExternalReader, Position]:
    return {reader: read_external(reader, now(), kafka) for reader in external_readers(enabled)}


def evidence_about(
    enabled: Sequence[EnabledTopic],
    listing: GroupListing,
    external: Mapping[ExternalReader, Position],
    remembered: Remembered,
) -> Evidence:
    """The readers of the enabled topics, arranged as for the guard."""
    partitions = [
        PartitionReading(at, partition, None, None, None, None)
        for at, topic in enumerate(enabled)
        for partition in topic.partitions
    ]
    snapshot = assemble("", 0, enabled, partitions, listing, external=external)
    return Evidence(recalled(snapshot, remembered), [topic.reading.name for topic in enabled])


def _offsets_retention(kafka: Kafka) -> dict[int, str | Failure]:
    name = cluster.OFFSETS_RETENTION
    return {
        broker: answer if isinstance(answer, Failure) else answer.get(name, NOT_TOLD)
        for broker, answer in kafka.broker_configs([name]).items()
    }


NOT_TOLD = Failure("NOT_TOLD", "the broker leaves the setting out of its answer")


def _enabled_names(config: Config, visible: frozenset[str] | Failure) -> set[str]:
    """The visible topics that are enabled, and those that the configuration names exactly."""
    exact = config.exact_names
    names = exact if isinstance(visible, Failure) else exact | visible
    return {name for name in names if config.policy_for(name) is not None}


def clock_skew_ms(kafka: Kafka, now: Callable[[], int]) -> int | Failure | None:
    """The time that the answer takes is no skew."""
    before_ms = now()
    cluster_ms = kafka.cluster_time()
    if not isinstance(cluster_ms, int):
        return cluster_ms
    if before_ms > cluster_ms:
        return before_ms - cluster_ms
    return min(0, now() - cluster_ms)
