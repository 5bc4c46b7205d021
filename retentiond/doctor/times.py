"""How long commits are kept, and whether the clocks agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retentiond.collect.topics import EnabledTopic
from retentiond.config import TopicPolicy
from retentiond.config.duration import MINUTE_MS, say_duration
from retentiond.doctor.finding import Finding, Level, about, ok, unchecked
from retentiond.doctor.seen import Clocks
from retentiond.model import Failure
from retentiond.wording.figures import say_about

OFFSETS_RETENTION = "offsets.retention.minutes"

WORTH_SAYING_MS = 5_000

WORTH_MENDING_MS = 5 * MINUTE_MS


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
            "the cluster does not tell its time (Kafka does from 3.3 on, with DESCRIBE on "
            "CLUSTER), so the age of records rests on this host's clock alone",
            "keep this host's clock in step with NTP",
        )
        return
    ahead_ms = clocks.before_ms - clocks.cluster_ms
    behind_ms = clocks.cluster_ms - clocks.after_ms
    skew_ms = max(ahead_ms, behind_ms)
    if skew_ms < WORTH_SAYING_MS:
        yield ok("clocks", "this host's and the controller's agree")
        return
    yield Finding(
        Level.PROBLEM if skew_ms >= WORTH_MENDING_MS else Level.WARNING,
        "clocks",
        f"this host's is {say_about(skew_ms)} {'ahead of' if ahead_ms > 0 else 'behind'} the "
        "controller's: the earlier one counts, so records stay longer than they need to",
        "keep both in step with NTP",
    )
