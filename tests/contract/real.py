"""Drives a real broker, with clients of every make.

Commits are never seeded through librdkafka: the metadata that other clients leave beside an
offset are what breaks its reading of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import kafka.errors as kp_errors
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import NewTopic
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

from devkit.embedded import EmbeddedKafka
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.interface import OffsetBound
from retentiond.kafka.settings.properties import translate
from retentiond.model import GroupKind, TopicPartition
from tests.support.releases import OLDEST
from tests.support.waiting import eventually

METADATA = "bytes that only the committer understands: \N{SNOWMAN}"

TIMEOUT_S = 30.0


def connect(bootstrap_servers: str, **properties: str) -> KafkaCluster:
    """The interface as the product makes it; underscores in ``properties`` stand for dots."""
    named = {name.replace("_", "."): value for name, value in properties.items()}
    settings = translate({"bootstrap.servers": bootstrap_servers, **named})
    return KafkaCluster(settings, lambda *_: None)


class RealTransaction:
    """Its end shows once the coordinator has written the marker, a moment after the answer."""

    def __init__(self, kafka: KafkaCluster, producer: Producer, topic: str) -> None:
        self._kafka = kafka
        self._producer = producer
        self._at = TopicPartition(topic, 0)
        self._end = self._offset(OffsetBound.HIGH_WATERMARK)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)
        self._await_marker()

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)
        self._await_marker()

    def _await_marker(self) -> None:
        eventually(lambda: self._offset(OffsetBound.LAST_STABLE), lambda stable: stable > self._end)

    def _offset(self, bound: OffsetBound) -> int:
        offset = self._kafka.offsets([self._at], bound)[self._at]
        assert isinstance(offset, int)
        return offset


class RealDriver:
    """One set of clients for a whole session; close it before its broker.

    ``servers`` are the broker's for clients, unless those ask for credentials.
    """

    def __init__(self, broker: EmbeddedKafka, servers: str | None = None) -> None:
        self.broker = broker
        self.tells_time = self.tells_local_starts = broker.version != OLDEST.version
        self._servers = servers or broker.bootstrap_servers
        self.kafka = connect(self._servers)
        self._admin = broker.admin()
        self._python_admin = KafkaAdminClient(bootstrap_servers=self._servers)
        self._producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "linger.ms": 0,
                "enable.idempotence": True,  # a retry adds no record
                "log_level": 0,
            }
        )

    def close(self) -> None:
        self._python_admin.close()
        self.kafka.close()

    @property
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        self.broker.create_topic(name, partitions, config)

    def filled_topic(
        self,
        name: str,
        committed: Mapping[str, int] | None = None,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> str:
        """A topic with ten records of now in each partition, of which each of those groups has
        read so many."""
        self.create_topic(name, partitions, config)
        for partition in range(partitions):
            self.produce(name, [self.now_ms] * 10, partition)
        for group, offset in (committed or {}).items():
            self.commit(group, {(name, partition): offset for partition in range(partitions)})
        return name

    def delete_topic(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(TIMEOUT_S)
        eventually(lambda: self._can_be_created(name))

    def _can_be_created(self, name: str) -> bool:
        """With a ZooKeeper a topic has gone from the metadata before it can be made again."""
        asked = self._admin.create_topics([NewTopic(name, 1)], validate_only=True)
        try:
            asked[name].result(TIMEOUT_S)
        except KafkaException:
            return False
        return True

    def produce(
        self,
        topic: str,
        timestamps_ms: Sequence[int],
        partition: int = 0,
        value: bytes = b"value",
    ) -> None:
        for timestamp_ms in timestamps_ms:
            self._producer.produce(
                topic, value, b"key", partition=partition, timestamp=timestamp_ms
            )
            unsent = self._producer.flush(TIMEOUT_S)  # so each record is a batch of its own
            if unsent:
                raise AssertionError(f"{unsent} records for {topic} were not acknowledged")

    def begin(self, topic: str, count: int) -> RealTransaction:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "transactional.id": f"on-{topic}",
                "log_level": 0,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic, b"undecided", b"key", partition=0)
        producer.flush(TIMEOUT_S)
        return RealTransaction(self.kafka, producer, topic)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        wanted = {
            PythonPartition(*at): OffsetAndMetadata(offset, METADATA, -1)
            for at, offset in offsets.items()
        }

        def refusals() -> list[object]:
            try:
                answers = self._python_admin.alter_group_offsets(group, wanted)
            except kp_errors.RetriableError as error:
                return [error]
            return [error for error in answers.values() if error is not kp_errors.NoError]

        # A coordinator that has just been elected, or is yet to be, refuses for a moment.
        eventually(refusals, lambda refused: not refused)

    @contextmanager
    def subscribed(
        self, group: str, kind: GroupKind, topics: Sequence[str] = (), pattern: str | None = None
    ) -> Iterator[None]:
        if kind is GroupKind.SHARE:
            with self._sharing(group, topics):
                yield
            return
        join = _join_classic if kind is GroupKind.CLASSIC else _join_consumer
        consumer = join(self._servers, group, topics, pattern)
        try:
            yield
        finally:
            consumer.close()

    @contextmanager
    def _sharing(self, group: str, topics: Sequence[str]) -> Iterator[None]:
        with share_consumer(self._servers, group) as consumer:
            consumer.subscribe([*topics])

            def state() -> str | None:
                consumer.poll(0.05)
                return self._state(group)

            eventually(state, lambda found: found == "Stable")
            yield
        eventually(lambda: self._state(group), lambda found: found == "Empty")

    def _state(self, group: str) -> str | None:
        states = {each.group_id: each.state for each in self.kafka.list_groups()}
        return states.get(group)

    @contextmanager
    def assigned(self, group: str, topic: str) -> Iterator[None]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._servers, group_id=group, enable_auto_commit=False
        )
        try:
            at = PythonPartition(topic, 0)
            consumer.assign([at])
            consumer.commit({at: OffsetAndMetadata(1, METADATA, -1)})
            yield
        finally:
            consumer.close()

    def delete_group(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)


@contextmanager
def share_consumer(servers: str, group: str) -> Iterator[ShareConsumer]:
    """A member of a share group; what it was given is acknowledged at its next poll."""
    config = {"bootstrap.servers": servers, "group.id": group, "log_level": 0}
    consumer = ShareConsumer(config)
    try:
        yield consumer
    finally:
        consumer.close()


def _join_classic(
    servers: str, group: str, topics: Sequence[str], pattern: str | None
) -> KafkaConsumer:
    consumer = KafkaConsumer(
        bootstrap_servers=servers, group_id=group, enable_auto_commit=False, client_id=group
    )
    consumer.subscribe(topics=list(topics) or None, pattern=pattern)
    for topic in topics:  # its own poll joins before it has read the metadata, and gets nothing
        consumer.partitions_for_topic(topic)
    eventually(lambda: consumer.poll(timeout_ms=50) or consumer.assignment())
    return consumer


def _join_consumer(
    servers: str, group: str, topics: Sequence[str], pattern: str | None
) -> Consumer:
    """KIP-848; librdkafka takes a leading ^ for a regular expression."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([*topics] if pattern is None else [*topics, pattern])
    eventually(lambda: consumer.poll(0.05) or consumer.assignment())
    return consumer
