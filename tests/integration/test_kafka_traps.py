"""What brokers that die, freeze and change places do to a reading: three real ones.

What one healthy broker answers to each call is the contract suite's matter (tests/contract): -1
for "none younger", the last stable offset of an open transaction, unknown topics, groups of
each kind. Here the same calls meet dead leaders, stale clients and moving coordinators.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import DeleteFailure, OffsetBound, RequestResult, TopicDescription
from retentiond.model import Commit, Failure, TopicPartition
from retentiond.snapshot import Snapshot
from tests.contract.real import connect
from tests.support.brokers.gathering import Interrupted, policy, snapshot
from tests.support.brokers.three import OFFSETS_TOPIC, Three
from tests.support.builders.gather_worlds import commits, groups, partitions
from tests.support.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.thorough("proofs of third parties")]

GROUPS = tuple(f"group-{number}" for number in range(12))  # on every partition of the offsets topic

RECORDS = 5


@pytest.fixture(scope="module")
def three(three_kafka: EmbeddedKafka) -> Iterator[Three]:
    with closing(Three(three_kafka)) as made:
        made.create_topic("orders", {0: [1], 1: [2], 2: [3]})
        for partition in range(3):
            made.driver.produce("orders", [made.driver.now_ms] * RECORDS, partition)
        for group in GROUPS:
            made.driver.commit(group, {("orders", partition): 1 for partition in range(3)})
        yield made


@pytest.fixture
def port(three: Three) -> Iterator[KafkaCluster]:
    """A client of the test's own, with a time-out that a test can wait for."""
    with closing(connect(three.kafka.bootstrap_servers, socket_timeout_ms="3000")) as made:
        yield made


ORDERS = [TopicPartition("orders", partition) for partition in range(3)]

COMMITTED = {Commit("orders", partition, 1) for partition in range(3)}

READINGS = 12


def committed(kafka: KafkaCluster) -> dict[str, set[Commit] | Failure]:
    return {
        name: answer if isinstance(answer, Failure) else set(answer)
        for name, answer in kafka.commits(GROUPS).items()
    }


def look_ups(kafka: KafkaCluster) -> dict[str, Mapping[TopicPartition, object]]:
    """Every way of asking for offsets."""
    found: dict[str, Mapping[TopicPartition, object]] = {
        bound.value: kafka.offsets(ORDERS, bound) for bound in OffsetBound
    }
    found["by_time"] = kafka.offsets_at(dict.fromkeys(ORDERS, 0))
    return found


HEALTHY = {
    "log_start": 0,
    "high_watermark": RECORDS,
    "last_stable": RECORDS,
    "local_start": 0,
    "by_time": 0,
}


def test_while_coordinators_move_no_commit_and_no_group_vanishes_unnoticed(
    three: Three, port: KafkaCluster
) -> None:
    leaders = itertools.cycle([1, 2, 3])
    moves: list[int] = []
    enough = threading.Event()

    def move() -> None:
        while not enough.is_set():
            moves.append(next(leaders))
            three.lead(OFFSETS_TOPIC, moves[-1])

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for _ in range(READINGS):
            for answer in port.commits(GROUPS).values():
                # One that has just lost its lead may say for a moment that there is nothing: it
                # takes a whole reading, with what the brokers say before and after, to notice.
                assert isinstance(answer, Failure) or set(answer) in (set(), COMMITTED)
            _assert_nothing_is_missing_unnoticed(snapshot(port, policy("orders")))
    finally:
        enough.set()
        mover.join()
    assert len(moves) > READINGS / 4
    eventually(lambda: committed(port), lambda found: found == dict.fromkeys(GROUPS, COMMITTED))


def _assert_nothing_is_missing_unnoticed(taken: Snapshot) -> None:
    if taken.complete:
        found = groups(taken)
        assert found.keys() >= set(GROUPS)
        readable = [name for name in GROUPS if found[name].failure is None]
        assert commits(taken).keys() >= {(name, at) for name in readable for at in ORDERS}


def test_a_coordinator_that_moves_between_the_two_looks_makes_the_census_incomplete(
    three: Three, port: KafkaCluster
) -> None:
    three.lead(OFFSETS_TOPIC, 1)
    eventually(lambda: snapshot(port, policy("orders")).complete)
    kafka: Any = Interrupted(port, "commits", lambda: three.lead(OFFSETS_TOPIC, 2))
    taken = snapshot(kafka, policy("orders"))
    # The new coordinators may still be loading, which is a problem of its own.
    assert "group coordinators moved while the groups were listed" in taken.problems
    assert not taken.complete
    eventually(lambda: snapshot(port, policy("orders")).complete)


