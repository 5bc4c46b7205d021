"""The last record of each key of a topic: what a program that keeps its state in one has said last.

The topic is read once from its beginning, and by later readings from where the one before ended:
compaction lags, and a Connect cluster's offsets topic may have many times as many records as keys.
No group is joined, and nothing is committed.

Invariants: what is returned has been read up to the end that each leader told first (the last
stable offset, so that no transaction up to there is undecided), and records of aborted transactions
are not in it; else it is a `Failure`. Where the topic is another one, its log does not go on
where the last reading ended, or another leader epoch has begun, it is read from scratch: a leader
that was elected uncleanly, or lost its last writes, has other records where those were that were
read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.errors import UnsupportedCodecError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords
from kafka.structs import TopicPartition as PartitionOfClient

from retentiond.clock import seconds_since_boot
from retentiond.kafka import topics
from retentiond.kafka.broker_errors import BrokerError, Means, means_by_name
from retentiond.kafka.client import Client
from retentiond.kafka.interface import KeyedRecord, OffsetBound
from retentiond.kafka.network_client import NetworkClient, failure_of_code, failure_of_exception
from retentiond.kafka.offsets.lookups import Offsets
from retentiond.kafka.offsets.record_stamps import fetch_request
from retentiond.kafka.remedies import with_topic_grant
from retentiond.kafka.topics import Leader, Leaders
from retentiond.kafka.wire.by_hand import OffsetQuery
from retentiond.kafka.wire.codecs import add_codecs, failure_of_codec
from retentiond.model import Failure, TopicPartition

add_codecs()

MOST_SECONDS = 30.0
"""How long one reading may take. The next one goes on where it ended."""

KEPT_FOR_S = 3600.0
"""How long what was read counts, without a look at what came after it: then a tombstone may have
come and gone. Kafka keeps one for delete.retention.ms, a day by default."""

MOST_KEPT_BYTES = 32 * 1024 * 1024
"""How much the last records of all keys may take."""

FETCH_BYTES = 1024 * 1024
"""How much of a partition a request asks for. Each partition has a request of its own, so that an
answer that lacks it says something."""

FETCH_WAIT_MS = 100

MOST_TRIES = 5
"""How often a partition is tried whose leader has moved, or does not answer."""

RETRY_S = 0.2


class LastRecords:
    """Reads the last records of one topic. Thread-safe; one reading at a time."""

    def __init__(self, client: Client, leaders: Leaders, offsets: Offsets, topic: str) -> None:
        self._client = client
        self._leaders = leaders
        self._offsets = offsets
        self._topic = topic
        self._lock = threading.Lock()
        self._forget(None)

    def _forget(self, topic_id: str | None) -> None:
        self._topic_id = topic_id
        self._starts: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._fresh_at_s = seconds_since_boot()
        self._next: dict[TopicPartition, int] = {}
        self._last: dict[tuple[TopicPartition, bytes | None], bytes | None] = {}
        self._kept_bytes = 0

    def read(self) -> Sequence[KeyedRecord] | Failure:
        """Raises `KafkaUnavailable` and `OtherCluster`."""
        give_up_at = time.monotonic() + MOST_SECONDS
        with self._lock:
            failure = self._go_on(give_up_at)
            while failure is LEADER_CHANGED and time.monotonic() < give_up_at:
                failure = self._go_on(give_up_at)
            if failure is not None:
                return failure
            self._fresh_at_s = seconds_since_boot()
            return [
                KeyedRecord(at.partition, key, value) for (at, key), value in self._last.items()
            ]

    def _go_on(self, give_up_at: float) -> Failure | None:
        ends = self._begin()
        return ends if isinstance(ends, Failure) else self._read_to(ends, give_up_at)

    def _begin(self) -> Mapping[TopicPartition, int] | Failure:
        """The end of each partition; where the last reading ended is forgotten if it is void."""
        described = topics.describe_topics(self._client, self._leaders, [self._topic])[self._topic]
        if isinstance(described, Failure):
            return described
        partitions = [TopicPartition(self._topic, number) for number in described.partitions]
        ends = self._offsets.offsets(partitions, OffsetBound.LAST_STABLE)
        starts = self._offsets.offsets(partitions, OffsetBound.LOG_START)
        log_starts: dict[TopicPartition, int] = {}
        log_ends: dict[TopicPartition, int] = {}
        for at in partitions:
            start, end = starts[at], ends[at]
            if isinstance(start, Failure):
                return start
            if isinstance(end, Failure):
                return end
            log_starts[at], log_ends[at] = start, end
        epochs = self._leader_epochs(partitions)
        if isinstance(epochs, Failure):
            return epochs
        goes_on = (
            described.topic_id is not None
            and described.topic_id == self._topic_id
            and self._starts == log_starts
            and self._epochs == epochs
            and seconds_since_boot() - self._fresh_at_s <= KEPT_FOR_S
        )
        if not goes_on or any(
            at not in log_ends or not log_starts[at] <= offset <= log_ends[at]
            for at, offset in self._next.items()
        ):
            self._forget(described.topic_id)
        self._starts = log_starts
        self._epochs = epochs
        for at, start in log_starts.items():
            self._next.setdefault(at, start)
        return log_ends

    def _leader_epochs(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int] | Failure:
        led = self._client.run(lambda network: self._leaders.of(network, partitions))
        epochs: dict[TopicPartition, int] = {}
        for at, leader in led.items():
            if isinstance(leader, Failure):
                return leader
            epochs[at] = leader.epoch
        return epochs

    def _read_to(self, ends: Mapping[TopicPartition, int], give_up_at: float) -> Failure | None:
        """None: all that is below the ends has been read."""
        tries: dict[TopicPartition, int] = {}
        while behind := [at for at, end in ends.items() if self._next[at] < end]:
            if time.monotonic() > give_up_at:
                left = sum(ends[at] - self._next[at] for at in behind)
                return Failure(
                    "NOT_READ_YET",
                    f"{left} offsets of topic {self._topic} are still to be read; the next reading "
                    "goes on from here",
                )
            for at, answer in self._fetch(behind).items():
                failure = self._take(at, answer, ends[at])
                if failure is None:
                    continue
                if failure is LEADER_CHANGED:
                    return failure
                tries[at] = tries.get(at, 0) + 1
                if tries[at] >= MOST_TRIES or means_by_name(failure.code) is Means.STOP:
                    return failure
                self._leaders.forget()
                time.sleep(RETRY_S)
            if self._kept_bytes > MOST_KEPT_BYTES:
                self._forget(None)
                return Failure(
                    "TOO_LARGE",
                    f"the last records of topic {self._topic} have more than {MOST_KEPT_BYTES} "
                    "bytes",
                )
        return None

    def _fetch(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        """Each partition's part of the response, or why there is none."""

        async def ask(network: NetworkClient) -> dict[TopicPartition, Any]:
            led = await self._leaders.of(network, partitions)
            records: dict[TopicPartition, Any] = {
                at: leader for at, leader in led.items() if isinstance(leader, Failure)
            }
            leaders = {at: leader for at, leader in led.items() if isinstance(leader, Leader)}
            if any(leader.epoch != self._epochs[at] for at, leader in leaders.items()):
                return dict.fromkeys(partitions, LEADER_CHANGED)
            answers = await network.send_all(
                [(leader.node, self._request(at, leader)) for at, leader in leaders.items()]
            )
            return records | dict(zip(leaders, map(_part, answers), strict=True))

        return self._client.run(ask)

    def _request(self, at: TopicPartition, leader: Leader) -> Any:
        query = OffsetQuery(at.partition, leader.epoch, self._next[at])
        return fetch_request(
            {at.topic: [query]}, IsolationLevel.READ_COMMITTED, FETCH_WAIT_MS, FETCH_BYTES
        )

    def _take(self, at: TopicPartition, part: Any, end: int) -> Failure | None:
        """Why there is nothing to take, if there should be."""
        if isinstance(part, Failure):
            return part
        if part.error_code:
            return with_topic_grant(failure_of_code(part.error_code), at.topic, "Read")
        if not part.records:
            # Nothing is left of what was there: compaction has taken it.
            if part.last_stable_offset < end:
                return END_NOT_KNOWN
            self._next[at] = end
            return None
        batch = Fetcher.PartitionRecords(
            self._next[at],
            PartitionOfClient(*at),
            MemoryRecords(part.records),
            isolation_level=IsolationLevel.READ_COMMITTED,
            aborted_transactions=part.aborted_transactions,
        )
        try:
            for record in batch.take():
                self._keep(at, record.key, record.value)
        except UnsupportedCodecError as error:
            return failure_of_codec(error)
        if batch.next_fetch_offset <= self._next[at]:
            return NO_RECORDS
        self._next[at] = batch.next_fetch_offset
        return None

    def _keep(self, at: TopicPartition, key: bytes | None, value: bytes | None) -> None:
        before = self._last.get((at, key))
        if (at, key) not in self._last:
            self._kept_bytes += len(key or b"")
        self._kept_bytes += len(value or b"") - len(before or b"")
        self._last[at, key] = value


END_NOT_KNOWN = Failure(
    BrokerError.OFFSET_NOT_AVAILABLE.name, "the partition's leader does not know its end yet"
)

LEADER_CHANGED = Failure(
    BrokerError.FENCED_LEADER_EPOCH.name, "another leader epoch has begun since the reading did"
)

NO_RECORDS = Failure("NOT_ANSWERED", "the leader has sent no record as a whole")

THROTTLED = Failure(
    BrokerError.THROTTLING_QUOTA_EXCEEDED.name, "the broker's quota lets nothing through"
)


def _part(answer: Any) -> Any:
    """What a response says of the one partition that was asked for."""
    if isinstance(answer, Exception):
        return failure_of_exception(answer)
    if answer.error_code:
        return failure_of_code(answer.error_code)
    parts = [part for topic in answer.responses for part in topic.partitions]
    if len(parts) != 1:
        return NO_RECORDS
    if answer.throttle_time_ms and not parts[0].records and not parts[0].error_code:
        return THROTTLED  # which is answered without a record
    return parts[0]
