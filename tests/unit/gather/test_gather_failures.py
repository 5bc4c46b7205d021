"""Whatever fails, nothing vanishes: each failure of each call, injected in turn.

A snapshot may lack what the healthy one has only where it says so: by a problem (the census is
incomplete, so nothing is deleted), by a topic's failure, or by a group's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.gather.gather import gather
from retentiond.kafka.interface import OffsetBound
from retentiond.model import Failure
from retentiond.snapshot import PartitionReading, Snapshot
from tests.support.builders.gather_worlds import (
    ENABLED,
    ORDERS_0,
    Waits,
    commits,
    config,
    groups,
    healthy,
    partitions,
    readers,
    snapshot,
)
from tests.support.fakes import FakeCluster

FAILED = Failure("INJECTED", "as the test wanted")

TOPICS = ("clicks", "orders")

GROUPS = ("billing", "newcomer", "pipeline", "search", "stranger")

LIVE = ("newcomer", "search")


class Injection(NamedTuple):
    """``of``: the topic, partition or group that alone is to show it; None where that is open."""

    name: str
    inject: Callable[[FakeCluster], object]
    of: object = None


def failing_key(api: str, key: Any) -> Injection:
    of = key[0] if key in ENDS else key
    return Injection(f"{api}-{key}", lambda kafka: kafka.fail(api, key, FAILED), of)


def failing_call(api: str) -> Injection:
    return Injection(api, lambda kafka: kafka.script.fail_next(api, KafkaUnavailable("gone")))


def failing_last_look_at_the_coordinators(kafka: FakeCluster) -> None:
    gone = KafkaUnavailable("gone")
    kafka.script.after("members", lambda: kafka.script.fail_next("coordinator_state", gone))


def dead(broker: int) -> Injection:
    return Injection(f"dead-{broker}", lambda kafka: kafka.kill_broker(broker))


def fenced(broker: int) -> Injection:
    return Injection(f"fenced-{broker}", lambda kafka: kafka.fence_broker(broker))


def dying(api: str, broker: int) -> Injection:
    def inject(kafka: FakeCluster) -> None:
        kafka.script.before(api, lambda: kafka.kill_broker(broker))

    return Injection(f"dies-before-{api}-{broker}", inject)


BOUNDS = (OffsetBound.LOG_START, OffsetBound.HIGH_WATERMARK, OffsetBound.LAST_STABLE)
"""Those that a decision rests on."""

ENDS = [(at, bound) for at in ENABLED for bound in BOUNDS]

KEYS: Mapping[str, Collection[Any]] = {
    "describe_topics": TOPICS,
    "topic_configs": TOPICS,
    "offsets": [*ENABLED, *ENDS],
    "offsets_at": ENABLED,
    "commits": GROUPS,
    "members": LIVE,
}

BROKERS = (1, 2, 3)

HARMLESS = (
    "dies-before-offsets-3",  # leads no enabled partition, and has answered for its groups
    "dies-before-offsets_at-3",
)

FAILURES = [
    *(failing_key(api, key) for api, keys in KEYS.items() for key in keys),
    *(failing_call(api) for api in ("list_groups", "commits", "members")),
    Injection("last-coordinator_state", failing_last_look_at_the_coordinators),
    *(dead(broker) for broker in BROKERS),
    *(fenced(broker) for broker in BROKERS),
    *(
        dying(api, broker)
        for api in ("list_groups", "commits", "members", "offsets", "offsets_at")
        for broker in BROKERS
    ),
]


def assert_nothing_vanished(before: Snapshot, after: Snapshot) -> None:
    assert {each.name for each in after.topics} == {each.name for each in before.topics}
    unread = {each.name for each in after.topics if each.failure is not None}
    for at in partitions(before).keys() - partitions(after).keys():
        assert at.topic in unread
    if not after.complete:
        return
    assert groups(after).keys() >= groups(before).keys()
    unreadable = {name for name, each in groups(after).items() if each.failure is not None}
    for group, at in commits(before).keys() - commits(after).keys():
        assert group in unreadable or (at.topic in unread and (group, at.topic) in readers(after))


def failures(taken: Snapshot) -> dict[object, Failure]:
    """By name of topics and groups, and by partition."""
    found: dict[object, Failure | None] = {each.name: each.failure for each in taken.topics}
    found |= {at: each.failure for at, each in partitions(taken).items()}
    found |= {each.group_id: each.failure for each in taken.groups}
    return {at: failure for at, failure in found.items() if failure is not None}


def assert_every_gap_has_a_reason(taken: Snapshot) -> None:
    for each in taken.partitions:
        offsets = (
            each.log_start_offset,
            each.high_watermark,
            each.last_stable_offset,
            each.retention_offset,
        )
        assert (None in offsets) == (each.failure is not None)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda each: each.name)
def test_whatever_fails_shows_and_nothing_vanishes(failure: Injection) -> None:
    kafka = healthy()
    failure.inject(kafka)
    taken = snapshot(kafka)
    assert_nothing_vanished(snapshot(healthy()), taken)
    assert_every_gap_has_a_reason(taken)
    assert taken.problems or failures(taken) or failure.name in HARMLESS
    if failure.of is not None:
        beside = {at for at in failures(taken) if getattr(at, "topic", at) != failure.of}
        assert failures(taken)[failure.of] == FAILED
        assert beside <= {failure.of}


class Forgetful:
    """The port of a cluster that leaves one key out of one call's answer, without a word."""

    def __init__(self, kafka: FakeCluster, api: str, key: object) -> None:
        self._kafka = kafka
        self._api = api
        self._key = key

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._kafka, name)
        if name != self._api:
            return call

        def forgetful(*args: Any) -> Any:
            return {key: found for key, found in call(*args).items() if key != self._key}

        return forgetful


