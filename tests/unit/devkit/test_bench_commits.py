"""The commits of the benchmark are to the byte what kafka-python would send."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from devkit.bench import commits as module
from devkit.bench.commits import VERSION, HandEncodedCommit, requests
from devkit.bench.layouts import LAYOUTS, M

OFFSETS = {"clicks": np.array([5]), "orders": np.array([7, 2**40])}


def sent(request: Any) -> bytes:
    request.API_VERSION = VERSION
    request.with_header(correlation_id=7, client_id="bench")
    encoded: bytes = request.encode(framed=True, header=True)
    return encoded


def test_a_commit_is_what_kafka_python_would_send() -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    row = topic.OffsetCommitRequestPartition
    by_kafka_python = OffsetCommitRequest(
        group_id="billing",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            topic(
                name=name,
                partitions=[
                    row(
                        partition_index=number,
                        committed_offset=int(offset),
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for number, offset in enumerate(offsets)
                ],
            )
            for name, offsets in OFFSETS.items()
        ],
    )
    assert sent(HandEncodedCommit("billing", OFFSETS)) == sent(by_kafka_python)


@pytest.mark.parametrize("error_code", [0, 15])
def test_it_is_done_where_no_partition_has_an_error(error_code: int) -> None:
    request = HandEncodedCommit("billing", OFFSETS)
    sent(request)
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    row = topic.OffsetCommitResponsePartition
    answer = OffsetCommitResponse(
        throttle_time_ms=3,
        topics=[
            topic(
                name=name,
                partitions=[
                    row(partition_index=number, error_code=error_code * number)
                    for number in range(len(offsets))
                ],
            )
            for name, offsets in OFFSETS.items()
        ],
    )
    body = io.BytesIO(answer.encode(version=VERSION))
    assert request.header.get_response_class().decode(body).is_done is (error_code == 0)


def test_many_partitions_go_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARTITIONS_AT_A_TIME", 2)
    one, other = requests("billing", OFFSETS)
    assert sent(one) == sent(HandEncodedCommit("billing", {"clicks": OFFSETS["clicks"]}))
    assert sent(other) == sent(HandEncodedCommit("billing", {"orders": OFFSETS["orders"]}))


def test_the_smallest_offsets_of_a_layout_are_those_of_its_commits() -> None:
    smallest: dict[tuple[str, int], int] = {}
    for (_, topic, partition), offset in M.offsets().items():
        smallest[topic, partition] = min(offset, smallest.get((topic, partition), offset))
    assert M.minima() == smallest
    assert len(LAYOUTS["XXL"].minima()) == 20_000
