"""A broker that joins a running cluster of two and takes over all groups.

While it is new to the cluster, to the client, or not yet done with loading its groups, each cycle
holds or finds every group: see `slow_groups`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.kafka.cluster import KafkaCluster
from tests.contract.real import RealDriver
from tests.support.brokers.gathering import Interrupted
from tests.support.brokers.slow_groups import (
    SLOW,
    TOPICS,
    Forgetful,
    log_starts,
    patient,
    produce_and_read,
    slow_group,
)
from tests.support.brokers.three import OFFSETS_TOPIC, Three
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

MOVED = "group coordinators moved while the groups were listed"


@pytest.fixture
def growing(own_kafka: OwnKafka) -> Iterator[EmbeddedKafka]:
    """Two brokers, so far."""
    with own_kafka(nodes=2) as kafka:
        with closing(RealDriver(kafka)) as driver:
            produce_and_read(driver)
        yield kafka


@pytest.fixture
def port(growing: EmbeddedKafka) -> Iterator[KafkaCluster]:
    """Made while there are two brokers."""
    with closing(patient(growing)) as made:
        yield made


def test_a_broker_that_joins_and_takes_over_the_groups_frees_no_record(
    growing: EmbeddedKafka, port: KafkaCluster, tmp_path: Path
) -> None:
    retentiond = Forgetful(port, tmp_path, *TOPICS)
    with ThreadPoolExecutor(1) as other:
        joining = other.submit(growing.add_broker)
        retentiond.first_cycle()
        while not joining.done():
            retentiond.first_cycle()
        joined = joining.result().node_id

    with closing(Three(growing)) as three:  # its clients know all of them
        places = {number: [joined] for number in three.partitions(OFFSETS_TOPIC)}
        kafka: Any = Interrupted(port, "list_groups", lambda: three.place(OFFSETS_TOPIC, places))
        (problem,) = retentiond.first_cycle(kafka=kafka).plan.problems
        # Whether the new broker has loaded its groups by then, or says so, is up to the machine.
        assert problem == MOVED or "COORDINATOR_LOAD_IN_PROGRESS" in problem
        eventually(retentiond.first_cycle, lambda found: found.plan.complete)
        assert log_starts(growing) == {SLOW}

        # What only the new broker has ever heard of counts.
        for topic in TOPICS:
            three.driver.commit(slow_group(topic), {(topic, 0): SLOW + 1})
    report = eventually(retentiond.cycle, lambda found: found.plan.complete)
    assert {row.binding_group for row in report.plan.rows} == {*map(slow_group, TOPICS)}
    assert log_starts(growing) == {SLOW + 1}
