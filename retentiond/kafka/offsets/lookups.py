"""Offset look-ups, and where leader epochs ended: one request to each leader for all partitions.

librdkafka takes several requests and many times as long for some thousand partitions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from kafka.errors import RequestTimedOutError
from kafka.protocol.consumer import (
    FetchResponse,
    IsolationLevel,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetSpec,
)

from retentiond import clock
from retentiond.kafka.broker_errors import BrokerError, Means, means
from retentiond.kafka.client import Client
from retentiond.kafka.interface import (
    NOT_ANSWERED,
    TOLD_TWICE,
    EpochEnd,
    LogRange,
    OffsetBound,
    PartitionEpoch,
)
from retentiond.kafka.network_client import NetworkClient, failure_of_code, failure_of_exception
from retentiond.kafka.offsets import by_time, record_stamps
from retentiond.kafka.remedies import with_topic_grant
from retentiond.kafka.topics import Leader, Leaders
from retentiond.kafka.wire.by_hand import (
    A_CLIENT,
    LIST_OFFSETS_VERSION,
    LOCAL_START_VERSION,
    ListOffsets,
    OffsetQuery,
)
from retentiond.model import Failure, TopicPartition

T = TypeVar("T")

BOUNDS_PER_REQUEST = 20_000
"""A request keeps one of the broker's threads busy, and a log's bounds are in its memory."""

TIMES_PER_REQUEST = 5000
"""A look-up by time reads an index, from the disk if it must."""

EPOCHS_FOR_CLIENTS = 3
"""The first version of OffsetForLeaderEpoch that tells a client from a replica (Kafka 2.3)."""

SILENT_LEADER = Failure(
    BrokerError.LEADER_NOT_AVAILABLE.name, "the partition's leader does not answer"
)

NO_OFFSET_AT_TIME = -1

NO_OFFSET = Failure(
    BrokerError.OFFSET_NOT_AVAILABLE.name, "the partition's leader knows no such offset"
)

_BOUNDS: dict[OffsetBound, tuple[int, int]] = {
    OffsetBound.LOG_START: (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetBound.HIGH_WATERMARK: (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetBound.LAST_STABLE: (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
    OffsetBound.LOCAL_START: (OffsetSpec.EARLIEST_LOCAL, IsolationLevel.READ_UNCOMMITTED),
}


class Offsets:
    """Thread-safe. Any call may raise `KafkaUnavailable`."""

    def __init__(self, client: Client, leaders: Leaders) -> None:
        self._client = client
        self._leaders = leaders
        self._tiered: dict[str, bool] = {}
        self._lookups = by_time.TieredLookups()
        self._lookups_lock = threading.Lock()
        self._stamps = record_stamps.RecordStamps()

    def learn_tiered(self, topics: Mapping[str, bool]) -> None:
        """Which of them have a part of their logs in remote storage."""
        self._tiered |= topics

    def keep(self, listed: Collection[str]) -> None:
        """Forgets all other topics."""
        for name in self._tiered.keys() - set(listed):
            del self._tiered[name]
        self._stamps.keep(listed)
        with self._lookups_lock:
            self._lookups.keep(listed)

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        which, isolation = _BOUNDS[bound]
        version = LOCAL_START_VERSION if bound is OffsetBound.LOCAL_START else LIST_OFFSETS_VERSION
        request = partial(ListOffsets, isolation, version=version)
        query = _Query(dict.fromkeys(partitions, which), request, BOUNDS_PER_REQUEST)
        return self._look_up(query, _offset)

    def offsets_at(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        logs: Mapping[TopicPartition, LogRange] | None = None,
        now_ms: int | None = None,
    ) -> Mapping[TopicPartition, int | Failure | None]:
        at_ms = clock.now_ms() if now_ms is None else now_ms
        stamps_ms: record_stamps.Known = {}
        remote = {
            at: time_ms for at, time_ms in timestamps_ms.items() if self._tiered.get(at.topic)
        }
        local = {at: time_ms for at, time_ms in timestamps_ms.items() if at not in remote}
        offsets = by_time.offsets_at(local, partial(self._by_time, stamps_ms), self._newest)
        if remote:
            with self._lookups_lock:
                offsets |= self._lookups.offsets_at(remote, self._asking(stamps_ms))
        in_doubt = record_stamps.in_doubt(timestamps_ms, offsets, stamps_ms, logs or {}, at_ms)
        if not in_doubt:
            return offsets
        led = self._logs(in_doubt)
        return offsets | self._stamps.unknown(in_doubt, led, self._fetch, self._first_dated)

    def _asking(self, stamps_ms: record_stamps.Known) -> by_time.BrokerQueries:
        return by_time.BrokerQueries(
            logs=self._logs,
            log_starts=partial(self.offsets, bound=OffsetBound.LOG_START),
            local_starts=partial(self.offsets, bound=OffsetBound.LOCAL_START),
            newest=self._newest,
            in_small_requests=partial(self._by_time, stamps_ms, in_small_requests=True),
        )

    def _logs(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, by_time.Log | None]:
        led = self._client.run(lambda network: self._leaders.of(network, partitions))
        return {
            at: (self._leaders.topic_id(at.topic), leader) if isinstance(leader, Leader) else None
            for at, leader in led.items()
        }

    def epoch_ends(
        self, epochs: Collection[PartitionEpoch]
    ) -> Mapping[PartitionEpoch, EpochEnd | Failure | None]:
        leads = self._client.run(
            lambda network: self._leaders.of(network, {position.at for position in epochs})
        )
        ends: dict[PartitionEpoch, EpochEnd | Failure | None] = {}
        rounds: list[dict[TopicPartition, int]] = []
        """No answer names its question: a request asks about a partition once."""
        for position in epochs:
            leader = leads[position.at]
            if isinstance(leader, Leader) and leader.epoch == position.leader_epoch:
                continue
            into = next((those for those in rounds if position.at not in those), None)
            if into is None:
                rounds.append(into := {})
            into[position.at] = position.leader_epoch
        for wanted in rounds:
            answers = self._look_up(_Query(wanted, _epochs_request, TIMES_PER_REQUEST), _epoch_end)
            ends |= {PartitionEpoch(at, wanted[at]): end for at, end in answers.items()}
        return dict.fromkeys(epochs) | ends

    def _by_time(
        self,
        stamps_ms: record_stamps.Known,
        timestamps_ms: Mapping[TopicPartition, int],
        *,
        in_small_requests: bool = False,
    ) -> by_time.Found:
        """``stamps_ms`` takes the timestamps of the records that are found."""
        query = _query_by_time(timestamps_ms)
        if in_small_requests:
            query = query._replace(per_request=by_time.PARTITIONS_AT_ONCE, in_flight=1)
        answers = self._look_up(query, _record_or_none)
        offsets: by_time.Found = {}
        for at, answer in answers.items():
            offsets[at] = answer.offset if isinstance(answer, _Record) else answer
            if isinstance(answer, _Record):
                stamps_ms[at, answer.offset] = answer.timestamp_ms
        return offsets

    def _first_dated(self, partitions: Collection[TopicPartition]) -> by_time.Found:
        """The first record of each partition that has a timestamp. It is not looked for in remote
        storage."""
        local = [at for at in partitions if not self._tiered.get(at.topic)]
        look_up = partial(self._by_time, {})
        return by_time.offsets_at(dict.fromkeys(local, 0), look_up, self._newest)

    def _fetch(
        self, offsets: Mapping[TopicPartition, int], per_request: int
    ) -> dict[TopicPartition, Any]:
        """The batches from each offset on. Of records in remote storage a request is answered with
        one partition's."""
        remote = {at: offset for at, offset in offsets.items() if self._tiered.get(at.topic)}
        local = {at: offset for at, offset in offsets.items() if at not in remote}
        at_once = by_time.PARTITIONS_AT_ONCE
        return {
            at: records
            for query in (
                _Query(local, record_stamps.fetch_request, per_request),
                _Query(remote, record_stamps.fetch_request, 1, at_once),
            )
            for at, records in self._look_up(query, attrgetter("records")).items()
        }

    def next_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        from retentiond.kafka.offsets.next_records import next_record  # noqa: PLC0415 - seldom used

        request = partial(record_stamps.fetch_request, isolation=IsolationLevel.READ_COMMITTED)
        query = _Query(offsets, request, record_stamps.FETCHES_PER_REQUEST)
        parts = self._look_up(query, _whole)
        return {
            at: part if isinstance(part, Failure) else next_record(at, offsets[at], part)
            for at, part in parts.items()
        }

    def _newest(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, object]:
        times = dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP)
        return self._look_up(_query_by_time(times), attrgetter("timestamp"))

    def _look_up(
        self, query: _Query, read: Callable[[Any], T]
    ) -> dict[TopicPartition, T | Failure]:
        async def ask(network: NetworkClient) -> dict[TopicPartition, T | Failure]:
            led = await self._leaders.of(network, query.wanted)
            told, doubtful = await _ask(network, query, led, read)
            if doubtful:
                await self._leaders.read(network, {partition.topic for partition in doubtful})
                leads_now = await self._leaders.of(network, doubtful)
                again = {
                    at: query.wanted[at]
                    for at in doubtful
                    # Who kept silent for all of a request's time has had its turn.
                    if told[at] is not SILENT_LEADER or leads_now[at] != led[at]
                }
                told |= (await _ask(network, query._replace(wanted=again), leads_now, read))[0]
            return told

        return self._client.run(ask) if query.wanted else {}


