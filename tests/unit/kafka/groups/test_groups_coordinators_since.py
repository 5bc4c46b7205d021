"""When coordinators need not be asked whether they are at work: nothing has changed since. What
becomes of those that lead in the same epoch, another one or another cluster: tests/contract."""

from __future__ import annotations

from itertools import count
from typing import Any

from kafka.protocol.consumer import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.metadata import MetadataResponse

from retentiond.kafka.groups.listing import coordinator_state, coordinators_since
from retentiond.kafka.interface import OFFSETS_TOPIC, CoordinatorState
from tests.support.builders.scripted_brokers import Brokers, BrokersClient, make


def brokers(epoch: int, error_code: int = 0, seen_from: int = 0) -> Brokers:
    """One, that leads the only partition of the offsets topic in that epoch, and is at work.
    ``error_code``: in place of the partition's end; ``seen_from``: so many metadata lack it."""
    seen = count()

    def answer(request: Any, _node: int | None) -> Any:
        if isinstance(request, OffsetFetchRequest):
            groups = [{"group_id": each.group_id, "topics": []} for each in request.groups]
            response = make(OffsetFetchResponse, groups=groups)
            response.API_VERSION = 8
            return response
        if isinstance(request, ListOffsetsRequest):
            end = {"partition_index": 0, "error_code": error_code}
            topics = [{"name": OFFSETS_TOPIC, "partitions": [end]}]
            return make(ListOffsetsResponse, topics=topics)
        partition = {"partition_index": 0, "leader_id": 1, "leader_epoch": epoch}
        partitions = [partition] if next(seen) >= seen_from else []
        return make(
            MetadataResponse,
            brokers=[{"node_id": 1, "host": "h", "port": 1}],
            cluster_id="one",
            topics=[{"name": OFFSETS_TOPIC, "partitions": partitions}],
        )

    return Brokers(answer, nodes=[1])


def earlier_at(epoch: int) -> CoordinatorState:
    return coordinator_state(BrokersClient(brokers(epoch)))


def test_where_brokers_tell_no_epoch_they_are_asked() -> None:
    today = brokers(-1)
    assert coordinators_since(BrokersClient(today), earlier_at(-1)) == earlier_at(-1)
    assert today.sent(OffsetFetchRequest)


OFFSET_NOT_AVAILABLE = 78


def state_of(brokers: Brokers, earlier: CoordinatorState | None = None) -> CoordinatorState:
    return coordinator_state(BrokersClient(brokers), earlier)


def test_a_leader_that_cannot_say_where_its_partition_ends_is_behind() -> None:
    assert state_of(brokers(5)).behind == ()
    assert state_of(brokers(5, OFFSET_NOT_AVAILABLE)).behind == (0,)


def test_a_partition_that_shows_only_after_the_leaders_were_asked_is_behind() -> None:
    assert state_of(brokers(5, seen_from=1)).behind == (0,)


def test_in_one_and_the_same_epoch_a_leader_is_asked_once_whether_it_has_caught_up() -> None:
    """It can't fall behind again, and one that was behind makes the listing incomplete anyway."""
    for first in (earlier_at(5), state_of(brokers(5, OFFSET_NOT_AVAILABLE))):
        today = brokers(5)
        assert state_of(today, first) == first
        assert today.sent(ListOffsetsRequest) == []
