"""Reading commits in batches: one unreadable group neither blinds its batch nor gets lost in it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import kafka.errors as kp_errors
import pytest
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse

from retentiond.kafka.groups import coordinators as module
from retentiond.kafka.groups.coordinators import GROUPS_PER_OFFSET_FETCH, GroupCommits, commits
from retentiond.kafka.interface import TOLD_TWICE
from retentiond.kafka.settings.properties import USUAL_IN_FLIGHT
from retentiond.kafka.wire.named_offsets import NamedOffsetFetchRequest
from retentiond.model import Commit, Failure, TopicPartition
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, found, make, names

NOT_COORDINATOR = 16
GROUP_AUTHORIZATION_FAILED = 30
UNSTABLE_OFFSET_COMMIT = 88


def partition(number: int, offset: int, error_code: int = 0) -> Any:
    return {"partition_index": number, "committed_offset": offset, "error_code": error_code}


def group(name: str, *partitions: Any, error_code: int = 0) -> Any:
    topics = [{"name": "orders", "partitions": list(partitions)}] if partitions else []
    return {"group_id": name, "error_code": error_code, "topics": topics}


def asked(request: Any) -> list[str]:
    """The groups that a request names."""
    if isinstance(request, NamedOffsetFetchRequest):
        return list(request.group_ids)
    return [each.group_id for each in request.groups]


class Coordinators:
    """Each group has committed 7, or answers as ``special`` says; its node is in ``nodes``."""

    def __init__(self, nodes: Mapping[str, int], **special: Any) -> None:
        self.nodes = dict(nodes)
        self.special = special
        self.silent: set[int] = set()
        self.spoilt_by: str | None = None

    def __call__(self, request: Any, node: int | None) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return found(request, lambda key: self.nodes[key])
        if isinstance(request, MetadataRequest):
            return MetadataResponse()
        if node in self.silent:
            return kp_errors.RequestTimedOutError("no answer")
        if self.spoilt_by in asked(request):
            return kp_errors.KafkaProtocolError("unable to decode")
        rows = [self.special.get(name, group(name, partition(0, 7))) for name in asked(request)]
        answer = make(OffsetFetchResponse, groups=[row for row in rows if row is not None])
        answer.API_VERSION = 8
        return answer


def read(
    answer: Coordinators, on: Collection[TopicPartition] | None = None
) -> tuple[Mapping[str, GroupCommits], Brokers]:
    brokers = Brokers(answer)
    return commits(BrokersClient(brokers), list(answer.nodes), on), brokers


SEVEN = [Commit("orders", 0, 7)]


def test_groups_are_asked_in_batches_of_their_coordinator() -> None:
    nodes = {
        name: 1 + number % 2
        for number, name in enumerate(names("group", range(2 * GROUPS_PER_OFFSET_FETCH + 30)))
    }
    answers, brokers = read(Coordinators(nodes))
    assert answers == dict.fromkeys(nodes, SEVEN)
    batches = [(n, asked(r)) for n, r in brokers.requests if isinstance(r, OffsetFetchRequest)]
    assert all(nodes[name] == node for node, batch in batches for name in batch)
    assert sorted(len(batch) for _, batch in batches) == [
        15,
        15,
        GROUPS_PER_OFFSET_FETCH,
        GROUPS_PER_OFFSET_FETCH,
    ]
    assert len(brokers.sent(FindCoordinatorRequest)) == 1


def test_a_coordinator_is_never_remembered_from_an_earlier_reading() -> None:
    brokers = Brokers(Coordinators({"billing": 1}))
    connection = BrokersClient(brokers)
    for _ in range(2):
        assert commits(connection, ["billing"]) == {"billing": SEVEN}
    assert len(brokers.sent(FindCoordinatorRequest)) == 2


def test_a_group_that_is_refused_fails_alone() -> None:
    nodes = dict.fromkeys(names("group", range(60)), 1)
    refused = group("group-030", error_code=GROUP_AUTHORIZATION_FAILED)
    answers, _ = read(Coordinators(nodes, **{"group-030": refused}))
    assert isinstance(answers["group-030"], Failure)
    assert answers["group-030"].code == "GROUP_AUTHORIZATION_FAILED"
    assert {name for name, found in answers.items() if found == SEVEN} == nodes.keys() - {
        "group-030"
    }


def test_thousands_of_groups_that_fail_are_asked_about_again_in_batches() -> None:
    nodes = dict.fromkeys(names("group", range(2 * GROUPS_PER_OFFSET_FETCH)), 1)
    refused = {name: group(name, error_code=NOT_COORDINATOR) for name in nodes}
    answers, brokers = read(Coordinators(nodes, **refused))
    assert all(isinstance(answer, Failure) for answer in answers.values())
    batches = [len(asked(each)) for each in brokers.sent(OffsetFetchRequest)]
    assert batches == [GROUPS_PER_OFFSET_FETCH] * 4


TWICE = {
    "a partition": group("billing", partition(0, 5), partition(1, 6), partition(0, 7)),
    "a topic": group("billing", partition(0, 5))
    | {"topics": [{"name": "orders", "partitions": [partition(at, 5)]} for at in (0, 1)]},
}


@pytest.mark.parametrize("answer", TWICE.values(), ids=TWICE)
def test_an_answer_with_something_twice_contradicts_itself(answer: Any) -> None:
    answers, _ = read(Coordinators({"billing": 1, "stock": 1}, billing=answer))
    assert answers == {"billing": TOLD_TWICE, "stock": SEVEN}


@pytest.mark.parametrize("on", [None, [TopicPartition("orders", 0)]])
@pytest.mark.parametrize("offsets", [(5, 7), (7, 5), (7, 7)])
def test_a_group_that_is_told_twice_is_not_known(
    on: Collection[TopicPartition] | None, offsets: tuple[int, int]
) -> None:
    class Twice(Coordinators):
        def __call__(self, request: Any, node: int | None) -> Any:
            answer = super().__call__(request, node)
            if isinstance(answer, OffsetFetchResponse):
                told = [group("billing", partition(0, offset)) for offset in offsets]
                stock = group("stock", partition(0, 7))
                answer = make(OffsetFetchResponse, groups=[*told, stock])
                answer.API_VERSION = 8
            return answer

    answers, _ = read(Twice({"billing": 1, "stock": 1}), on)
    assert answers == {"billing": TOLD_TWICE, "stock": SEVEN}


def test_an_answer_says_nothing_of_a_group_that_it_was_not_asked_about() -> None:
    class Talkative(Coordinators):
        def __call__(self, request: Any, node: int | None) -> Any:
            answer = super().__call__(request, node)
            if isinstance(answer, OffsetFetchResponse):
                answer.groups.append(make(OffsetFetchResponse, groups=[others]).groups[0])
            return answer

    others = group("stock", partition(0, 9))
    refused = group("stock", error_code=GROUP_AUTHORIZATION_FAILED)
    answers, _ = read(Talkative({"billing": 1, "stock": 2}, stock=refused))
    assert answers["billing"] == SEVEN
    assert isinstance(answers["stock"], Failure)


def test_a_batch_that_fails_as_a_whole_is_asked_again_group_by_group() -> None:
    answer = Coordinators(dict.fromkeys(names("group", range(30)), 1))
    answer.spoilt_by = "group-004"
    answers, brokers = read(answer)
    assert isinstance(answers["group-004"], Failure)
    assert [name for name, found in answers.items() if found != SEVEN] == ["group-004"]
    assert [len(asked(each)) for each in brokers.sent(OffsetFetchRequest)] == [30] + [1] * 30


def test_a_silent_broker_costs_its_own_groups_only() -> None:
    answer = Coordinators({"billing": 1, "search": 2, "audit": 1})
    answer.silent = {2}
    answers, _ = read(answer)
    assert isinstance(answers["search"], Failure)
    assert answers["search"].code == "REQUEST_TIMED_OUT"
    assert answers["billing"] == answers["audit"] == SEVEN


def test_a_group_that_the_coordinator_leaves_out_is_a_failure() -> None:
    answers, _ = read(Coordinators({"billing": 1, "search": 1}, search=None))
    assert isinstance(answers["search"], Failure)
    assert answers["search"].code == "NOT_ANSWERED"
    assert answers["billing"] == SEVEN


def test_a_group_without_a_coordinator_is_a_failure() -> None:
    answers, _ = read(Coordinators({"billing": 1, "search": -15}))
    assert isinstance(answers["search"], Failure)
    assert answers["search"].code == "COORDINATOR_NOT_AVAILABLE"
    assert answers["billing"] == SEVEN


def test_a_coordinator_that_has_just_moved_is_found_by_asking_again() -> None:
    coordinators = Coordinators({"billing": 1})

    def answer(request: Any, node: int | None) -> Any:
        if isinstance(request, OffsetFetchRequest) and node == 1:
            coordinators.nodes["billing"] = 2
            refused = group("billing", error_code=NOT_COORDINATOR)
            moved = make(OffsetFetchResponse, groups=[refused])
            moved.API_VERSION = 8
            return moved
        return coordinators(request, node)

    brokers = Brokers(answer)
    assert commits(BrokersClient(brokers), ["billing"]) == {"billing": SEVEN}


def test_a_coordinator_that_has_just_joined_is_known_before_asking_again() -> None:
    coordinators = Coordinators({"billing": 3})
    known: list[int] = []

    def answer(request: Any, node: int | None) -> Any:
        if isinstance(request, MetadataRequest):
            known.append(3)
        if isinstance(request, OffsetFetchRequest) and node not in known:
            return kp_errors.UnknownBrokerIdError(node)
        return coordinators(request, node)

    assert commits(BrokersClient(Brokers(answer)), ["billing"]) == {"billing": SEVEN}


def test_a_commit_that_cannot_be_read_stays_as_one_without_an_offset() -> None:
    undecided = group("billing", partition(0, -1, UNSTABLE_OFFSET_COMMIT), partition(1, 4))
    answers, _ = read(Coordinators({"billing": 1}, billing=undecided))
    assert answers["billing"] == [Commit("orders", 0, None), Commit("orders", 1, 4)]


@pytest.mark.parametrize("offset", [-1, -2, -1000])
def test_a_commit_below_zero_stays_as_one_without_an_offset(offset: int) -> None:
    """Kafka stores what a client commits. Its group reads the topic, from where nobody knows."""
    answers, _ = read(Coordinators({"billing": 1}, billing=group("billing", partition(0, offset))))
    assert answers["billing"] == [Commit("orders", 0, None)]


@pytest.mark.parametrize("nodes", [1, 3])
def test_never_more_than_a_few_requests_wait_for_one_broker(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUPS_PER_OFFSET_FETCH", 1)
    wanted = {name: 1 + at % nodes for at, name in enumerate(names("group", range(100)))}
    answers, brokers = read(Coordinators(wanted))
    assert len(answers) == 100
    assert {brokers.most_in_flight[node] for node in range(1, nodes + 1)} == {USUAL_IN_FLIGHT}


# On named partitions

ORDERS = [TopicPartition("orders", number) for number in range(2)]


def test_partitions_without_a_commit_are_left_out_of_those_that_were_named() -> None:
    on_both = group("billing", partition(0, 7), partition(1, -1))
    answers, _ = read(Coordinators({"billing": 1}, billing=on_both), ORDERS)
    assert answers == {"billing": SEVEN}


def test_a_group_whose_answer_lacks_a_named_partition_is_unreadable_and_asked_again() -> None:
    """Else it would look as if it had never read there."""
    nodes = {"billing": 1, "search": 1}
    whole = group("search", partition(1, 4), partition(0, 7))
    answers, brokers = read(Coordinators(nodes, search=whole), ORDERS)
    assert isinstance(answers["billing"], Failure)
    assert answers["billing"].code == "NOT_ANSWERED"
    assert answers["search"] == [Commit("orders", 1, 4), *SEVEN]
    assert [asked(each) for each in brokers.sent(OffsetFetchRequest)] == [
        ["billing", "search"],
        ["billing"],
    ]


@pytest.mark.parametrize("error_code", [NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED])
def test_a_group_that_is_refused_by_name_fails_alone(error_code: int) -> None:
    nodes = {"billing": 1, "search": 1}
    whole = group("search", partition(0, 7), partition(1, -1))
    refused = group("billing", error_code=error_code)
    answers, _ = read(Coordinators(nodes, search=whole, billing=refused), ORDERS)
    assert isinstance(answers["billing"], Failure)
    assert answers["search"] == SEVEN


def test_a_named_partition_that_may_not_be_seen_is_a_commit_without_an_offset() -> None:
    hidden = group("billing", partition(0, 7), partition(1, -1, 29))
    answers, _ = read(Coordinators({"billing": 1}, billing=hidden), ORDERS)
    assert answers["billing"] == [*SEVEN, Commit("orders", 1, None)]


def test_a_request_asks_for_no_more_commits_than_fit_into_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "COMMITS_PER_OFFSET_FETCH", 7)
    nodes = dict.fromkeys(names("group", range(8)), 1)
    _, brokers = read(Coordinators(nodes), ORDERS)
    first = [asked(each) for each in brokers.sent(OffsetFetchRequest)][:3]
    assert [len(each) for each in first] == [3, 3, 2]
