"""Checks of the bootstrap servers, the brokers, their releases, how long they keep commits, and the
clocks.

All bootstrap servers are tried. A client is content with the first one that answers, and a frozen
one can hold it up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from retentiond.act.delete import MAX_EVIDENCE_AGE_S, ROUND_TRIPS
from retentiond.config import Config, TopicPolicy
from retentiond.errors import KafkaUnavailable
from retentiond.formatting import MINUTE_MS, say_about, say_duration
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.brokers import (
    NEWEST_RELEASE,
    UNKNOWN_RELEASE,
    Brokers,
    Distance,
    Release,
)
from retentiond.kafka.cluster_identity import address
from retentiond.kafka.connection_check import address_of, problem_with
from retentiond.kafka.remedies import (
    PASSING,
    ConnectionProblem,
    unavailable,
)
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure
from retentiond.tools.doctor.finding import (
    Finding,
    Level,
    about,
    first_names,
    ok,
    problem,
    unchecked,
    warning,
)

OLDEST_RELEASE = (3, 0)

CONNECT_S = 10.0
"""How long both clients try to connect to a broker."""

SLOW_LOOK_UP_S = 1.0
"""A name that is looked up sooner is none worth a warning."""


def check_brokers(found: Brokers) -> Iterator[Finding]:
    """Every broker answers, and runs a supported release."""
    by_release: defaultdict[Release, list[str]] = defaultdict(list)
    for broker in found.brokers:
        where = f" ({broker.address})" if broker.address else ""
        if not isinstance(broker.release, Failure):
            by_release[broker.release].append(str(broker.broker_id))
        elif broker.is_alive:
            yield problem(
                f"broker {broker.broker_id}",
                f"does not answer{where}, so not every group can be seen and nothing is deleted "
                f"({broker.release})",
                "see that it is up, and that this host reaches the address that it advertises",
                (str(broker.broker_id),),
            )
        else:
            yield problem(
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
                f"Kafka {_say_release(release)}, and retentiond needs 3.0 or newer",
                "upgrade it",
            )
    answering = [broker for brokers in by_release.values() for broker in brokers]
    releases = ", ".join(_say_release(release) for release in sorted(by_release))
    count = f"{len(answering)} of {len(found.brokers)} answer"
    if len(by_release) > 1:
        yield warning(
            "brokers",
            f"{count}, and they run different releases of Kafka: {releases}",
            "finish the upgrade",
        )
    elif by_release:
        yield ok(
            "brokers", f"{count}: {first_names(answering)}; by their API versions, Kafka {releases}"
        )


FAR = 0.7
"""The part of a limit from which on it is warned of."""


def check_distances(found: Mapping[int, Distance]) -> Iterator[Finding]:
    """No broker is so far away that evidence is too old before the request, or that no connection
    to it comes about; and its name is looked up soon."""
    slowest_s = max((times.request_s for times in found.values()), default=0.0)
    longest_s = max((times.connect_s for times in found.values()), default=0.0)
    look_up_s = max((times.look_up_s for times in found.values()), default=0.0)
    most_s = MAX_EVIDENCE_AGE_S / ROUND_TRIPS
    took = f"a request takes {_say_s(slowest_s)}, and a connection with its login "
    took += _say_s(longest_s)
    if slowest_s > FAR * most_s:
        is_too_far = slowest_s > most_s
        yield Finding(
            Level.PROBLEM if is_too_far else Level.WARNING,
            "distance",
            f"{took}; up to {ROUND_TRIPS} requests follow one another before records are deleted, "
            f"and after {MAX_EVIDENCE_AGE_S:g} s what the groups have read no longer counts: "
            f"{'nothing can be deleted' if is_too_far else 'little time is left for the groups'}, "
            f"and no setting changes that (at most {_say_s(most_s)} a request works)",
            "run retentiond nearer to the brokers",
            _farther_than(found, lambda times: times.request_s > FAR * most_s),
        )
    if longest_s > FAR * CONNECT_S:
        yield Finding(
            Level.PROBLEM if longest_s > CONNECT_S else Level.WARNING,
            "distance",
            f"{took}; a connection that takes longer than {CONNECT_S:g} s is given up",
            "look at the network, and at how long logins take",
            _farther_than(found, lambda times: times.connect_s > FAR * CONNECT_S),
        )
    if look_up_s > SLOW_LOOK_UP_S:
        yield Finding(
            Level.PROBLEM if look_up_s > CONNECT_S else Level.WARNING,
            "names",
            f"a broker's name takes {_say_s(look_up_s)} to look up, before each new connection; "
            f"deletions wait for it, and one that takes longer than {CONNECT_S:g} s is given up",
            "look at this host's name servers (/etc/resolv.conf): often the first one is down",
            _farther_than(found, lambda times: times.look_up_s > SLOW_LOOK_UP_S),
        )
    if found and slowest_s <= FAR * most_s and longest_s <= FAR * CONNECT_S:
        yield ok("distance", f"{took}, at the slowest broker")


def _farther_than(
    found: Mapping[int, Distance], is_far: Callable[[Distance], bool]
) -> tuple[str, ...]:
    return tuple(str(broker) for broker, times in found.items() if is_far(times))


def _say_s(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def check_leaders(found: Brokers, config: Config) -> Iterator[Finding]:
    """Every partition of an enabled topic has a leader."""
    yield from about(
        Level.PROBLEM,
        "partition",
        [str(at) for at in found.leaderless if config.policy_for(at.topic) is not None],
        "without a leader: can't be read, and nothing is deleted there",
        "start the brokers that hold it",
    )


def _say_release(release: Release) -> str:
    if release <= UNKNOWN_RELEASE:
        return "of an unknown release"
    return ".".join(map(str, release)) + " or newer" * (release >= NEWEST_RELEASE)


ServerProblems = Mapping[str, ConnectionProblem | None]
"""What is wrong with each server (HOST:PORT); None if nothing is, as far as can be seen."""


def try_servers(settings: ClientSettings) -> ServerProblems:
    """Tries all bootstrap servers at once. A server takes some seconds at most."""
    entries = settings.bootstrap_servers.split(",")
    servers = [*dict.fromkeys(address(*address_of(entry)) for entry in entries)]
    with ThreadPoolExecutor(len(servers), thread_name_prefix="reach") as executor:
        problems = executor.map(lambda server: problem_with(server, settings), servers)
        return dict(zip(servers, problems, strict=True))


def with_answering_servers(settings: ClientSettings, reached: ServerProblems) -> ClientSettings:
    """The settings with the servers that answer. Raises `KafkaUnavailable` if none does."""
    answering = [server for server, found in reached.items() if found is None]
    answering = answering or [
        server
        for server, found in reached.items()
        if found and found.kind not in PASSING  # the clients tell these problems soon, too
    ]
    if not answering:
        raise KafkaUnavailable("; ".join(map(str, _errors(reached, settings))))
    servers = ",".join(answering)
    return replace(
        settings,
        confluent={**settings.confluent, "bootstrap.servers": servers},
        kafka_python={**settings.kafka_python, "bootstrap_servers": servers},
        bootstrap_servers=servers,
    )


def check_servers(reached: ServerProblems, settings: ClientSettings) -> Iterator[Finding]:
    """A finding for the servers that don't answer, if others do."""
    for error in _errors(reached, settings):
        yield warning(
            "bootstrap.servers",
            str(error),
            "a client may start from any of them: fix it, or take it off the list",
        )


