"""Brokers that begin to lead the offsets topic, and what they may hide then.

One that is started again leads in new epochs, alone in its cluster too. A reading that finds
coordinators in the epochs in which the last one left them does not ask beforehand whether they are
at work: so none may load its groups again in an old epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.admin.topics import ElectionType

from devkit.embedded.node import Node
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import CoordinatorState
from tests.contract.real import RealDriver, connect
from tests.support.brokers.three import OFFSETS_TOPIC, Three
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        driver.create_topic("orders")
        driver.commit("billing", {("orders", 0): 0})
        yield driver


def at_work(driver: RealDriver) -> CoordinatorState | None:
    try:
        state = driver.kafka.coordinator_state()
    except KafkaUnavailable:
        return None
    return None if state.not_at_work or state.behind or state.leaderless else state


@pytest.mark.parametrize("end", [Node.kill, Node.stop])
def test_a_broker_that_is_started_again_leads_in_other_epochs(
    driver: RealDriver, end: Callable[[Node], None]
) -> None:
    before = eventually(lambda: at_work(driver))
    (node,) = driver.broker.nodes

    end(node)
    node.start()
    after = eventually(lambda: at_work(driver))

    assert before is not None
    assert after is not None
    assert len(after.leaders) == len(before.leaders) > 0
    assert not after.leaders & before.leaders


UNHURRIED = {
    # A follower learns of a higher high watermark with the answer to its next fetch.
    "replica.fetch.wait.max.ms": "20000",
    # A replica that stands still stays in sync, and the high watermark waits for it.
    "broker.session.timeout.ms": "60000",
    "broker.heartbeat.interval.ms": "2000",
    "replica.lag.time.max.ms": "90000",
}


def listed(admin: KafkaAdminClient, broker: int) -> set[str]:
    """The groups that one broker lists, without an error."""
    manager = admin._manager
    answer = manager.run(manager.send, ListGroupsRequest(), broker)
    assert answer.error_code == 0
    return {group.group_id for group in answer.groups}


def test_a_leader_that_has_not_caught_up_hides_a_group_and_is_noticed(
    own_kafka: OwnKafka,
) -> None:
    """Its followers have yet to fetch from it, here because one of them stands still. All that is
    committed is in its log, and it says that it is at work."""
    with (
        own_kafka(nodes=3, config=UNHURRIED) as kafka,
        closing(Three(kafka)) as three,
        closing(KafkaAdminClient(bootstrap_servers=three.node(1).bootstrap_server)) as admin,
        closing(connect(three.node(1).bootstrap_server, socket_timeout_ms="2000")) as port,
    ):
        three.driver.create_topic("orders")
        three.driver.commit("early", {("orders", 0): 0})
        partitions = list(three.partitions(OFFSETS_TOPIC))
        three.place(OFFSETS_TOPIC, {each: [2, 1] for each in partitions})
        admin.alter_partition_reassignments(
            {PythonPartition(OFFSETS_TOPIC, each): [1, 2] for each in partitions}
        )
        eventually(lambda: listed(admin, 2) == {"early"})
        three.driver.commit("late", {("orders", 0): 0})
        admin._controller_id = 1  # any broker passes it on, but the one that stands still
        with three.paused(2):
            admin.elect_leaders(ElectionType.PREFERRED, {OFFSETS_TOPIC: partitions})
            state = eventually(port.coordinator_state, is_at_work_on_1)
            shown = listed(admin, 1)

        assert (shown, len(state.behind)) == ({"early"}, 1)
        eventually(
            port.coordinator_state, lambda found: is_at_work_on_1(found) and not found.behind
        )
        assert {group.group_id for group in port.list_groups()} == {"early", "late"}


def is_at_work_on_1(state: CoordinatorState) -> bool:
    return {leader for _, leader, _ in state.leaders} == {1} and not state.not_at_work
