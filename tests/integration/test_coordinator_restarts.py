"""A broker that is started again leads in new epochs, alone in its cluster too.

A reading that finds coordinators in the epochs in which the last one left them does not ask
beforehand whether they are at work: so none may load its groups anew in an old epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from devkit.embedded.node import Node
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import CoordinatorState
from tests.contract.real import RealDriver
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
