"""Brokers, what they speak, and what this principal may do on the cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from retentiond.config import Config
from retentiond.doctor.finding import Finding, Level, about, ok, some
from retentiond.kafka.brokers import Brokers, Spoken

OLDEST_RELEASE = (3, 0)


def check_brokers(found: Brokers) -> Iterator[Finding]:
    """Each broker answers, and speaks for a release that is supported."""
    by_release: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for broker in found.brokers:
        where = f" ({broker.address})" if broker.address else ""
        if isinstance(broker.spoken, Spoken):
            by_release[broker.spoken.release or (0,)].append(str(broker.broker_id))
        elif broker.is_alive:
            yield Finding(
                Level.PROBLEM,
                f"broker {broker.broker_id}",
                f"does not answer{where}, so not every group can be seen and nothing is deleted "
                f"({broker.spoken})",
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
        yield ok("brokers", f"{count}: {some(answering)}; by what they speak Kafka {releases}")


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
    return ".".join(map(str, release)) if release > (0,) else "of an unknown release"


class Need(NamedTuple):
    """``version``: the lowest that will do. ``without``: what its lack means."""

    api: str
    without: str
    level: Level = Level.PROBLEM
    version: int = 0


NOT_READ = "no cycle can be completed"

NEEDS = (
    Need("Metadata", NOT_READ),
    Need("ListOffsets", NOT_READ, version=1),
    Need("FindCoordinator", NOT_READ),
    Need("DescribeConfigs", NOT_READ, version=1),
    Need("ListGroups", NOT_READ),
    Need("DescribeGroups", NOT_READ),
    Need("OffsetFetch", NOT_READ, version=2),
    Need("DeleteRecords", "nothing can be deleted"),
    Need("DescribeLogDirs", "bytes on disk are not known", Level.WARNING),
    Need(
        "DescribeQuorum",
        "a record's age rests on this host's clock alone (Kafka tells its own from 3.3 on)",
        Level.WARNING,
        version=1,
    ),
)
"""Whatever the groups are."""

KINDS = {
    "ConsumerGroupDescribe": "consumer groups (KIP-848)",
    "ShareGroupDescribe": "share groups (KIP-932)",
    "DescribeShareGroupOffsets": "share groups (KIP-932)",
    "StreamsGroupDescribe": "streams groups (KIP-1071)",
}
"""The request that reads each kind of group; a cluster that lacks it has none of them."""


def check_apis(found: Brokers) -> Iterator[Finding]:
    """The requests that retentiond sends, and which broker lacks one."""
    spoken = {
        str(each.broker_id): each.spoken.versions
        for each in found.brokers
        if isinstance(each.spoken, Spoken)
    }
    if not spoken:
        return
    lacks = [*_lacks(spoken)]
    yield from lacks
    absent = {
        groups
        for api, groups in KINDS.items()
        if not any(api in versions for versions in spoken.values())
    }
    here = f"; there can be no {' and no '.join(sorted(absent))} here" if absent else ""
    if not lacks:
        yield ok("API versions", f"every broker speaks all that retentiond asks for{here}")


def _lacks(spoken: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    for need in NEEDS:
        lacking = [
            broker
            for broker, versions in spoken.items()
            if versions.get(need.api, -1) < need.version
        ]
        yield from about(
            need.level,
            "broker",
            lacking,
            f"{need.api} is not spoken (version {need.version} or later): {need.without}",
            "upgrade it",
        )
    for api, groups in KINDS.items():
        lacking = [broker for broker, versions in spoken.items() if api not in versions]
        if len(lacking) < len(spoken):
            yield from about(
                Level.WARNING,
                "broker",
                lacking,
                f"{api} is not spoken: {groups} coordinated there can't be read, and hold "
                "what they may read",
                "finish the upgrade",
            )
