"""Makes topics that can be used at once, and reads where they begin."""

from collections.abc import Collection, Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from devkit.embedded.processes import EmbeddedKafkaError
from devkit.waiting import came_true

TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.02


def create_topic(
    admin: AdminClient,
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
) -> None:
    """Return when every partition has a leader that serves, and all its replicas in sync.

    Raises KafkaException when the broker refuses, EmbeddedKafkaError when it takes too long.
    """
    topic = NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        config=dict(config),
    )
    admin.create_topics([topic])[name].result(TIMEOUT_SECONDS)
    if not came_true(
        lambda: _usable(admin, name, partitions, replication_factor), TIMEOUT_SECONDS, POLL_SECONDS
    ):
        raise EmbeddedKafkaError(
            f"Topic {name} is not served {TIMEOUT_SECONDS:g} s after it was created:"
            " see the brokers' logs."
        )


def log_starts(
    admin: AdminClient, partitions: Collection[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """The log start offset of each. Raises KafkaException, TimeoutError."""
    asked = {TopicPartition(*partition): OffsetSpec.earliest() for partition in partitions}
    answers = admin.list_offsets(asked, request_timeout=TIMEOUT_SECONDS / 2)
    found = {
        (at.topic, at.partition): answer.result(TIMEOUT_SECONDS).offset
        for at, answer in answers.items()
    }
    lacking = sorted(each for each, offset in found.items() if offset < 0)
    if lacking:  # a client that does not know the new leader yet
        raise TimeoutError(f"the offsets of {lacking} could not be read")
    return found


def _usable(admin: AdminClient, name: str, partitions: int, replication_factor: int) -> bool:
    """The metadata is whole, and the leaders serve: a broker publishes the one before it does
    the other."""
    found = admin.list_topics(name, timeout=TIMEOUT_SECONDS).topics[name].partitions
    return (
        len(found) == partitions
        and all(len(partition.isrs) == replication_factor for partition in found.values())
        and _leaders_serve(admin, name, partitions)
    )


def _leaders_serve(admin: AdminClient, name: str, partitions: int) -> bool:
    ends = {TopicPartition(name, number): OffsetSpec.latest() for number in range(partitions)}
    try:
        # A look-up can come back without an offset and without an error.
        return all(
            end.result(TIMEOUT_SECONDS).offset >= 0 for end in admin.list_offsets(ends).values()
        )
    except KafkaException:
        return False
