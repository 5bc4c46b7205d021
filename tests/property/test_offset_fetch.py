"""The decoder of OffsetFetch against kafka-python's own, on whatever a coordinator may answer."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from kafka.protocol.consumer import OffsetFetchResponse

from retentiond.kafka.wire.by_hand import BATCHED_OFFSETS, decode_offsets
from retentiond.model import Commit

Group = OffsetFetchResponse.OffsetFetchResponseGroup
Topic = Group.OffsetFetchResponseTopics
Partition = Topic.OffsetFetchResponsePartitions

INT32 = st.integers(0, 2**31 - 1)
METADATA = st.one_of(
    st.none(), st.just(""), st.text(max_size=3), st.integers(120, 140).map(lambda size: "m" * size)
)
ERRORS = [0, 0, 0, 0, 3, 88, 1280]
ROW = struct.Struct(">IQBBBB")
"""The numbers of a partition: index, offset, and what chooses its offset, epoch and the rest."""


def offset(value: int, choice: int) -> int:
    """Half of them are -1; the others of all sizes, with both ends."""
    value &= 2**63 - 1
    return [-1, -1, -1, value, value >> 32, [0, 1, 2**31, 2**63 - 1][value % 4]][choice % 6]


@st.composite
def partitions(draw: st.DrawFn) -> list[Any]:
    """Mostly of one length, as a consumer writes them; here and there each has its own.

    Their numbers are drawn at once: 130 partitions are 650 draws otherwise, and take seconds.
    """
    count = draw(st.sampled_from([0, 1, 2, 5, 130]))
    metadata = draw(st.lists(METADATA, min_size=1, max_size=5))
    errors = draw(st.sampled_from([[0], ERRORS]))
    size = count * ROW.size
    return [
        Partition(
            partition_index=index & 2**31 - 1,
            committed_offset=offset(value, which),
            committed_leader_epoch=[epoch % 7 - 1, -2, 2**31 - 1, -(2**31)][which % 4],
            metadata=metadata[own % len(metadata)],
            error_code=errors[error % len(errors)],
        )
        for index, value, which, epoch, own, error in ROW.iter_unpack(
            draw(st.binary(min_size=size, max_size=size))
        )
    ]


TOPICS = st.builds(Topic, name=st.text(min_size=1, max_size=200), partitions=partitions())
GROUPS = st.builds(
    Group,
    group_id=st.text(max_size=20),
    topics=st.lists(TOPICS, max_size=3),
    error_code=st.sampled_from(ERRORS),
)
RESPONSES = st.builds(
    OffsetFetchResponse, throttle_time_ms=INT32, groups=st.lists(GROUPS, max_size=3)
)


def encoded(response: Any) -> bytes:
    return bytes(response.encode(version=BATCHED_OFFSETS))


def _offset_and_epoch(row: Any) -> tuple[int | None, int | None]:
    """None where an error came instead, or what is no offset; a negative epoch is none."""
    if row.error_code or row.committed_offset < 0:
        return None, None
    epoch = row.committed_leader_epoch
    return row.committed_offset, None if epoch < 0 else epoch


def by_kafka_python(body: bytes) -> list[tuple[str, int, list[Commit]]]:
    return [
        (
            group.group_id,
            group.error_code,
            [
                Commit(
                    topic.name,
                    row.partition_index,
                    *_offset_and_epoch(row),
                )
                for topic in group.topics
                for row in topic.partitions
            ],
        )
        for group in OffsetFetchResponse[BATCHED_OFFSETS].decode(body).groups
    ]


@pytest.mark.long
@given(RESPONSES)
def test_it_reads_what_kafka_python_reads(response: Any) -> None:
    body = encoded(response)
    found = decode_offsets(body)
    assert found.throttle_time_ms == response.throttle_time_ms
    assert [
        (group.group_id, group.error_code, list(group.commits)) for group in found.groups
    ] == by_kafka_python(body)
    event(f"commits: {sum(len(group.commits) for group in found.groups) > 0}")


@pytest.mark.long
@given(RESPONSES, st.data())
def test_a_response_that_is_cut_short_is_an_error_and_never_fewer_commits(
    response: Any, data: st.DataObject
) -> None:
    body = encoded(response)
    end = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises((ValueError, struct.error)):
        decode_offsets(body[:end])


@pytest.mark.long
@given(RESPONSES, st.binary(min_size=1, max_size=20))
def test_a_response_with_more_behind_it_is_an_error(response: Any, more: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        decode_offsets(encoded(response) + more)


def test_tags_that_a_later_broker_may_add_are_passed_over() -> None:
    plain = encoded(
        OffsetFetchResponse(
            groups=[
                Group(
                    group_id="billing",
                    topics=[
                        Topic(
                            name="orders",
                            partitions=[
                                Partition(partition_index=number, committed_offset=7 + number)
                                for number in range(2)
                            ],
                        )
                    ],
                )
            ]
        )
    )
    row = struct.pack(">iqi", 0, 7, -1)
    at = plain.index(row) + len(row) + 1 + 2  # behind its metadata (one byte) and error code
    tagged = plain[:at] + b"\1\x05\x03abc" + plain[at + 1 :]
    (group,) = decode_offsets(tagged).groups
    assert list(group.commits) == [Commit("orders", 0, 7), Commit("orders", 1, 8)]
