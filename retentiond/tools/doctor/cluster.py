"""The addresses to start from, the brokers, what they speak, how long they keep commits.

A client is content with the first that answers, and can be held up by one that is frozen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from retentiond.config import Config, TopicPolicy
from retentiond.errors import KafkaUnavailable
from retentiond.formatting import MINUTE_MS, say_about, say_duration
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.brokers import NEWEST_RELEASE, ApiVersions, Brokers
from retentiond.kafka.errors.connection_check import address_of, problem_with
from retentiond.kafka.errors.remedies import (
    ConnectionProblem,
    ProblemKind,
    unavailable,
)
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure
from retentiond.tools.doctor.finding import (
    Clocks,
    Finding,
    Level,
    about,
    first_names,
    ok,
    unchecked,
)

OLDEST_RELEASE = (3, 0)


def check_brokers(found: Brokers) -> Iterator[Finding]:
    """Each broker answers, and speaks for a release that is supported."""
    by_release: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for broker in found.brokers:
        where = f" ({broker.address})" if broker.address else ""
        if isinstance(broker.api_versions, ApiVersions):
            by_release[broker.api_versions.release or (0,)].append(str(broker.broker_id))
        elif broker.is_alive:
            yield Finding(
                Level.PROBLEM,
                f"broker {broker.broker_id}",
                f"does not answer{where}, so not every group can be seen and nothing is deleted "
                f"({broker.api_versions})",
                "see that it is up, and that this host reaches the address that it advertises",
                (str(broker.broker_id),),
            )
        else:
            yield Finding(
                Level.PROBLEM,
                f"broker {broker.broker_id}",
                f"is down{where}: partitions are assigned to it, and the cluster does not count "
                "it among its brokers",
                "start it; or, if it is gone for good, reassign its partitions",
                (str(broker.broker_id),),
            )
    for release, brokers in by_release.items():
        if release < OLDEST_RELEASE:
            yield from about(
                Level.PROBLEM,
                "broker",
                brokers,
                f"Kafka {_said(release)}, and retentiond needs 3.0 or newer",
                "upgrade it",
            )
    answering = [broker for brokers in by_release.values() for broker in brokers]
    releases = ", ".join(_said(release) for release in sorted(by_release))
    count = f"{len(answering)} of {len(found.brokers)} answer"
    if len(by_release) > 1:
        yield Finding(
            Level.WARNING,
            "brokers",
            f"{count}, and they run different releases of Kafka: {releases}",
            "finish the upgrade",
        )
    elif by_release:
        yield ok(
            "brokers", f"{count}: {first_names(answering)}; by what they speak Kafka {releases}"
        )


def check_leaders(found: Brokers, config: Config) -> Iterator[Finding]:
    """Every partition of an enabled topic is led by somebody."""
    yield from about(
        Level.PROBLEM,
        "partition",
        [str(at) for at in found.leaderless if config.policy_for(at.topic) is not None],
        "without a leader: can't be read, and nothing is deleted there",
        "start the brokers that hold it",
    )


def _said(release: tuple[int, ...]) -> str:
    if release <= (0,):
        return "of an unknown release"
    return ".".join(map(str, release)) + " or newer" * (release >= NEWEST_RELEASE)


class RequiredApi(NamedTuple):
    """``version``: the lowest that will do. ``without``: what its lack means."""

    api: str
    without: str
    level: Level = Level.PROBLEM
    version: int = 0


NO_COMPLETE_CYCLE = "no cycle can be completed"

REQUIRED_APIS = (
    RequiredApi("Metadata", NO_COMPLETE_CYCLE),
    RequiredApi("ListOffsets", NO_COMPLETE_CYCLE, version=1),
    RequiredApi("FindCoordinator", NO_COMPLETE_CYCLE),
    RequiredApi("DescribeConfigs", NO_COMPLETE_CYCLE, version=1),
    RequiredApi("ListGroups", NO_COMPLETE_CYCLE),
    RequiredApi("DescribeGroups", NO_COMPLETE_CYCLE),
    RequiredApi("OffsetFetch", NO_COMPLETE_CYCLE, version=2),
    RequiredApi("DeleteRecords", "nothing can be deleted"),
    RequiredApi("DescribeLogDirs", "bytes on disk are not known", Level.WARNING),
)
"""Whatever the groups are. DescribeQuorum is told by what its lack means, the clocks."""

GROUP_KINDS = {
    "ConsumerGroupDescribe": "consumer groups (KIP-848)",
    "ShareGroupDescribe": "share groups (KIP-932)",
    "DescribeShareGroupOffsets": "share groups (KIP-932)",
    "StreamsGroupDescribe": "streams groups (KIP-1071)",
}
"""The request that reads each kind of group; a cluster that lacks it has none of them."""


def check_apis(found: Brokers) -> Iterator[Finding]:
    """The requests that retentiond sends, and which broker lacks one."""
    api_versions = {
        str(each.broker_id): each.api_versions.versions
        for each in found.brokers
        if isinstance(each.api_versions, ApiVersions)
    }
    if not api_versions:
        return
    lacks = [*_lacks(api_versions)]
    yield from lacks
    absent = {
        groups
        for api, groups in GROUP_KINDS.items()
        if not any(api in versions for versions in api_versions.values())
    }
    here = f"; there can be no {' and no '.join(sorted(absent))} here" if absent else ""
    if not lacks:
        yield ok("API versions", f"every broker speaks all that retentiond asks for{here}")


def _lacks(api_versions: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    for need in REQUIRED_APIS:
        lacking = [
            broker
            for broker, versions in api_versions.items()
            if versions.get(need.api, -1) < need.version
        ]
        yield from about(
            need.level,
            "broker",
            lacking,
            f"{need.api} is not spoken (version {need.version} or later): {need.without}",
            "upgrade it",
        )
    for api, groups in GROUP_KINDS.items():
        lacking = [broker for broker, versions in api_versions.items() if api not in versions]
        if len(lacking) < len(api_versions):
            yield from about(
                Level.WARNING,
                "broker",
                lacking,
                f"{api} is not spoken: {groups} coordinated there can't be read, and hold "
                "what they may read",
                "finish the upgrade",
            )


OUTAGE_KINDS = (
    ProblemKind.NO_ADDRESS,
    ProblemKind.NOBODY_LISTENS,
    ProblemKind.NO_ANSWER,
)
"""Nothing can be asked there. About TLS the clients have the last word: they end soon, too."""

ServerProblems = Mapping[str, ConnectionProblem | None]
"""By server, HOST:PORT: what is wrong with it; None where nothing can be seen from here."""


def try_servers(settings: ClientSettings) -> ServerProblems:
    """All at once; each takes some seconds at most."""
    servers = [*dict.fromkeys(map(_server, settings.bootstrap_servers.split(",")))]
    with ThreadPoolExecutor(len(servers), thread_name_prefix="reach") as executor:
        found = executor.map(lambda server: problem_with(server, settings), servers)
        return dict(zip(servers, found, strict=True))


def _server(entry: str) -> str:
    """HOST:PORT of an entry of ``bootstrap.servers``."""
    host, port = address_of(entry)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def with_answering_servers(settings: ClientSettings, reached: ServerProblems) -> ClientSettings:
    """The settings with the servers that answer. Raises `KafkaUnavailable` if none does."""
    sound = [server for server, problem in reached.items() if problem is None]
    sound = sound or [
        server
        for server, problem in reached.items()
        if problem and problem.kind not in OUTAGE_KINDS
    ]
    if not sound:
        raise KafkaUnavailable("; ".join(map(str, _errors(reached, settings))))
    servers = ",".join(sound)
    return replace(
        settings,
        confluent={**settings.confluent, "bootstrap.servers": servers},
        kafka_python={**settings.kafka_python, "bootstrap_servers": servers},
        bootstrap_servers=servers,
    )


def check_servers(reached: ServerProblems, settings: ClientSettings) -> Iterator[Finding]:
    """A finding for the servers that don't answer, if others do."""
    for error in _errors(reached, settings):
        yield Finding(
            Level.WARNING,
            "bootstrap.servers",
            str(error),
            "a client may start from any of them: fix it, or take it off the list",
        )


