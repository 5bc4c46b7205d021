"""How targets become Kafka's offsets, -1 in one place only; and who gets no request at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from retentiond.errors import KafkaUnavailable, OtherCluster
from retentiond.kafka.cluster_identity import ClusterIdentity
from retentiond.kafka.confluent import admin as failures
from retentiond.kafka.confluent import client
from retentiond.kafka.confluent import delete_records as deletions
from retentiond.kafka.interface import DeleteFailure, OffsetBound, RequestResult
from retentiond.kafka.remedies import ConnectionProblem, ProblemKind
from retentiond.kafka.settings.properties import translate
from retentiond.model import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))


class Recorder:
    """An AdminClient that answers every partition with its own number, or with an ``error``."""

    error: int | None = None

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def delete_records(self, partitions: list[Any], **_: float) -> dict[Any, Future[Any]]:
        futures = {}
        for each in partitions:
            self.asked.append((each.topic, each.partition, each.offset))
            futures[each] = future = Future[Any]()
            if self.error is None:
                future.set_result(SimpleNamespace(low_watermark=each.partition))
            else:
                future.set_exception(KafkaException(KafkaError(self.error, "Broker: no")))
        return futures


def test_the_high_watermark_is_minus_one_and_offsets_stay_as_they_are() -> None:
    admin: Any = Recorder()
    offsets = deletions.offsets_of({A: OffsetBound.HIGH_WATERMARK, B: 0, C: 7})
    answers = deletions.request(admin, offsets, 1.0)
    assert admin.asked == [("orders", 0, -1), ("orders", 1, 0), ("orders", 2, 7)]
    assert answers == {A: 0, B: 1, C: 2}


@pytest.mark.parametrize("offset", [-1, -2, -1001])
def test_a_negative_offset_is_refused_for_all(offset: int) -> None:
    with pytest.raises(ValueError, match=f"orders-1 up to {offset}"):
        deletions.offsets_of({A: 3, B: offset})


def test_for_nothing_no_request_goes_out() -> None:
    admin: Any = Recorder()
    assert deletions.request(admin, {}, 1.0) == {}
    assert admin.asked == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KafkaError.OFFSET_OUT_OF_RANGE, "the offset is beyond the high watermark"),
        (KafkaError.POLICY_VIOLATION, "the topic's cleanup.policy has no delete"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "grant this principal DELETE on the topic"),
        (KafkaError.INVALID_REQUEST, "Broker: no"),
    ],
)
def test_a_refusal_is_told_in_words(error: int, said: str) -> None:
    admin: Any = Recorder()
    admin.error = error
    (answer,) = deletions.request(admin, {A: 4}, 1.0).values()
    assert isinstance(answer, DeleteFailure)
    assert answer.result is RequestResult.REFUSED
    assert answer.failure.message.startswith(said)


SILENT, NOBODY = -1001, -1

LEADS_NO_MORE = KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))


class Brokers(Recorder):
    """Three of them; broker 1 tells the metadata, whose ``leaders`` are of A, B and C.

    ``starts``: what each leader answers to the look at one of its log starts; of a list, one
    answer after the other.
    """

    orig_broker_id, cluster_id = 1, "K"

    def __init__(self, leaders: list[int], starts: dict[int, list[Any]]) -> None:
        super().__init__()
        self.leaders = leaders
        self.starts = starts
        self.listings = self.described = 0
        self.asked_leaders: list[list[int]] = []

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        self.listings += 1
        partitions = {n: SimpleNamespace(leader=leader) for n, leader in enumerate(self.leaders)}
        topics = {"orders": SimpleNamespace(partitions=partitions)}
        return SimpleNamespace(
            topics=topics, orig_broker_id=self.orig_broker_id, cluster_id=self.cluster_id
        )

    def list_offsets(self, asked: Any, request_timeout: float) -> dict[Any, Future[Any]]:
        assert request_timeout > 0
        leaders = {at: self.leaders[at.partition] for at in asked}
        self.asked_leaders.append(sorted(leaders.values()))
        found = {}
        for at, leader in leaders.items():
            answers = self.starts[leader]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            found[at] = future = Future[Any]()
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(SimpleNamespace(offset=answer))
        return found

    def describe_cluster(self, **_: float) -> Future[Any]:
        return done(SimpleNamespace(cluster_id="K", nodes=[]))

    def describe_topics(self, names: Any, **_: float) -> dict[str, Future[Any]]:
        self.described += 1
        return {"orders": done(SimpleNamespace(topic_id="an-id"))}


def done(value: Any) -> Future[Any]:
    future = Future[Any]()
    future.set_result(value)
    return future


def deleter_of(brokers: Brokers) -> deletions.Deleter:
    admin: Any = brokers
    return deletions.Deleter(admin, translate({"bootstrap.servers": "a:1"}), ClusterIdentity())


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A `Deleter` that has looked at A, B and C."""

    def looked(brokers: Brokers) -> deletions.Deleter:
        monkeypatch.setattr(deletions, "CONNECT_LEADERS_S", 0.2)
        deleter = deleter_of(brokers)
        assert deleter.look([A, B, C]) == {"orders": "an-id"}
        return deleter

    return looked


