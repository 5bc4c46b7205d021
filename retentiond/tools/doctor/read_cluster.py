"""Reads a cluster for the checks, part by part: one that fails leaves the others as they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from retentiond.act.evidence import Evidence
from retentiond.config import Config, ExternalReader
from retentiond.errors import RetentiondError
from retentiond.gather.assemble import assemble
from retentiond.gather.external_groups import external_readers
from retentiond.gather.external_positions import Position, read_external
from retentiond.gather.groups import GroupListing, read_groups
from retentiond.gather.topics import EnabledTopic, enabled_topics
from retentiond.kafka.brokers import brokers
from retentiond.kafka.client import Client
from retentiond.kafka.interface import Kafka
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.kafka.topics import topic_rights
from retentiond.memory.recall import recalled
from retentiond.memory.remembered import Remembered
from retentiond.model import Failure
from retentiond.snapshot import PartitionReading
from retentiond.state.groups import recall
from retentiond.tools.doctor.cluster import OFFSETS_RETENTION
from retentiond.tools.doctor.finding import Clocks, ExaminedCluster
from retentiond.tools.doctor.segments import read_logs

T = TypeVar("T")

TIMEOUT_MS = 5_000
"""For one request: a doctor that waits for a frozen broker as long as a cycle does is no help."""

WORKERS = 6


def with_short_timeouts(settings: ClientSettings) -> ClientSettings:
    """The same with requests that are given up soon."""
    ms = min(TIMEOUT_MS, round(settings.request_timeout_s * 1000))
    return replace(
        settings,
        confluent={**settings.confluent, "socket.timeout.ms": str(ms)},
        kafka_python={**settings.kafka_python, "request_timeout_ms": ms},
        request_timeout_s=ms / 1000,
    )


def read_cluster(
    kafka: Kafka, connection: Client, config: Config, now: Callable[[], int]
) -> ExaminedCluster:
    """All of it at once. Raises `KafkaUnavailable` only where no broker answers at all.

    ``now``: this host's clock, epoch milliseconds.
    """
    found = brokers(connection)
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
        allowed = executor.submit(value_or_failure, lambda: topic_rights(connection, wanted))
        logs = (
            topics
            if isinstance(topics, Failure)
            else value_or_failure(lambda: read_logs(kafka, topics, now(), executor))
        )
        remembered = value_or_failure(lambda: recall(config.state_dir))
        groups, external = listing.result(), positions.result()
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
        )


def value_or_failure(read: Callable[[], T | Failure]) -> T | Failure:
    """What was read, or why it could not be."""
    try:
        return read()
    except RetentiondError as error:
        return Failure(type(error).__name__, str(error))
    except Exception as error:  # noqa: BLE001 - one reading must not keep the others from running
        return Failure(type(error).__name__, f"{error}; please report this")


def _positions(
    topics: tuple[EnabledTopic, ...] | Failure, now: Callable[[], int], kafka: Kafka
) -> Mapping[ExternalReader, Position] | Failure:
    """Each is read once."""
    if isinstance(topics, Failure):
        return topics
    return {reader: read_external(reader, now(), kafka) for reader in external_readers(topics)}


def evidence_about(
    topics: Sequence[EnabledTopic] | Failure,
    listing: GroupListing | Failure,
    external: Mapping[ExternalReader, Position] | Failure,
    remembered: Remembered | Failure,
) -> Evidence | Failure:
    """Who reads the topics, arranged as for the guard."""
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
    told = kafka.broker_configs([OFFSETS_RETENTION])
    return {
        broker: each if isinstance(each, Failure) else each.get(OFFSETS_RETENTION, NOT_TOLD)
        for broker, each in told.items()
    }


NOT_TOLD = Failure("NOT_TOLD", "the broker leaves the setting out of its answer")


def _enabled_names(config: Config, visible: frozenset[str] | Failure) -> set[str]:
    """The visible topics that are enabled, and those that the configuration names exactly."""
    named = {entry.name for entry in config.topics if entry.name is not None}
    every = named if isinstance(visible, Failure) else named | visible
    return {name for name in every if config.policy_for(name) is not None}


def _clocks(kafka: Kafka, now: Callable[[], int]) -> Clocks | Failure:
    before_ms = now()
    cluster_ms = kafka.cluster_time()
    if isinstance(cluster_ms, Failure):
        return cluster_ms
    return Clocks(before_ms, cluster_ms, now())


def now_ms() -> int:
    """The system clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000