def _errors(reached: ServerProblems, settings: ClientSettings) -> Iterator[KafkaUnavailable]:
    for server, problem in reached.items():
        if problem is not None:
            yield unavailable(server, problem, settings.words)


OFFSETS_RETENTION = "offsets.retention.minutes"

SKEW_WARNING_MS = 5_000

SKEW_PROBLEM_MS = 5 * MINUTE_MS


def check_offsets_retention(
    topics: Sequence[EnabledTopic], told: Mapping[int, str | Failure]
) -> Iterator[Finding]:
    """Kafka forgets the commits of a group that has stood still for that long. Where that is
    sooner than records are old enough to go, the group vanishes and holds them."""
    failed = {broker: each for broker, each in told.items() if isinstance(each, Failure)}
    for broker, failure in failed.items():
        yield unchecked(
            f"{OFFSETS_RETENTION} of broker {broker}",
            failure,
            "compare it with the consumed retentions by hand, or grant DESCRIBE_CONFIGS on CLUSTER",
        )
    kept_ms = [int(each) * MINUTE_MS for each in told.values() if not isinstance(each, Failure)]
    if not kept_ms:
        return
    shortest_ms = min(kept_ms)
    short = [
        topic.reading.name
        for topic in topics
        if isinstance(topic.reading.policy, TopicPolicy)
        and topic.reading.policy.consumed_retention_ms > shortest_ms
    ]
    yield from about(
        Level.WARNING,
        "topic",
        short,
        f"the commits of a group that stands still expire after {say_duration(shortest_ms)} "
        f"({OFFSETS_RETENTION}), before a record is old enough to go: the group vanishes, and "
        "holds it",
        f"raise {OFFSETS_RETENTION} on the brokers, or lower the consumed retention",
    )
    if not short:
        yield ok(
            OFFSETS_RETENTION, f"{say_duration(shortest_ms)}, no shorter than a consumed retention"
        )


def check_clocks(clocks: Clocks) -> Iterator[Finding]:
    """This host's clock against the active controller's."""
    if clocks.cluster_ms is None:
        yield unchecked(
            "clocks",
            "the cluster does not tell its time (one without ZooKeeper does, from Kafka 3.3 on, to "
            "those with DESCRIBE on CLUSTER), so the age of records rests on this host's clock "
            "alone: where that is ahead, they go sooner than they may",
            "keep this host's clock in step with NTP",
        )
        return
    ahead_ms = clocks.before_ms - clocks.cluster_ms
    behind_ms = clocks.cluster_ms - clocks.after_ms
    skew_ms = max(ahead_ms, behind_ms)
    if skew_ms < SKEW_WARNING_MS:
        yield ok("clocks", "this host's and the controller's agree")
        return
    yield Finding(
        Level.PROBLEM if skew_ms >= SKEW_PROBLEM_MS else Level.WARNING,
        "clocks",
        f"this host's is {say_about(skew_ms)} {'ahead of' if ahead_ms > 0 else 'behind'} the "
        "controller's: the earlier one counts, so records stay longer than they need to",
        "keep both in step with NTP",
    )
