"""What is encoded here is to the byte what kafka-python would send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsRequest

from retentiond.kafka.wire.by_hand import LIST_OFFSETS_VERSION, ListOffsets, OffsetQuery

INT32 = st.integers(-(2**31), 2**31 - 1)

INT64 = st.integers(-(2**63), 2**63 - 1)

WANTED = st.builds(OffsetQuery, INT32, INT32, INT64)

TOPICS = st.dictionaries(st.text("aé雪", max_size=200), st.lists(WANTED, max_size=3), max_size=3)


def by_kafka_python(
    isolation: int, topics: Mapping[str, Sequence[OffsetQuery]]
) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(
                        partition_index=each.partition,
                        current_leader_epoch=each.leader_epoch,
                        timestamp=each.value,
                    )
                    for each in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def sent(request: ListOffsetsRequest) -> bytes:
    """As its connection does it."""
    request.API_VERSION = LIST_OFFSETS_VERSION
    request.with_header(correlation_id=7, client_id="retentiond")
    encoded: bytes = request.encode(framed=True, header=True)
    return encoded


@given(st.sampled_from([0, 1]), TOPICS)
def test_any_request(isolation: int, topics: dict[str, list[OffsetQuery]]) -> None:
    assert sent(ListOffsets(isolation, topics)) == sent(by_kafka_python(isolation, topics))


@pytest.mark.parametrize("count", [126, 127, 128, 16_382, 16_383, 16_384])
def test_lengths_at_the_edge_of_another_byte(count: int) -> None:
    topics = {"orders": [OffsetQuery(number, 1, -1) for number in range(count)]}

    assert sent(ListOffsets(0, topics)) == sent(by_kafka_python(0, topics))