def test_a_frozen_leader_spoils_its_own_partitions_only(three: Three, port: KafkaCluster) -> None:
    port.offsets(ORDERS, OffsetBound.HIGH_WATERMARK)
    with three.paused(2):
        answers = port.offsets(ORDERS, OffsetBound.HIGH_WATERMARK)
    assert isinstance(answers[ORDERS[1]], Failure)
    assert (answers[ORDERS[0]], answers[ORDERS[2]]) == (RECORDS, RECORDS)


def test_a_leader_that_is_frozen_before_the_look_gets_no_request_and_applies_none_when_it_goes_on(
    three: Three, port: KafkaCluster, topic_name: str
) -> None:
    three.create_topic(topic_name, {0: [1], 1: [2], 2: [3]})
    wanted = {TopicPartition(topic_name, partition): 3 for partition in range(3)}
    for at in wanted:
        three.driver.produce(topic_name, [three.driver.now_ms] * RECORDS, at.partition)
    port.topic_names()

    def look() -> bool:
        try:
            return bool(port.look_before_deleting(wanted))
        except KafkaUnavailable:  # the frozen one was to tell about the cluster
            return False

    with three.paused(2):
        eventually(look)
        threading.Timer(1.0, three.node(2).resume).start()  # soon enough for whoever waits for it
        answers = dict(port.delete_records(wanted))
        frozen = answers.pop(TopicPartition(topic_name, 1))
        assert isinstance(frozen, DeleteFailure)
        assert frozen.result is RequestResult.NOT_SENT
        assert list(answers.values()) == [3, 3]

    # A controller that waited for it in vain has fenced it: until it is back, nobody leads there.
    starts = eventually(
        lambda: [*port.offsets(wanted, OffsetBound.LOG_START).values()],
        lambda found: all(isinstance(each, int) for each in found),
    )
    assert starts == [3, 0, 3]


def test_a_dead_broker_is_a_failure_wherever_it_is_missed_until_it_is_back(
    three: Three, port: KafkaCluster
) -> None:
    three.lead(OFFSETS_TOPIC, 1)
    three.place(OFFSETS_TOPIC, {0: [2], 1: [1, 2, 3], 2: [1, 2, 3], 3: [1, 2, 3]})
    assert look_ups(port) == {ask: dict.fromkeys(ORDERS, value) for ask, value in HEALTHY.items()}
    assert {each.group_id for each in port.list_groups()} >= set(GROUPS)

    with three.killed(2):
        # The cluster has not noticed yet.
        with pytest.raises(KafkaUnavailable, match="broker 2 did not list its groups"):
            port.list_groups()
        _assert_only_its_partition_fails(port)

        eventually(lambda: three.fenced(2))
        _assert_only_its_partition_fails(port)
        described = port.describe_topics(["orders"])["orders"]
        assert isinstance(described, TopicDescription)
        assert described.partitions == (0, 1, 2)
        hidden = set(GROUPS) - {each.group_id for each in port.list_groups()}
        assert hidden, "no group was on the partition without a leader"
        answers = port.commits(GROUPS)
        assert {name for name, answer in answers.items() if isinstance(answer, Failure)} == hidden
        taken = snapshot(port, policy("orders"))
        assert taken.problems == (
            "1 partition of __consumer_offsets has no leader (0): their groups can't be seen",
        )
        assert {at for at, each in partitions(taken).items() if each.failure} == {ORDERS[1]}
        latecomer = connect(three.kafka.bootstrap_servers)
        latecomer.list_groups()

    with closing(latecomer):  # it has never seen broker 2
        three.lead(OFFSETS_TOPIC, 2)
        eventually(lambda: listed_by(latecomer) >= set(GROUPS))
    assert committed(port) == dict.fromkeys(GROUPS, COMMITTED)
    assert look_ups(port) == {ask: dict.fromkeys(ORDERS, value) for ask, value in HEALTHY.items()}


def listed_by(port: KafkaCluster) -> set[str]:
    """None while a coordinator loads its groups: that is an error of the whole listing."""
    try:
        return {each.group_id for each in port.list_groups()}
    except KafkaUnavailable:
        return set()


def _assert_only_its_partition_fails(port: KafkaCluster) -> None:
    for ask, answers in look_ups(port).items():
        assert isinstance(answers[ORDERS[1]], Failure)
        assert (answers[ORDERS[0]], answers[ORDERS[2]]) == (HEALTHY[ask], HEALTHY[ask])
