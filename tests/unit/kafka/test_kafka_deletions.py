"""How targets become Kafka's offsets: -1 is written in one place only."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from retentiond.kafka import deletions
from retentiond.kafka.port import OffsetBound
from retentiond.model import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))


class Recorder:
    """An AdminClient that answers every partition with its own number."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []

    def delete_records(self, partitions: list[Any], **_: float) -> dict[Any, Future[Any]]:
        futures = {}
        for each in partitions:
            self.asked.append((each.topic, each.partition, each.offset))
            futures[each] = future = Future[Any]()
            future.set_result(SimpleNamespace(low_watermark=each.partition))
        return futures


def test_the_high_watermark_is_minus_one_and_offsets_stay_as_they_are() -> None:
    admin: Any = Recorder()
    answers = deletions.request_targets(admin, {A: OffsetBound.HIGH_WATERMARK, B: 0, C: 7}, 1.0)
    assert admin.asked == [("orders", 0, -1), ("orders", 1, 0), ("orders", 2, 7)]
    assert answers == {A: 0, B: 1, C: 2}


@pytest.mark.parametrize("offset", [-1, -2, -1001])
def test_a_negative_offset_is_refused_for_all(offset: int) -> None:
    admin: Any = Recorder()
    with pytest.raises(ValueError, match=f"orders-1 up to {offset}"):
        deletions.request_targets(admin, {A: 3, B: offset}, 1.0)
    assert admin.asked == []


def test_for_nothing_no_request_goes_out() -> None:
    admin: Any = Recorder()
    assert deletions.request_targets(admin, {}, 1.0) == {}
    assert admin.asked == []
