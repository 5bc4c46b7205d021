"""OffsetFetch for named partitions: the request to the byte, and whatever may come back."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from retentiond.kafka.wire.by_hand import BATCHED_OFFSETS, GroupOffsets, decode_offsets
from retentiond.kafka.wire.named_offsets import NamedOffsetFetchRequest, NamedPartitions
from retentiond.model import Commit
from tests.support.builders.scripted_brokers import make

Group = OffsetFetchResponse.OffsetFetchResponseGroup
Partition = Group.OffsetFetchResponseTopics.OffsetFetchResponsePartitions

ASKED = {"clicks": [0, 1, 2], "orders": [1, 0]}

NAMES = st.text("aé雪", min_size=1, max_size=200)
TOPICS = st.dictionaries(
    NAMES, st.lists(st.integers(0, 300), min_size=1, max_size=200, unique=True), max_size=3
)
COMMITS = st.tuples(
    st.sampled_from([-2, -1, 0, 7, 2**40]),
    st.integers(-1, 3),
    st.sampled_from(["", "", "", None, "m", "m" * 130]),
    st.sampled_from([0, 0, 0, 29]),
)


def sent(request: Any) -> bytes:
    """As its connection does it."""
    request.API_VERSION = BATCHED_OFFSETS
    request.with_header(correlation_id=7, client_id="retentiond")
    encoded: bytes = request.encode(framed=True, header=True)
    return encoded


@given(st.lists(NAMES, max_size=3), TOPICS)
def test_any_request(groups: list[str], topics: dict[str, list[int]]) -> None:
    of_all = [{"name": name, "partition_indexes": at} for name, at in topics.items()]
    asked = [{"group_id": group, "topics": of_all} for group in groups]
    by_kafka_python = make(OffsetFetchRequest, groups=asked, require_stable=False)
    named = NamedOffsetFetchRequest(groups, NamedPartitions(topics))
    assert sent(named) == sent(by_kafka_python)


def told(group: str, topics: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    partitions = [{"name": name, "partitions": list(of)} for name, of in topics.items()]
    return {"group_id": group, "topics": partitions}


def encoded(groups: list[dict[str, Any]]) -> bytes:
    response = make(OffsetFetchResponse, throttle_time_ms=0, groups=groups)
    return bytes(response.encode(version=BATCHED_OFFSETS))


def answered(
    groups: Mapping[str, Mapping[str, Sequence[Any]]], error_code: int = 0
) -> list[GroupOffsets]:
    """What is read of a response about `ASKED`."""
    body = encoded([told(*each) | {"error_code": error_code} for each in groups.items()])
    return decode_offsets(body, NamedPartitions(ASKED).read_group).groups


def row(number: int, offset: int = -1, **more: Any) -> Any:
    fields = {"committed_leader_epoch": -1, "metadata": "", "error_code": 0} | more
    return Partition(partition_index=number, committed_offset=offset, **fields)


def plain(**offsets: list[int]) -> dict[str, list[Any]]:
    """Those offsets of each topic, in the order of `ASKED`."""
    return {
        name: [row(*pair) for pair in zip(numbers, offsets[name], strict=True)]
        for name, numbers in ASKED.items()
    }


def test_only_commits_come_back_of_all_that_is_told() -> None:
    one, other, none = answered(
        {
            "one": plain(clicks=[-1, 5, -1], orders=[7, -1]),
            "other": plain(clicks=[-1, -1, -1], orders=[-1, 0]),
            "none": plain(clicks=[-1, -1, -1], orders=[-1, -1]),
        }
    )
    assert list(one.commits) == [Commit("clicks", 1, 5), Commit("orders", 1, 7)]
    assert list(other.commits) == [Commit("orders", 0, 0)]
    assert list(none.commits) == []
    assert all(each.is_whole for each in (one, other, none))


@given(st.lists(COMMITS, min_size=5, max_size=5), st.permutations(list(ASKED)))
def test_it_reads_what_kafka_python_reads_but_for_partitions_without_a_commit(
    found: list[tuple[int, int, str | None, int]], order: list[str]
) -> None:
    rows = iter(found)
    topics = {
        name: [
            row(at, offset, committed_leader_epoch=epoch, metadata=metadata, error_code=error)
            for at, (offset, epoch, metadata, error) in zip(ASKED[name], rows, strict=False)
        ]
        for name in order
    }
    (group,) = answered({"billing": topics})
    expected = [
        Commit(name, each.partition_index, None)
        if each.error_code or each.committed_offset < 0
        else Commit(
            name,
            each.partition_index,
            each.committed_offset,
            None if each.committed_leader_epoch < 0 else each.committed_leader_epoch,
        )
        for name, rows_of in topics.items()
        for each in rows_of
        if each.error_code or each.committed_offset != -1
    ]
    assert group.is_whole
    assert list(group.commits) == expected
    assert [*group.commits.negative()] == [
        (name, each.partition_index, -2)
        for name, rows_of in topics.items()
        for each in rows_of
        if not each.error_code and each.committed_offset == -2
    ]


@pytest.mark.parametrize(
    "topics",
    [
        {},
        {"clicks": [row(0), row(1), row(2, 4)]},
        {"clicks": [row(0), row(1, 4)], "orders": [row(0), row(1)]},
        {"clicks": [row(0), row(1), row(1, 4)], "orders": [row(0), row(1)]},
        {"clicks": [row(0), row(1), row(2)], "orders": [row(0), row(1, 4)], "others": [row(0)]},
    ],
    ids=["none", "a topic less", "a partition less", "one twice", "one more"],
)
def test_an_answer_about_other_partitions_is_none(topics: Mapping[str, Sequence[Any]]) -> None:
    (group,) = answered({"billing": topics})
    assert not group.is_whole
    assert list(group.commits) == []


def test_a_group_that_can_not_be_read_says_so() -> None:
    (group,) = answered({"billing": {}}, error_code=30)
    assert group.error_code == 30


@given(st.integers(0, 400))
def test_a_response_that_is_cut_short_is_an_error(end: int) -> None:
    body = encoded([told("billing", plain(clicks=[1, 2, 3], orders=[4, 5]))] * 3)
    cut = body[: min(end, len(body) - 1)]
    with pytest.raises((ValueError, struct.error)):
        decode_offsets(cut, NamedPartitions(ASKED).read_group)