class _Record(NamedTuple):
    offset: int
    timestamp_ms: int


class _Query(NamedTuple):
    """``wanted``: a timestamp of each partition, one of Kafka's special values, or a leader epoch;
    ``request`` makes a request of them, by topic."""

    wanted: Mapping[TopicPartition, int]
    request: Callable[..., Any]
    per_request: int
    in_flight: int | None = None  # requests to each leader; None: as many as usual


def _whole(part: Any) -> Any:
    return part


def _query_by_time(times: Mapping[TopicPartition, int]) -> _Query:
    return _Query(times, partial(ListOffsets, IsolationLevel.READ_UNCOMMITTED), TIMES_PER_REQUEST)


async def _ask(
    network: NetworkClient,
    query: _Query,
    led: Mapping[TopicPartition, Leader | Failure],
    read: Callable[[Any], T],
) -> tuple[dict[TopicPartition, T | Failure], list[TopicPartition]]:
    """The answers, and the partitions about which another leader may have a better one."""
    answers: dict[TopicPartition, T | Failure] = dict.fromkeys(query.wanted, NOT_ANSWERED)
    doubtful: list[TopicPartition] = []
    by_node: dict[int, list[tuple[TopicPartition, int]]] = {}
    for at in query.wanted:
        leader = led[at]
        if isinstance(leader, Failure):
            answers[at] = _explained(leader, at)
            doubtful.append(at)
        else:
            by_node.setdefault(leader.node, []).append((at, leader.epoch))
    responses = await network.send_batches(
        by_node, query.per_request, partial(_request, query), query.in_flight
    )
    for batch, response in responses:
        if isinstance(response, Exception):
            partitions = [at for at, _ in batch]
            is_silent = isinstance(response, RequestTimedOutError)
            failure = SILENT_LEADER if is_silent else failure_of_exception(response)
            answers |= dict.fromkeys(partitions, failure)
            doubtful += partitions
            continue
        meant, told = {at for at, _ in batch}, set[TopicPartition]()
        for at, part in _parts(response):
            if at not in meant:
                continue
            if at in told:
                answers[at] = TOLD_TWICE
            elif part.error_code:
                answers[at] = _explained(failure_of_code(part.error_code), at)
                if means(part.error_code) is Means.METADATA:
                    doubtful.append(at)
            else:
                answers[at] = read(part)
            told.add(at)
    return answers, doubtful


