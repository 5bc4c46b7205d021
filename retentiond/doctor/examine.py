"""All checks, one after the other: the cluster's, then this host's.

Invariant: whatever can't be checked is said, and one check that fails keeps no other from running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from retentiond.config import Config
from retentiond.doctor.cluster import check_apis, check_brokers, check_leaders
from retentiond.doctor.finding import Finding, Level, both_checked, checked, unchecked
from retentiond.doctor.host import (
    check_port,
    check_spark,
    java_version,
    look_at_port,
    spark_version,
)
from retentiond.doctor.look import hasty, look, tried
from retentiond.doctor.policy import check_entries
from retentiond.doctor.reach import check_servers, reachable, try_servers
from retentiond.doctor.readers import check_groups, check_readers
from retentiond.doctor.rights import check_groups_visible, check_topic_rights
from retentiond.doctor.seen import Seen
from retentiond.doctor.segments import check_segments
from retentiond.doctor.state_dir import check_state_dir, look_at_state_dir
from retentiond.doctor.times import OFFSETS_RETENTION, check_clocks, check_offsets_retention
from retentiond.doctor.topics import check_topics, deletable
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.connection import Connection
from retentiond.kafka.properties import ClientSettings
from retentiond.model import Failure


@dataclass(frozen=True, slots=True)
class Examination:
    """``cluster_id``: None where the cluster can't be asked."""

    cluster_id: str | None
    findings: tuple[Finding, ...]

    def count(self, level: Level) -> int:
        return sum(finding.level is level for finding in self.findings)


def examine(config: Config, settings: ClientSettings, now: Callable[[], int]) -> Examination:
    """``now``: this host's clock, epoch milliseconds."""
    cluster_id: str | None = None
    findings: list[Finding] = []
    try:
        reached = try_servers(settings)
        sound = reachable(hasty(settings), reached)
        with (
            closing(KafkaCluster(sound, lambda *_: None)) as kafka,
            closing(Connection(sound)) as connection,
        ):
            seen = look(kafka, connection, config, now)
        cluster_id = seen.brokers.cluster_id
        findings += checked(
            "bootstrap.servers", reached, lambda _: check_servers(reached, settings)
        )
        findings += of_cluster(seen, config)
    except KafkaUnavailable as error:
        findings += [Finding(Level.PROBLEM, "cluster", str(error)), NOT_ASKED]
    except Exception as error:  # noqa: BLE001 - see the invariant
        why = f"{type(error).__name__}: {error}; please report this"
        findings += [unchecked("cluster", why), NOT_ASKED]
    return Examination(cluster_id, (*findings, *of_host(config)))


NOT_ASKED = unchecked(
    "the cluster's checks",
    "brokers, API versions, rights, topics, groups, segments, commits' retention and clocks can "
    "be looked at only where the cluster answers",
)


def of_cluster(seen: Seen, config: Config) -> Iterator[Finding]:
    yield from checked("brokers", seen.brokers, check_brokers)
    yield from checked("API versions", seen.brokers, check_apis)
    yield from checked("leaders", seen.brokers, lambda found: check_leaders(found, config))
    yield from checked(
        "rights on cluster and groups",
        seen.coordinators,
        lambda state: check_groups_visible(state, config),
    )
    yield from checked("rights on topics", seen.rights, check_topic_rights)
    yield from checked(
        "topics", seen.names, lambda names: check_entries(config, names, seen.rights)
    )
    yield from checked("enabled topics", seen.topics, lambda topics: check_topics(topics, config))
    yield from checked("groups", seen.census, check_groups)
    deleted_from = seen.topics if isinstance(seen.topics, Failure) else deletable(seen.topics)
    yield from both_checked("readers", deleted_from, seen.census, check_readers)
    yield from both_checked("segments", deleted_from, seen.logs, check_segments)
    yield from both_checked(
        OFFSETS_RETENTION, deleted_from, seen.offsets_retention, check_offsets_retention
    )
    yield from checked("clocks", seen.clocks, check_clocks)


def of_host(config: Config) -> Iterator[Finding]:
    java = tried(java_version)
    yield from checked(
        "Spark", tried(spark_version), lambda spark: check_spark(config.spark.master, spark, java)
    )
    yield from checked(
        "state_dir", tried(lambda: look_at_state_dir(config.state_dir)), check_state_dir
    )
    http = config.http
    yield from checked("port", tried(lambda: look_at_port(http.host, http.port)), check_port)
