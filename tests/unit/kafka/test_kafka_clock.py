"""The cluster's clock: what the active controller says, and what its silence means."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse

from retentiond.kafka.broker_errors import BrokerError
from retentiond.kafka.brokers import NO_LEADER, cluster_time
from retentiond.model import Failure
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make

NOW_MS = 1_700_000_000_000
NOT_LEADER_OR_FOLLOWER = 6


def quorum(leader_id: int, times_ms: dict[int, int], *, error_code: int = 0) -> Any:
    """An answer with those voters and when each fetched last."""
    voters = [
        {"replica_id": voter, "last_fetch_timestamp": time_ms}
        for voter, time_ms in times_ms.items()
    ]
    partition = {"leader_id": leader_id, "current_voters": voters, "error_code": error_code}
    return make(DescribeQuorumResponse, topics=[{"partitions": [partition]}])


def told(answer: Any, version: int = 2) -> int | Failure | None:
    brokers = Brokers(lambda *_: answer, {DescribeQuorumRequest: version})
    return cluster_time(BrokersClient(brokers))


def test_the_leader_of_the_controllers_tells_the_time() -> None:
    assert told(quorum(2, {1: NOW_MS - 500, 2: NOW_MS, 3: -1})) == NOW_MS


@pytest.mark.parametrize("leader_id", [-1, 4])
def test_an_election_is_a_failure_and_not_a_cluster_without_a_clock(leader_id: int) -> None:
    assert told(quorum(leader_id, {1: NOW_MS, 2: NOW_MS})) == NO_LEADER


def test_a_leader_that_shows_no_time_has_none() -> None:
    assert told(quorum(1, {1: -1})) is None


def test_a_broker_that_is_too_old_has_none() -> None:
    assert told(quorum(1, {1: NOW_MS}), version=0) is None


def test_a_principal_that_may_not_ask_goes_without() -> None:
    refused = BrokerError.CLUSTER_AUTHORIZATION_FAILED.code
    assert told(DescribeQuorumResponse(error_code=refused, topics=[])) is None


def test_an_error_of_the_partition_is_a_failure() -> None:
    found = told(quorum(1, {1: NOW_MS}, error_code=NOT_LEADER_OR_FOLLOWER))

    assert isinstance(found, Failure)
