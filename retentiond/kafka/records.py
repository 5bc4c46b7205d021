"""Topics, offset look-ups and DeleteRecords, through confluent-kafka's AdminClient.

librdkafka's habits that this file knows about: an offset look-up whose leader is dead, or was
when the metadata was last read, answers -1001 without an exception; a moved leader is reported
as not retriable and goes on failing until the metadata is refreshed; futures need a longer
time-out than their request.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka.cimpl import (
    OFFSET_SPEC_EARLIEST,
    OFFSET_SPEC_LATEST,
    OFFSET_SPEC_MAX_TIMESTAMP,
)

from retentiond.errors import KafkaUnavailable
from retentiond.kafka import by_time, deletions, failures
from retentiond.kafka.admin import Admin
from retentiond.kafka.deletions import Target
from retentiond.kafka.grants import with_topic_grant
from retentiond.kafka.librdkafka_offsets import (
    GRACE_S,
    NO_OFFSET,
    list_offsets,
    offset_in,
    timestamp_in,
)
from retentiond.kafka.port import DeleteFailure, OffsetBound, TopicDescription
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.topic_config import INTERNAL_TOPICS
from retentiond.model import Failure, TopicPartition

T = TypeVar("T")

METADATA_TIMEOUT_S = 10.0
"""How long to try to reach any broker: librdkafka goes on trying for all of its time-out."""

HASTE_S = 1.0
"""After that a client that was told no by all brokers gives up; librdkafka itself never would."""

PATIENCE_S = 2.0
"""For brokers that have all refused until then: one of them may just be starting."""

LISTEN_S = 0.1
"""How often it is looked at what librdkafka says of its connections."""

DELETE_TIMEOUT_S = 5.0
"""How long a leader may wait for its followers; a deletion that takes longer is read back."""

SILENT_LEADER = Failure("LEADER_NOT_AVAILABLE", "the partition's leader does not answer")

_BOUNDS: dict[OffsetBound, tuple[int, IsolationLevel]] = {
    OffsetBound.LOG_START: (OFFSET_SPEC_EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetBound.HIGH_WATERMARK: (OFFSET_SPEC_LATEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetBound.LAST_STABLE: (OFFSET_SPEC_LATEST, IsolationLevel.READ_COMMITTED),
}


class RecordsClient:
    """Thread-safe; one long-lived AdminClient. Any call may raise `KafkaUnavailable`."""

    def __init__(self, settings: ClientSettings) -> None:
        """Raises `ConfigError` for a value that librdkafka refuses."""
        self._timeout = settings.request_timeout_s
        self._admin = Admin(settings)

    def explaining(self) -> AbstractContextManager[None]:
        """Puts what librdkafka says of its connections in place of a `KafkaUnavailable` that
        tells less."""
        return self._admin.explaining()

    def topic_names(self) -> frozenset[str]:
        """All visible topics. Asking for them also refreshes librdkafka's leaders."""
        timeout = min(self._timeout, METADATA_TIMEOUT_S)
        with self.explaining():
            try:
                return self._names(min(HASTE_S, timeout))
            except KafkaException as error:
                self._admin.raise_if_final(failures.of_confluent(error))
            try:
                return self._names(min(PATIENCE_S, timeout) if self._admin.is_refused else timeout)
            except KafkaException as error:
                raise self._admin.unavailable(failures.of_confluent(error)) from error

    def _names(self, timeout_s: float) -> frozenset[str]:
        return frozenset(self._admin.client().list_topics(timeout=timeout_s).topics)

    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        if not names:
            return {}
        futures = self._admin.client().describe_topics(
            TopicCollection(list(names)), request_timeout=self._timeout
        )
        return {
            name: self._outcome(future, _description, name, "Describe")
            for name, future in futures.items()
        }

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        value, isolation = _BOUNDS[bound]
        return self._look_up(dict.fromkeys(partitions, value), isolation, _offset)

    def offsets_at(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        return by_time.offsets_at(timestamps_ms, self._by_time, self._newest)

    def _by_time(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | Failure | None]:
        return self._look_up(timestamps_ms, IsolationLevel.READ_UNCOMMITTED, _offset_or_none)

    def _newest(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | BaseException | None]:
        asked = dict.fromkeys(partitions, OFFSET_SPEC_MAX_TIMESTAMP)
        return self._list_offsets(asked, IsolationLevel.READ_UNCOMMITTED, timestamp_in)

    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | DeleteFailure]:
        """Raises ValueError for an offset that isn't positive: -1 would mean "everything"."""
        for partition, cutoff in cutoffs.items():
            if cutoff <= 0:
                raise ValueError(f"refusing to delete {partition} up to {cutoff}")
        return deletions.request(self._admin.client(), cutoffs, DELETE_TIMEOUT_S)

    def delete_up_to(
        self, targets: Mapping[TopicPartition, Target], timeout_s: float
    ) -> Mapping[TopicPartition, int | DeleteFailure]:
        """DeleteRecords as an operator words it: also everything, and offset 0.

        Raises ValueError for a negative offset.
        """
        return deletions.request_targets(self._admin.client(), targets, timeout_s)

    def _look_up(
        self,
        asked: Mapping[TopicPartition, int],
        isolation: IsolationLevel,
        read: Callable[[int], T],
    ) -> dict[TopicPartition, T | Failure]:
        """One look-up, and with fresh leaders a second one where the leader moved or is silent."""
        answers, moved = self._look_up_once(asked, isolation, read)
        if moved:
            # A frozen broker may not tell the leaders; what the others have answered counts.
            with contextlib.suppress(KafkaUnavailable):
                self.topic_names()
            again, _ = self._look_up_once({key: asked[key] for key in moved}, isolation, read)
            answers.update(again)
        return answers

    def _look_up_once(
        self,
        asked: Mapping[TopicPartition, int],
        isolation: IsolationLevel,
        read: Callable[[int], T],
    ) -> tuple[dict[TopicPartition, T | Failure], list[TopicPartition]]:
        """The answers, and the partitions whose leader moved or is silent."""
        answers: dict[TopicPartition, T | Failure] = {}
        moved: list[TopicPartition] = []
        for partition, answer in self._list_offsets(asked, isolation, offset_in).items():
            if isinstance(answer, BaseException):
                failure = failures.of_confluent(answer)
                answers[partition] = with_topic_grant(failure, partition.topic, "Describe")
                if failures.has_moved(answer):
                    moved.append(partition)
            else:
                answers[partition] = found = read(answer)
                if found is SILENT_LEADER:
                    moved.append(partition)
        return answers, moved

    def _list_offsets(
        self,
        asked: Mapping[TopicPartition, int],
        isolation: IsolationLevel,
        read: Callable[[Any], T],
    ) -> dict[TopicPartition, T | BaseException]:
        return list_offsets(self._admin.client(), asked, isolation, self._timeout, read)

    def _outcome(
        self, future: Future[Any], read: Callable[[Any], T], topic: str, operation: str
    ) -> T | Failure:
        """``operation``: the right on the topic that is needed for it."""
        give_up_at = time.monotonic() + self._timeout + GRACE_S
        while not wait_for([future], LISTEN_S).done and time.monotonic() < give_up_at:
            self._admin.raise_if_final("no broker lets this client in")
        try:
            return read(future.result(0))
        except (KafkaException, TimeoutError) as error:
            return with_topic_grant(failures.of_confluent(error), topic, operation)


def _offset(offset: int) -> int | Failure:
    """The offset; librdkafka answers a dead leader with -1001 and no exception."""
    return SILENT_LEADER if offset < 0 else offset


def _offset_or_none(offset: int) -> int | Failure | None:
    return None if offset == NO_OFFSET else _offset(offset)


def _description(described: Any) -> TopicDescription:
    return TopicDescription(
        name=described.name,
        topic_id=_as_kafka_prints_it(described.topic_id),
        is_internal=described.is_internal or described.name in INTERNAL_TOPICS,
        partitions=tuple(sorted(partition.id for partition in described.partitions)),
    )


def _as_kafka_prints_it(topic_id: Any) -> str:
    """librdkafka prints ids in base64's standard alphabet, Kafka in the URL-safe one."""
    return str(topic_id).translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")