def _errors(reached: ServerProblems, settings: ClientSettings) -> Iterator[KafkaUnavailable]:
    for server, reason in reached.items():
        if reason is not None:
            yield unavailable(server, reason, settings.words)


OFFSETS_RETENTION = "offsets.retention.minutes"

SKEW_WARNING_MS = 5_000

SKEW_PROBLEM_MS = 5 * MINUTE_MS


def check_offsets_retention(
    topics: Sequence[EnabledTopic], settings: Mapping[int, str | Failure]
) -> Iterator[Finding]:
    """The commits of an idle group don't expire before records are old enough to go. If they do,
    the group vanishes and holds the records."""
    kept_ms = []
    for broker, value in settings.items():
        if not isinstance(value, Failure):
            kept_ms.append(int(value) * MINUTE_MS)
            continue
        yield unchecked(
            f"{OFFSETS_RETENTION} of broker {broker}",
            value,
            "compare it with the consumed retentions by hand, or grant DESCRIBE_CONFIGS on CLUSTER",
        )
    if not kept_ms:
        return
    shortest_ms = min(kept_ms)
    affected = [
        topic.reading.name
        for topic in topics
        if isinstance(topic.reading.policy, TopicPolicy)
        and topic.reading.policy.consumed_retention_ms > shortest_ms
    ]
    yield from about(
        Level.WARNING,
        "topic",
        affected,
        f"the commits of a group that stands still expire after {say_duration(shortest_ms)} "
        f"({OFFSETS_RETENTION}), before a record is old enough to go: the group vanishes, and "
        "holds it",
        f"raise {OFFSETS_RETENTION} on the brokers, or lower the consumed retention",
    )
    if not affected:
        yield ok(
            OFFSETS_RETENTION, f"{say_duration(shortest_ms)}, no shorter than a consumed retention"
        )


def check_clocks(skew_ms: int | None) -> Iterator[Finding]:
    """This host's clock agrees with the active controller's. ``skew_ms``: as of
    `ExaminedCluster`."""
    if skew_ms is None:
        yield unchecked(
            "clocks",
            "the cluster does not tell its time (one without ZooKeeper does, from Kafka 3.3 on, to "
            "those with DESCRIBE on CLUSTER), so the age of records rests on this host's clock "
            "alone: where that is ahead, records are deleted too soon",
            "keep this host's clock in step with NTP",
        )
        return
    if abs(skew_ms) < SKEW_WARNING_MS:
        yield ok("clocks", "this host's and the controller's agree")
        return
    yield Finding(
        Level.PROBLEM if abs(skew_ms) >= SKEW_PROBLEM_MS else Level.WARNING,
        "clocks",
        f"this host's is {say_about(abs(skew_ms))} {'ahead of' if skew_ms > 0 else 'behind'} the "
        "controller's: the earlier one counts, so records stay longer than they need to",
        "keep both in step with NTP",
    )
