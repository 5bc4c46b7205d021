"""Three brokers, of which any one may be missing."""

import time
from collections.abc import Collection

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from devkit.embedded import EmbeddedKafka, Node, tools
from devkit.ledger.scenario import TOPIC_CONFIG, Group, Partition, Topic

ANSWER_SECONDS = 15.0
POLL_SECONDS = 0.2


class Cluster:
    """Raises KafkaException, TimeoutError."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers

    @property
    def nodes(self) -> list[Node]:
        return self.kafka.nodes

    def make_topic(self, topic: Topic) -> None:
        self.kafka.create_topic(topic.name, topic.partitions, TOPIC_CONFIG)

    def make_share_group(self, group: Group) -> None:
        """It begins at the log start; Kafka's default is the end."""
        entry = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.GROUP, group.name, incremental_configs=[entry])
        admin = self._admin()  # by a name of its own: without it the client ends, unanswered
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result(ANSWER_SECONDS)

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        admin = self._admin()
        asked = {TopicPartition(*partition): OffsetSpec.earliest() for partition in partitions}
        answers = admin.list_offsets(asked, request_timeout=ANSWER_SECONDS)
        found = {
            (at.topic, at.partition): answer.result(2 * ANSWER_SECONDS).offset
            for at, answer in answers.items()
        }
        lacking = sorted(each for each, offset in found.items() if offset < 0)
        if lacking:  # a client that does not know the new leader yet
            raise TimeoutError(f"the offsets of {lacking} could not be read")
        return found

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
        deadline = time.monotonic() + timeout_seconds
        while not self._in_sync():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _in_sync(self) -> bool:
        try:
            found = self._admin().list_topics(timeout=ANSWER_SECONDS)
        except KafkaException:
            return False
        return len(found.brokers) == len(self.nodes) and all(
            partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
            for topic in found.topics.values()
            for partition in topic.partitions.values()
        )

    def _admin(self) -> AdminClient:
        return self.kafka.admin()
