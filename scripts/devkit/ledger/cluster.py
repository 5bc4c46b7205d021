"""A cluster, of which any one broker may be missing, and what is done to it by hand."""

import ctypes
import errno
import os
import socket
import time

import psutil
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    TopicDescription,
)

from devkit.embedded import EmbeddedKafka, tools
from devkit.ledger.scenario import TIERED_CONFIG, TOPIC_CONFIG, TOPICS, Group, Partition, Topic
from devkit.waiting import came_true

ANSWER_SECONDS = 15.0
POLL_SECONDS = 0.02
PIDFD_GETFD = 438  # the same number on every architecture; Linux 5.6


class Cluster:
    """Raises KafkaException, TimeoutError."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka

    def make_topic(self, topic: Topic) -> str:
        """Its id, as Kafka writes it."""
        config = {**TOPIC_CONFIG, **(TIERED_CONFIG if topic.tiered else {})}
        self.kafka.create_topic(topic.name, topic.partitions, config)
        topic_id = str(self._described(topic).topic_id)
        return topic_id.replace("+", "-").replace("/", "_")  # librdkafka writes plain base64

    def _described(self, topic: Topic) -> TopicDescription:
        """A broker that is asked may not know a new topic yet."""
        admin = self.kafka.admin()
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            asked = admin.describe_topics(TopicCollection([topic.name]))[topic.name]
            try:
                description: TopicDescription = asked.result(ANSWER_SECONDS)
            except KafkaException as exc:
                is_new = exc.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                if not is_new or time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return description

    def remote_segments(self) -> set[str]:
        """The segments of all topics in remote storage; their names are their own."""
        return {
            each
            for topic in TOPICS
            if topic.tiered
            for each in self.kafka.remote_segments(topic.name)
        }

    def remove_topic(self, topic: Topic) -> None:
        """Return when no broker has it any longer that answers."""
        admin = self.kafka.admin()
        admin.delete_topics([topic.name])[topic.name].result(ANSWER_SECONDS)
        if not came_true(
            lambda: topic.name not in admin.list_topics(timeout=ANSWER_SECONDS).topics,
            ANSWER_SECONDS,
            POLL_SECONDS,
        ):
            raise TimeoutError(f"{topic.name} was deleted and is still there")

    def remove_group(self, name: str) -> None:
        """As an operator does whose reader will not come back; it must have no members."""
        admin = self.kafka.admin()
        try:
            admin.delete_consumer_groups([name])[name].result(ANSWER_SECONDS)
        except KafkaException as exc:
            if exc.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise

    def make_share_group(self, group: Group) -> None:
        """It begins at the log start; Kafka's default is the end."""
        entry = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.GROUP, group.name, incremental_configs=[entry])
        admin = self.kafka.admin()  # by a name of its own: without it the client ends, unanswered
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result(ANSWER_SECONDS)

    def share_starts(self, group: Group) -> dict[Partition, int]:
        """The first offset of each share-partition that is not done with, by Kafka's own tool."""
        done = tools.run(
            self.kafka.version,
            "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
            *("--bootstrap-server", self.kafka.internal_servers),
            *("--describe", "--offsets", "--group", group.name),
        )
        rows = [line.split() for line in done.stdout.splitlines()]
        heading = next(row for row in rows if "START-OFFSET" in row)
        columns = [heading.index(name) for name in ("TOPIC", "PARTITION", "START-OFFSET")]
        found = [[row[column] for column in columns] for row in rows if row[:1] == [group.name]]
        return {(topic, int(number)): int(start) for topic, number, start in found}

    def await_in_sync(self, timeout_seconds: float) -> bool:
        """Whether each partition, also of the internal topics, got all its replicas in sync."""
        return came_true(self._in_sync, timeout_seconds)

    def _in_sync(self) -> bool:
        try:
            found = self.kafka.admin().list_topics(timeout=ANSWER_SECONDS)
        except KafkaException:
            return False
        return len(found.brokers) == len(self.kafka.nodes) and all(
            partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
            for topic in found.topics.values()
            for partition in topic.partitions.values()
        )


def cut_connections(pid: int) -> int:
    """Cuts the TCP connections of another process, which goes on: whatever was on its way is lost.

    How many were cut; both ends are told that the other has hung up. Raises OSError where the
    kernel does not let us: the process has to be a child or our own.
    """
    cut = 0
    process = os.pidfd_open(pid)
    try:
        for connection in psutil.Process(pid).net_connections("tcp"):
            if connection.status == psutil.CONN_ESTABLISHED:
                cut += _shut_down(process, connection.fd)
    finally:
        os.close(process)
    return cut


def _shut_down(process: int, descriptor: int) -> bool:
    """False: it has ended meanwhile."""
    kernel = ctypes.CDLL(None, use_errno=True)
    copy = kernel.syscall(PIDFD_GETFD, process, descriptor, 0)
    if copy < 0:
        number = ctypes.get_errno()
        if number == errno.EBADF:
            return False
        raise OSError(number, os.strerror(number))
    with socket.socket(fileno=copy) as connection:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False
    return True
