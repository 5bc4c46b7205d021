"""Offset look-ups: one request to each leader, whatever the number of its partitions.

librdkafka takes several requests and many times as long for some thousand partitions; `records`
asks it where the other client is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from kafka.errors import RequestTimedOutError
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from retentiond.kafka import by_time, protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.grants import with_topic_grant
from retentiond.kafka.leaders import Leader, Leaders
from retentiond.kafka.link import Link
from retentiond.kafka.list_offsets import ListOffsets, Wanted
from retentiond.kafka.port import OffsetBound
from retentiond.model import Failure, TopicPartition

T = TypeVar("T")

BOUNDS_PER_REQUEST = 20_000
"""A request keeps one of the broker's threads busy, and a log's bounds are in its memory."""

TIMES_PER_REQUEST = 5000
"""A look-up by time reads an index, from the disk if it must."""

SILENT_LEADER = Failure("LEADER_NOT_AVAILABLE", "the partition's leader does not answer")

NOT_ANSWERED = Failure("NOT_ANSWERED", "the leader left the partition out of its answer")

NONE_YOUNG = -1

NO_OFFSET = Failure("OFFSET_NOT_AVAILABLE", "the partition's leader knows no such offset")

MENDED = frozenset(
    {
        3,  # UNKNOWN_TOPIC_OR_PARTITION: its replica has moved on
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH: also where the topic was recreated
        78,  # OFFSET_NOT_AVAILABLE: it has just become the leader
    }
)
"""Errors that another request may not meet, once the metadata were read anew."""

_BOUNDS: dict[OffsetBound, tuple[int, int]] = {
    OffsetBound.LOG_START: (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetBound.HIGH_WATERMARK: (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetBound.LAST_STABLE: (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
}


class Offsets:
    """Thread-safe. Any call may raise `KafkaUnavailable`."""

    def __init__(self, connection: Connection, leaders: Leaders) -> None:
        self._connection = connection
        self._leaders = leaders

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        which, isolation = _BOUNDS[bound]
        asked = _Asked(dict.fromkeys(partitions, which), isolation, BOUNDS_PER_REQUEST)
        return self._look_up(asked, _offset)

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        return by_time.offsets_at(timestamps_ms, self._by_time, self._newest)

    def _by_time(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | Failure | None]:
        return self._look_up(_asked_by_time(timestamps_ms), _offset_or_none)

    def _newest(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, object]:
        asked = dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP)
        return self._look_up(_asked_by_time(asked), attrgetter("timestamp"))

    def _look_up(
        self, asked: _Asked, read: Callable[[Any], T]
    ) -> dict[TopicPartition, T | Failure]:
        """What ``read`` makes of each partition's answer."""

        async def ask(link: Link) -> dict[TopicPartition, T | Failure]:
            led = await self._leaders.of(link, asked.times)
            found, doubtful = await _ask(link, asked, led, read)
            if doubtful:
                await self._leaders.read(link, {partition.topic for partition in doubtful})
                leads_now = await self._leaders.of(link, doubtful)
                again = {
                    at: asked.times[at]
                    for at in doubtful
                    # Who kept silent for all of a request's time has had its turn.
                    if found[at] is not SILENT_LEADER or leads_now[at] != led[at]
                }
                found |= (await _ask(link, asked._replace(times=again), leads_now, read))[0]
            return found

        return self._connection.run(ask) if asked.times else {}


class _Asked(NamedTuple):
    """``times``: a time stamp of each partition, or one of Kafka's special values."""

    times: Mapping[TopicPartition, int]
    isolation: int
    per_request: int


def _asked_by_time(times: Mapping[TopicPartition, int]) -> _Asked:
    return _Asked(times, IsolationLevel.READ_UNCOMMITTED, TIMES_PER_REQUEST)


async def _ask(
    link: Link,
    asked: _Asked,
    led: Mapping[TopicPartition, Leader | Failure],
    read: Callable[[Any], T],
) -> tuple[dict[TopicPartition, T | Failure], list[TopicPartition]]:
    """The answers, and the partitions about which another leader may have a better one."""
    found: dict[TopicPartition, T | Failure] = dict.fromkeys(asked.times, NOT_ANSWERED)
    doubtful: list[TopicPartition] = []
    by_node: dict[int, list[tuple[TopicPartition, int]]] = {}
    for at in asked.times:
        leader = led[at]
        if isinstance(leader, Failure):
            found[at] = _explained(leader, at)
            doubtful.append(at)
        else:
            by_node.setdefault(leader.node, []).append((at, leader.epoch))
    batches = [
        (node, partitions[start : start + asked.per_request])
        for node, partitions in by_node.items()
        for start in range(0, len(partitions), asked.per_request)
    ]
    requests = [(node, _request(batch, asked)) for node, batch in batches]
    for (_, batch), response in zip(batches, await link.send_all(requests), strict=True):
        if isinstance(response, Exception):
            partitions = [at for at, _ in batch]
            found |= dict.fromkeys(partitions, _unanswered(response))
            doubtful += partitions
            continue
        for topic in response.topics:
            for part in topic.partitions:
                at = TopicPartition(topic.name, part.partition_index)
                if part.error_code:
                    failure = protocol_failures.of_error_code(part.error_code)
                    found[at] = _explained(failure, at)
                    if part.error_code in MENDED:
                        doubtful.append(at)
                else:
                    found[at] = read(part)
    return found, doubtful


def _request(partitions: Sequence[tuple[TopicPartition, int]], asked: _Asked) -> ListOffsets:
    by_topic: dict[str, list[Wanted]] = {}
    for at, epoch in partitions:
        by_topic.setdefault(at.topic, []).append(Wanted(at.partition, epoch, asked.times[at]))
    return ListOffsets(asked.isolation, by_topic)


def _unanswered(error: Exception) -> Failure:
    if isinstance(error, RequestTimedOutError):
        return SILENT_LEADER
    return protocol_failures.of_kafka_python(error)


def _explained(failure: Failure, at: TopicPartition) -> Failure:
    return with_topic_grant(failure, at.topic, "Describe")


def _offset(part: Any) -> int | Failure:
    return NO_OFFSET if part.offset < 0 else int(part.offset)


def _offset_or_none(part: Any) -> int | Failure | None:
    """None: there is no record that young, for which Kafka has one word."""
    return None if part.offset == NONE_YOUNG else _offset(part)
