"""Offset look-ups go out in small requests, a bounded number of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from retentiond.kafka import librdkafka_offsets
from retentiond.kafka.librdkafka_offsets import (
    PARTITIONS_PER_REQUEST,
    REQUESTS_IN_FLIGHT,
    list_offsets,
    offset_in,
    timestamp_in,
)
from retentiond.model import TopicPartition


class Librdkafka:
    """Answers a request when its future is waited for: each partition's number is its offset."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.broken: set[int] = set()
        self.odd: Any = None

    def list_offsets(
        self, admin: object, asked: list[ConfluentPartition], future: Any, **_: object
    ) -> None:
        number = len(self.sizes)
        self.sizes.append(len(asked))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

        def answer(_timeout: float) -> object:
            self.in_flight -= 1
            if number in self.broken:
                raise TimeoutError
            return {each: self._of(each) for each in asked}

        future.result = answer

    def _of(self, partition: ConfluentPartition) -> object:
        if partition.partition == 0 and self.odd is not None:
            return self.odd
        return SimpleNamespace(offset=partition.partition)


@pytest.fixture
def librdkafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[Librdkafka]:
    made = Librdkafka()
    monkeypatch.setattr(librdkafka_offsets, "_AdminClientImpl", made)
    monkeypatch.setattr(librdkafka_offsets, "Future", type("Settable", (Future,), {}))
    yield made
    assert made.in_flight == 0


def ask(partitions: int) -> dict[TopicPartition, int | BaseException]:
    admin: Any = None
    asked = {TopicPartition("orders", number): -1 for number in range(partitions)}
    found = list_offsets(admin, asked, IsolationLevel.READ_COMMITTED, 1.0, offset_in)
    assert found.keys() == asked.keys()
    return found


def test_every_partition_gets_its_own_answer(librdkafka: Librdkafka) -> None:
    found = ask(2 * PARTITIONS_PER_REQUEST + 1)
    assert all(offset == at.partition for at, offset in found.items())
    assert librdkafka.sizes == [PARTITIONS_PER_REQUEST, PARTITIONS_PER_REQUEST, 1]


def test_never_more_than_a_few_requests_are_in_flight(librdkafka: Librdkafka) -> None:
    ask(40 * PARTITIONS_PER_REQUEST)
    assert len(librdkafka.sizes) == 40
    assert librdkafka.most_in_flight == REQUESTS_IN_FLIGHT


def test_a_request_without_an_answer_costs_its_own_partitions_only(librdkafka: Librdkafka) -> None:
    librdkafka.broken = {1}
    found = ask(3 * PARTITIONS_PER_REQUEST)
    failed = {at.partition for at, answer in found.items() if isinstance(answer, TimeoutError)}
    assert failed == set(range(PARTITIONS_PER_REQUEST, 2 * PARTITIONS_PER_REQUEST))


def test_an_error_of_one_partition_costs_no_other(librdkafka: Librdkafka) -> None:
    librdkafka.odd = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)
    found = ask(3)
    assert isinstance(found[TopicPartition("orders", 0)], KafkaException)
    assert found[TopicPartition("orders", 2)] == 2


@pytest.mark.usefixtures("librdkafka")
def test_asked_about_nothing_it_sends_nothing() -> None:
    assert ask(0) == {}


@pytest.mark.parametrize(
    ("offset", "timestamp", "told"),
    [(7, 1_000, 1_000), (-1, -1, -1), (-1001, -1, None)],
    ids=["a record", "no record", "a leader that does not answer"],
)
def test_a_dead_leader_tells_no_time_stamp(offset: int, timestamp: int, told: int | None) -> None:
    assert timestamp_in(SimpleNamespace(offset=offset, timestamp=timestamp)) == told
