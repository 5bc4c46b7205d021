"""Brokers that die, come back and change places, while whole cycles run: three real ones.

What single readings say meanwhile is test_kafka_traps.py's matter. Here it is what becomes of
the records: see `slow_groups`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.confluent import client
from retentiond.model import Outcome
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.cycles import Retentiond, Told, deleted_up_to, row_of, told
from tests.support.brokers.gathering import Interrupted
from tests.support.brokers.slow_groups import (
    RECORDS,
    SLOW,
    TOPICS,
    Forgetful,
    log_starts,
    patient,
    produce_and_read,
)
from tests.support.brokers.three import OFFSETS_TOPIC, Three
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

STANDSTILL_S = 0.7
"""As long as a stop of the JVM for its garbage: nobody takes the broker for dead."""


@pytest.fixture(scope="module")
def three(three_kafka: EmbeddedKafka) -> Iterator[Three]:
    with closing(Three(three_kafka)) as made:
        produce_and_read(made.driver)
        yield made


@pytest.fixture
def port(three: Three) -> Iterator[KafkaCluster]:
    with closing(patient(three.kafka)) as made:
        yield made


def test_coordinators_that_die_between_the_readings_and_move_on_free_no_record(
    three: Three, port: KafkaCluster, tmp_path: Path
) -> None:
    three.lead(OFFSETS_TOPIC, 2)
    eventually(lambda: not port.coordinator_state().behind)  # else the first reading can't count
    retentiond = Forgetful(port, tmp_path, *TOPICS)
    with ExitStack() as meanwhile:
        report = retentiond.first_cycle(lambda: meanwhile.enter_context(three.killed(2)))
        unseen = "the listing of groups is not complete: broker 2 did not list its groups: "
        for topic in TOPICS:
            held = told(report, topic)
            assert (held.verdict, held.reason) == ("hold", "evidence_changed")
            assert held.sentence is not None
            assert held.sentence.startswith(unseen)
        eventually(lambda: three.fenced(2))  # until then nobody leads what it led
        assert log_starts(three.kafka) == {0}

        eventually(retentiond.first_cycle, lambda found: found.plan.complete)
        assert log_starts(three.kafka) == {SLOW}
        latecomer = patient(three.kafka)
        latecomer.list_groups()

    with closing(latecomer):  # to it, broker 2 is new
        _cycles_while_coordinators_move(three, Forgetful(latecomer, tmp_path, *TOPICS))
    assert log_starts(three.kafka) == {SLOW}


def _cycles_while_coordinators_move(three: Three, retentiond: Forgetful) -> None:
    def move() -> None:
        for leader in (2, 3, 2, 1, 2):
            three.lead(OFFSETS_TOPIC, leader)

    with ThreadPoolExecutor(1) as mover:
        moves = mover.submit(move)
        while not moves.done():
            retentiond.first_cycle()
        moves.result()
    eventually(retentiond.first_cycle, lambda found: found.plan.complete)


def test_a_coordinator_that_stood_still_when_it_was_elected_frees_no_record(
    three: Three, port: KafkaCluster, tmp_path: Path
) -> None:
    """All others know already that it leads; itself, when it goes on, it answers first."""
    three.lead(OFFSETS_TOPIC, 1)
    retentiond = Forgetful(port, tmp_path, *TOPICS)
    retentiond.first_cycle()
    with three.paused_before_its_election(OFFSETS_TOPIC, 2) as resume:
        Timer(STANDSTILL_S, resume).start()
        retentiond.first_cycle()
    eventually(retentiond.first_cycle, lambda found: found.plan.complete)
    assert log_starts(three.kafka) == {SLOW}


@pytest.fixture
def alone(three: Three, topic_name: str) -> str:
    """A topic on all brokers, led by the first; its one group has read seven records of ten."""
    three.create_topic(topic_name, {0: [1, 2, 3]})
    three.driver.produce(topic_name, [three.driver.now_ms] * RECORDS)
    three.driver.commit(f"readers-of-{topic_name}", {(topic_name, 0): 7})
    return topic_name


def test_a_leader_that_moves_after_the_plan_and_again_after_the_guard_is_followed(
    three: Three, port: KafkaCluster, tmp_path: Path, alone: str
) -> None:
    retentiond = Retentiond(port, tmp_path, alone)
    kafka: Any = Interrupted(port, "delete_records", lambda: three.lead(alone, 3))
    report = retentiond.cycle(before_guard=lambda: three.lead(alone, 2), kafka=kafka)
    assert deleted_up_to(report, alone) == log_start(three.kafka, alone) == 7
    assert [each.outcome for each in retentiond.audit] == [Outcome.DELETED]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "DELETE_TIMEOUT_S", 1.0)


@pytest.mark.usefixtures("impatient")
def test_a_leader_that_dies_right_before_the_request_leaves_a_doubt_that_the_next_one_settles(
    three: Three, port: KafkaCluster, tmp_path: Path, alone: str
) -> None:
    retentiond = Retentiond(port, tmp_path, alone)
    with ExitStack() as meanwhile:
        kafka: Any = Interrupted(
            port, "delete_records", lambda: meanwhile.enter_context(three.killed(1))
        )
        report = eventually(lambda: retentiond.cycle(kafka=kafka), lambda found: found.outcomes)
        (outcome,) = report.outcomes.values()
        assert outcome.outcome is Outcome.UNKNOWN
        assert outcome.error is not None
        # Whether a silence or a lost connection ends it first is up to the machine.
        assert outcome.error.startswith(("_TIMED_OUT: ", "_TRANSPORT: "))

        eventually(lambda: three.leader(alone) in (2, 3))
        assert retentiond.settle() == ()  # nothing proves that it will not come true
        report = eventually(retentiond.cycle, lambda found: found.outcomes)
        assert deleted_up_to(report, alone) == log_start(three.kafka, alone) == 7
        retentiond.settle()
    assert [each.outcome for each in retentiond.audit] == [Outcome.DELETED, Outcome.DELETED]


@pytest.mark.usefixtures("impatient")
def test_a_deletion_that_a_follower_lets_time_out_is_read_back_from_the_leader(
    three: Three, port: KafkaCluster, tmp_path: Path, alone: str
) -> None:
    retentiond = Retentiond(port, tmp_path, alone)
    with three.paused(3, at_once=False) as pause:
        kafka: Any = Interrupted(port, "delete_records", pause)
        report = eventually(lambda: retentiond.cycle(kafka=kafka), lambda found: found.outcomes)
    assert report.seconds["delete"] > client.DELETE_TIMEOUT_S  # the answer was that it took longer
    (outcome,) = report.outcomes.values()
    if outcome.outcome is Outcome.UNKNOWN:  # the client turned to the frozen one for it
        assert "could not be read back" in str(outcome.error)
        (outcome,) = retentiond.settle()
    assert outcome.outcome is Outcome.DELETED
    assert outcome.low_watermark == log_start(three.kafka, alone) == 7
    assert [each.outcome for each in retentiond.audit] == [Outcome.DELETED]


def test_a_group_that_read_what_an_unclean_election_lost_holds(
    three: Three, port: KafkaCluster, tmp_path: Path, topic_name: str
) -> None:
    """Broker 2 has four of ten records when it dies, and is elected when broker 1 does; the
    commits outlive both on broker 3."""
    group = f"readers-of-{topic_name}"
    three.lead(OFFSETS_TOPIC, 3)
    three.create_topic(topic_name, {0: [1, 2]})
    three.driver.produce(topic_name, [three.driver.now_ms] * 4)
    three.node(2).kill()
    eventually(lambda: three.fenced(2))
    three.driver.produce(topic_name, [three.driver.now_ms] * 6)
    three.driver.commit(group, {(topic_name, 0): 8})
    with three.killed(1):
        eventually(lambda: three.fenced(1))
        three.node(2).start()
        three.elect_uncleanly(topic_name, 2)
        retentiond = Retentiond(port, tmp_path, topic_name)
        report = eventually(retentiond.cycle, lambda found: found.plan.complete)
    assert told(report, topic_name) == Told(
        "hold", "commit_beyond_end", f"group {group} has committed 8, beyond the high watermark"
    )
    assert row_of(report, topic_name).high_watermark == 4
    assert log_start(three.kafka, topic_name) == 0


def test_a_group_whose_records_an_unclean_election_replaced_holds_though_the_log_has_grown_past_it(
    three: Three, port: KafkaCluster, tmp_path: Path, topic_name: str
) -> None:
    """Broker 2 has four of ten records when it dies. It is elected when broker 1 does, and takes
    twenty more; the group has read eight records of the first log, four of which are left."""
    group = f"readers-of-{topic_name}"
    three.lead(OFFSETS_TOPIC, 3)
    three.create_topic(topic_name, {0: [1, 2]})
    three.driver.produce(topic_name, [three.driver.now_ms] * 4)
    three.node(2).kill()
    eventually(lambda: three.fenced(2))
    three.driver.produce(topic_name, [three.driver.now_ms] * 6)
    three.read(group, topic_name, 8)
    retentiond = Retentiond(port, tmp_path, topic_name)
    with three.killed(1):
        eventually(lambda: three.fenced(1))
        three.node(2).start()
        three.elect_uncleanly(topic_name, 2)
        with closing(RealDriver(three.kafka)) as another:  # a producer that knows no records lost
            another.produce(topic_name, [another.now_ms] * 20)
        report = eventually(retentiond.cycle, lambda found: found.plan.complete)
        held = told(report, topic_name)
        assert (held.verdict, held.reason) == ("hold", "commit_beyond_end")
        assert held.sentence is not None
        assert held.sentence.endswith(
            "what it has read was lost, and other records are in its place"
        )
        assert row_of(report, topic_name).high_watermark == 24
        assert log_start(three.kafka, topic_name) == 0

        three.read(group, topic_name, 24)
        report = eventually(retentiond.cycle, lambda found: found.plan.complete)
        assert deleted_up_to(report, topic_name) == log_start(three.kafka, topic_name) == 24
