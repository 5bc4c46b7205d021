"""What librdkafka says of topics: an answer for each, or one error where it could ask nobody."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.confluent.client import LibrdkafkaClient
from retentiond.kafka.interface import TopicDescription
from retentiond.kafka.settings.properties import translate
from retentiond.model import Failure

ORDERS = SimpleNamespace(
    name="orders",
    topic_id="a+b/c",
    is_internal=False,
    partitions=[SimpleNamespace(id=1), SimpleNamespace(id=0)],
)


def client(monkeypatch: pytest.MonkeyPatch, *answers: object) -> LibrdkafkaClient:
    """Of topics called 0, 1, … that are answered so: an error code or a description."""
    made = LibrdkafkaClient(translate({"bootstrap.servers": "127.0.0.1:1"}))

    def describe_topics(_names: object, **_: float) -> dict[str, Future[Any]]:
        futures = {}
        for name, answer in enumerate(answers):
            futures[str(name)] = future = Future[Any]()
            if isinstance(answer, int):
                future.set_exception(KafkaException(KafkaError(answer)))
            else:
                future.set_result(answer)
        return futures

    admin = SimpleNamespace(
        client=lambda: SimpleNamespace(describe_topics=describe_topics),
        explaining=nullcontext,
        unavailable=lambda reason: KafkaUnavailable(str(reason)),
    )
    monkeypatch.setattr(made, "_admin", admin)
    return made


def test_a_topic_that_cannot_be_described_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = client(monkeypatch, ORDERS, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TIMED_OUT)
    found = asked.describe_topics(["0", "1", "2"])
    assert found["0"] == TopicDescription("orders", "a-b_c", False, (0, 1))
    codes = [each.code for each in found.values() if isinstance(each, Failure)]
    assert codes == ["UNKNOWN_TOPIC_OR_PARTITION", "_TIMED_OUT"]


def test_where_nobody_answers_it_is_one_error_and_not_one_a_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(KafkaUnavailable, match="_TIMED_OUT"):
        client(monkeypatch, *[KafkaError._TIMED_OUT] * 2).describe_topics(["0", "1"])


def test_asked_about_no_topic_it_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client(monkeypatch).describe_topics([]) == {}
