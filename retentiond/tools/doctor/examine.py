"""All checks, one after the other: the cluster's, then this host's.

Invariant: whatever can't be checked is said, and one check that fails keeps no other from running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from retentiond.config import Config
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.client import Client
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure
from retentiond.tell.reasons import tool_options, with_address
from retentiond.tools.doctor.cluster import (
    OFFSETS_RETENTION,
    check_apis,
    check_brokers,
    check_clocks,
    check_leaders,
    check_offsets_retention,
    check_servers,
    try_servers,
    with_answering_servers,
)
from retentiond.tools.doctor.finding import (
    ExaminedCluster,
    Finding,
    Level,
    both_checked,
    checked,
    unchecked,
)
from retentiond.tools.doctor.groups import (
    check_changelogs,
    check_external,
    check_groups,
    check_readers,
    check_unseen,
)
from retentiond.tools.doctor.host import (
    check_port,
    check_spark,
    java_version,
    read_port,
    spark_version,
)
from retentiond.tools.doctor.read_cluster import read_cluster, value_or_failure, with_short_timeouts
from retentiond.tools.doctor.rights import check_groups_visible, check_topic_rights
from retentiond.tools.doctor.segments import check_segments
from retentiond.tools.doctor.state_dir import check_remembered, check_state_dir, read_state_dir
from retentiond.tools.doctor.topics import check_entries, check_topics, deletable


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
        sound = with_answering_servers(with_short_timeouts(settings), reached)
        with (
            closing(KafkaCluster(sound, lambda *_: None)) as kafka,
            closing(Client(sound)) as connection,
        ):
            seen = read_cluster(kafka, connection, config, now)
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
    options = tool_options(config.kafka)
    told = (
        replace(each, sentence=with_address(each.sentence, options))
        for each in (*findings, *of_host(config))
    )
    return Examination(cluster_id, tuple(told))


NOT_ASKED = unchecked(
    "the cluster's checks",
    "brokers, API versions, rights, topics, groups, segments, commits' retention and clocks can "
    "be looked at only where the cluster answers",
)


def of_cluster(seen: ExaminedCluster, config: Config) -> Iterator[Finding]:
    options = tool_options(config.kafka)
    yield from checked("brokers", seen.brokers, check_brokers)
    yield from checked("API versions", seen.brokers, check_apis)
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
    yield from checked("enabled topics", seen.topics, lambda topics: check_topics(topics, config))
    yield from checked("groups", seen.listing, check_groups)
    deleted_from = seen.topics if isinstance(seen.topics, Failure) else deletable(seen.topics)
    yield from both_checked("readers", deleted_from, seen.evidence, check_readers)
    yield from both_checked("changelogs", deleted_from, seen.evidence, check_changelogs)
    yield from both_checked("readers that commit nothing", seen.names, seen.evidence, check_unseen)
    groups = () if isinstance(seen.listing, Failure) else seen.listing.groups
    yield from both_checked(
        "external readers",
        deleted_from,
        seen.external,
        lambda topics, external: check_external(topics, external, groups),
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


def of_host(config: Config) -> Iterator[Finding]:
    java = value_or_failure(java_version)
    yield from checked(
        "Spark",
        value_or_failure(spark_version),
        lambda spark: check_spark(config.spark.master, spark, java),
    )
    yield from checked(
        "state_dir", value_or_failure(lambda: read_state_dir(config.state_dir)), check_state_dir
    )
    http = config.http
    yield from checked(
        "port", value_or_failure(lambda: read_port(http.host, http.port)), check_port
    )
