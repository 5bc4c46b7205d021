"""__consumer_offsets gets more partitions: the hash of a group leads to another coordinator.

A broker takes the new number at its next start. Then the group is still listed, and the coordinator
that is asked knows neither its commits nor itself, and says so without an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from retentiond.model import Reason
from tests.contract.real import RealDriver, connect
from tests.faults.held import log_start
from tests.support.brokers.cycles import Retentiond
from tests.support.brokers.three import OFFSETS_TOPIC
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

GROUPS = [f"group-{number}" for number in range(8)]


@pytest.fixture
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


def test_a_group_that_its_coordinator_has_lost_sight_of_holds_what_it_may_read(
    driver: RealDriver, topic_name: str, tmp_path: Path
) -> None:
    driver.filled_topic(topic_name)
    for group in GROUPS:
        driver.commit(group, {(topic_name, 0): 1})
    ((node,), admin) = driver.broker.nodes, driver.broker.admin()
    partitions = len(admin.list_topics(OFFSETS_TOPIC).topics[OFFSETS_TOPIC].partitions)
    for future in admin.create_partitions([NewPartitions(OFFSETS_TOPIC, 7 * partitions)]).values():
        future.result()
    node.stop()
    node.start()

    with closing(connect(driver.broker.bootstrap_servers)) as kafka:
        eventually(lambda: kafka.coordinator_state().may_ask)
        driver.commit("reads-on", {(topic_name, 0): 9})
        lost = [group for group, found in kafka.commits(GROUPS).items() if not found]
        assert lost, "no group's hash has changed"
        report = Retentiond(kafka, tmp_path, topic_name).cycle()
    assert log_start(driver.broker, topic_name) == 0
    (row,) = report.plan.rows
    assert row.reason is Reason.GROUP_UNREADABLE