def test_a_leader_that_does_not_answer_the_look_gets_no_request_and_holds_up_no_other(
    look: Any,
) -> None:
    brokers = Brokers([1, 2, 3], {2: [SILENT], 3: [0]})
    answers = look(brokers).request({A: 4, B: 5, C: 6}, 1.0)
    assert brokers.asked == [("orders", 0, 4), ("orders", 2, 6)]
    assert (answers[A], answers[C]) == (0, 2)
    assert answers[B].result is RequestResult.NOT_SENT


def test_a_client_that_got_ready_looks_in_one_round_trip() -> None:
    """Which broker tells the metadata is not known before, so all leaders are asked."""
    brokers = Brokers([1, 2, 3], {1: [0], 2: [0], 3: [0]})
    deleter = deleter_of(brokers)
    deleter.get_ready([A, B, C], 1.0)
    assert deleter.look([A, B, C]) == {"orders": "an-id"}
    assert (brokers.listings, brokers.asked_leaders) == (2, [[2, 3], [1, 2, 3]])


def test_an_answer_of_another_leader_does_not_count_for_one_that_is_silent_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Broker 2 is asked about C, which broker 3 has taken over meanwhile."""
    monkeypatch.setattr(deletions, "CONNECT_LEADERS_S", 0.2)
    brokers = Brokers([1, 2, 2], {1: [0], 2: [0], 3: [0]})
    deleter = deleter_of(brokers)
    deleter.get_ready([A, B, C], 1.0)
    brokers.leaders, brokers.starts[2] = [1, 2, 3], [SILENT]
    deleter.look([A, B, C])
    answers = deleter.request({A: 4, B: 5, C: 6}, 1.0)
    assert brokers.asked == [("orders", 0, 4), ("orders", 2, 6)]
    assert isinstance(answers[B], DeleteFailure)


def test_a_leader_that_has_not_proven_its_cluster_to_the_other_client_gets_no_request() -> None:
    """librdkafka may have connected again, to an address that another cluster has taken."""
    brokers = Brokers([1, 2, 3], {1: [0], 2: [0], 3: [0]})
    deleter = deleter_of(brokers)
    deleter.look([A, B, C], proven=lambda: {1, 3})
    answers = deleter.request({A: 4, B: 5, C: 6}, 1.0)
    assert brokers.asked == [("orders", 0, 4), ("orders", 2, 6)]
    assert isinstance(answers[B], DeleteFailure)


def test_a_client_of_another_cluster_gets_no_ids() -> None:
    brokers: Any = Brokers([1, 1, 1], {1: [0]})
    identity = ClusterIdentity()
    identity.learn("another", [])
    deleter = deletions.Deleter(brokers, translate({"bootstrap.servers": "a:1"}), identity)
    with pytest.raises(OtherCluster):
        deleter.look([A])
    assert brokers.described == 0


class Awaited(Future[Any]):
    """Something happens while it is on its way: the broker has written it before."""

    def __init__(self, value: Any, happens: Callable[[], object]) -> None:
        super().__init__()
        self.set_result(value)
        self._happens = happens

    def result(self, timeout: float | None = None) -> Any:
        self._happens()
        return super().result(timeout)


class Recreated(Brokers):
    """Its topic is recreated while the answer of that number is on its way, counted from 0.

    ``first``: whose leader is not known at first, so that it is looked for twice."""

    def __init__(self, moment: int, first: int = 1) -> None:
        super().__init__([1, first, 3], {1: [0], 2: [0], 3: [LEADS_NO_MORE, 0]})
        self.topic_id, self.moment = "an-id", moment
        self.awaited: list[str] = []

    def list_topics(self, timeout: float) -> Any:
        listing = super().list_topics(timeout)
        self._happens("list_topics")
        self.leaders = [1, 2, 3]
        return listing

    def list_offsets(self, asked: Any, request_timeout: float) -> dict[Any, Future[Any]]:
        found = super().list_offsets(asked, request_timeout)
        return {at: self._to_come(future, "list_offsets") for at, future in found.items()}

    def describe_cluster(self, **named: Any) -> Future[Any]:
        return self._to_come(super().describe_cluster(**named), "describe_cluster")

    def describe_topics(self, names: Any, **_: float) -> dict[str, Future[Any]]:
        told = done(SimpleNamespace(topic_id=self.topic_id))
        return {"orders": self._to_come(told, "describe_topics")}

    def proven(self) -> set[int]:
        self._happens("proven")
        return {1, 2, 3}

    def _to_come(self, future: Future[Any], name: str) -> Future[Any]:
        if future.exception() is not None:
            return future
        return Awaited(future.result(), lambda: self._happens(name))

    def _happens(self, name: str) -> None:
        if len(self.awaited) == self.moment:
            self.topic_id = "another-id"
        self.awaited.append(name)


NEVER = -1


@pytest.mark.parametrize("is_ready", [False, True])
@pytest.mark.parametrize("first", [1, NOBODY])
def test_the_ids_are_asked_for_when_everything_else_has_answered(
    is_ready: bool, first: int
) -> None:
    def look(moment: int) -> tuple[Recreated, object]:
        brokers = Recreated(moment, first)
        deleter = deleter_of(brokers)
        if is_ready:
            deleter.get_ready([A, B, C], 1.0)
        return brokers, deleter.look([A, B, C], proven=brokers.proven)["orders"]

    unharmed, topic_id = look(NEVER)
    assert topic_id == "an-id"
    assert unharmed.awaited[-3:] == ["proven", "describe_cluster", "describe_topics"]
    before = range(len(unharmed.awaited) - 1)
    assert [look(moment)[1] for moment in before] == ["another-id" for _ in before]


def test_for_a_partition_that_nobody_leads_no_request_goes_out(look: Any) -> None:
    brokers = Brokers([NOBODY, 1, 1], {})
    deleter = look(brokers)
    assert deleter.request({A: 4}, 1.0)[A].result is RequestResult.NOT_SENT
    assert brokers.asked == []
    assert deleter.gap_s >= 0


def test_a_leader_that_has_just_moved_is_looked_for_again(look: Any) -> None:
    brokers = Brokers([1, 2, 2], {2: [LEADS_NO_MORE, 0]})
    assert look(brokers).request({B: 5}, 1.0) == {B: 1}
    assert brokers.listings == 2


def test_a_leader_that_goes_on_saying_no_gets_no_request(look: Any) -> None:
    brokers = Brokers([1, 2, 2], {2: [LEADS_NO_MORE]})
    answers = look(brokers).request({B: 5, C: 6}, 1.0)
    assert {each.result for each in answers.values()} == {RequestResult.NOT_SENT}


def test_an_error_of_librdkafka_is_told_with_what_is_wrong_with_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Down(Brokers):
        def list_topics(self, timeout: float) -> Any:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    found: list[ConnectionProblem | None] = [ConnectionProblem(ProblemKind.NOBODY_LISTENS), None]
    monkeypatch.setattr(failures, "problem_with", lambda *_: found.pop(0))
    for said in ("a:1 can't be asked: the connection is refused", "_TRANSPORT"):
        with pytest.raises(KafkaUnavailable, match=said):
            deleter_of(Down([1, 1, 1], {})).look([A])


def test_a_client_that_was_made_after_the_look_looks_before_it_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The brokers have told other addresses in between."""
    made: list[Brokers] = []

    def new_client(*_: Any) -> Any:
        made.append(Brokers([1, 1, 1], {1: [0]}))
        return made[-1]

    monkeypatch.setattr(client, "new_client", new_client)
    identity = ClusterIdentity()
    identity.learn("K", [(1, "a", 1)])
    records = client.LibrdkafkaClient(translate({"bootstrap.servers": "a:1"}), identity, list)
    records.look_before_deleting([A])
    identity.learn("K", [(1, "b", 1)])
    records.get_ready([A])
    records.delete_records({A: 4})
    *_, first, second = made
    assert (first.described, first.asked) == (1, [])
    assert (second.described, second.asked) == (1, [("orders", 0, 4)])