def _parts(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """Each partition's answer; the kinds of responses name the same things differently."""
    topics, topic_name, index = "topics", "name", "partition_index"
    if isinstance(response, OffsetForLeaderEpochResponse):
        topic_name, index = "topic", "partition"
    elif isinstance(response, FetchResponse):
        topics, topic_name = "responses", "topic"
    for topic in getattr(response, topics):
        name = getattr(topic, topic_name)
        for part in topic.partitions:
            yield TopicPartition(name, getattr(part, index)), part


def _request(query: _Query, partitions: Sequence[tuple[TopicPartition, int]]) -> Any:
    by_topic: dict[str, list[OffsetQuery]] = {}
    for at, epoch in partitions:
        by_topic.setdefault(at.topic, []).append(OffsetQuery(at.partition, epoch, query.wanted[at]))
    return query.request(by_topic)


def _epochs_request(wanted: Mapping[str, Sequence[OffsetQuery]]) -> Any:
    request = OffsetForLeaderEpochRequest
    return request(
        replica_id=A_CLIENT,
        topics=[
            request.OffsetForLeaderTopic(
                topic=name,
                partitions=[
                    request.OffsetForLeaderTopic.OffsetForLeaderPartition(
                        partition=query.partition,
                        current_leader_epoch=query.leader_epoch,
                        leader_epoch=query.value,
                    )
                    for query in partitions
                ],
            )
            for name, partitions in wanted.items()
        ],
        min_version=EPOCHS_FOR_CLIENTS,
    )


def _explained(failure: Failure, at: TopicPartition) -> Failure:
    return with_topic_grant(failure, at.topic, "Describe")


def _epoch_end(part: Any) -> EpochEnd:
    return EpochEnd(
        None if part.leader_epoch < 0 else part.leader_epoch,
        None if part.end_offset < 0 else part.end_offset,
    )


def _offset(part: Any) -> int | Failure:
    return NO_OFFSET if part.offset < 0 else int(part.offset)


def _record_or_none(part: Any) -> _Record | Failure | None:
    """None: there is no record that young, for which Kafka has one word."""
    if part.offset == NO_OFFSET_AT_TIME:
        return None
    offset = _offset(part)
    return offset if isinstance(offset, Failure) else _Record(offset, part.timestamp)