LEFT_OUT = [
    *(("describe_topics", name) for name in TOPICS),
    *(("topic_configs", name) for name in TOPICS),
    *(("offsets", at) for at in ENABLED),
    *(("offsets_at", at) for at in ENABLED),
    *(("commits", name) for name in GROUPS),
    ("members", "newcomer"),
]


@pytest.mark.parametrize(("api", "key"), LEFT_OUT, ids=str)
def test_what_an_answer_leaves_out_is_a_failure_of_its_own(api: str, key: object) -> None:
    kafka: Any = Forgetful(healthy(), api, key)
    taken = gather(kafka, config(), healthy().now_ms, wait_until=Waits())
    assert_nothing_vanished(snapshot(healthy()), taken)
    assert_every_gap_has_a_reason(taken)
    assert {each.code for each in failures(taken).values()} == {"NOT_ANSWERED"}


def test_a_dead_leader_marks_its_partitions_and_no_others() -> None:
    kafka = healthy()
    kafka.fence_broker(2)
    found = partitions(snapshot(kafka))
    led = {at: kafka.partition(*at).leader for at in ENABLED}
    assert {at for at, each in found.items() if each.failure} == {
        at for at, leader in led.items() if leader is None
    }
    assert None in led.values()


def test_an_empty_partition_has_no_young_record_whatever_a_look_up_by_time_says() -> None:
    """The records that emptied it hide their age in its active segment, which no check removes."""
    kafka = healthy()
    kafka.partition(*ORDERS_0).log_start = 6
    kafka.fail("offsets_at", ORDERS_0, FAILED)
    assert partitions(snapshot(kafka))[ORDERS_0] == PartitionReading(1, 0, 6, 6, 6, 6)


@pytest.mark.parametrize(("log_start", "unread"), [(5, None), *((6, each) for each in BOUNDS)])
def test_a_partition_with_a_record_or_an_end_that_is_unread_is_not_taken_for_empty(
    log_start: int, unread: OffsetBound | None
) -> None:
    kafka = healthy()
    kafka.partition(*ORDERS_0).log_start = log_start
    kafka.fail("offsets_at", ORDERS_0, FAILED)
    if unread:
        kafka.fail("offsets", (ORDERS_0, unread), FAILED)
    reading = partitions(snapshot(kafka))[ORDERS_0]
    assert (reading.retention_offset, reading.failure) == (None, FAILED)


def test_a_topic_deleted_before_its_offsets_are_read_stays_with_its_failure() -> None:
    kafka = healthy()
    kafka.script.before("offsets", lambda: kafka.delete_topic("orders"))
    taken = snapshot(kafka)
    assert [each.name for each in taken.topics] == ["clicks", "orders"]
    found = partitions(taken)
    assert all((each.failure is not None) == (at.topic == "orders") for at, each in found.items())
