"""What the demo asks of the broker itself."""

from collections.abc import Iterable

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from devkit.demo.scenario import TOPIC_CONFIG, Topic
from devkit.embedded.topics import create_topic

ANSWER_SECONDS = 10


class Broker:
    """Makes topics and reads where they begin. Raises KafkaException, TimeoutError."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create(self, topic: Topic) -> None:
        """Return when it can be used."""
        create_topic(self._admin, topic.name, topic.partitions, 1, TOPIC_CONFIG)

    def log_starts(self, topics: Iterable[Topic]) -> dict[tuple[str, int], int]:
        """The log start offset of every partition."""
        asked = {
            TopicPartition(topic.name, number): OffsetSpec.earliest()
            for topic in topics
            for number in range(topic.partitions)
        }
        answers = self._admin.list_offsets(asked, request_timeout=ANSWER_SECONDS)
        return {
            (partition.topic, partition.partition): answer.result(2 * ANSWER_SECONDS).offset
            for partition, answer in answers.items()
        }
