"""Makes a `Layout` on a broker: topics, records and commits."""

from collections.abc import Callable, Iterator

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from kafka import KafkaAdminClient
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from devkit.bench.layouts import RECORDS, Layout
from devkit.embedded import EmbeddedKafka

TIMEOUT_S = 120.0
IN_FLIGHT = 64
TOPICS_AT_A_TIME = 100
POLL_S = 0.05

Committed = Callable[[int, int, int], int]
"""The offset that a group has committed on a topic's partition, all by their numbers."""


def seed(kafka: EmbeddedKafka, layout: Layout) -> None:
    """Returns when every record and every commit is there."""
    names = [layout.topic(number) for number in range(layout.topics)]
    admin = kafka.admin()
    for start in range(0, len(names), TOPICS_AT_A_TIME):
        some = names[start : start + TOPICS_AT_A_TIME]
        for future in admin.create_topics(
            [NewTopic(name, layout.partitions, replication_factor=1) for name in some]
        ).values():
            future.result(TIMEOUT_S)
    for start in range(0, len(names), TOPICS_AT_ONCE):
        _produce(kafka.bootstrap_servers, layout, names[start : start + TOPICS_AT_ONCE])
    commit(kafka.bootstrap_servers, layout, layout.committed)


TOPICS_AT_ONCE = 50
"""A producer looks through all partitions that it has ever written to, whenever it sends."""


def _produce(servers: str, layout: Layout, names: list[str]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    for name in names:
        for partition in range(layout.partitions):
            for _ in range(RECORDS):
                producer.produce(name, b"x", partition=partition)
        producer.poll(0)
    if producer.flush(TIMEOUT_S):
        raise TimeoutError(f"the broker took longer than {TIMEOUT_S:g} s for the records")


def commit(servers: str, layout: Layout, committed: Committed) -> None:
    """One OffsetCommit a group, as a consumer without a member sends it."""
    admin = KafkaAdminClient(
        bootstrap_servers=servers, max_in_flight_requests_per_connection=2 * IN_FLIGHT
    )
    manager = admin._manager
    left = {layout.group(number): number for number in range(layout.groups)}

    async def commit() -> None:
        while left:  # the first look-up makes __consumer_offsets, which then needs its leaders
            lookup = FindCoordinatorRequest(
                key_type=CoordinatorType.GROUP.value, coordinator_keys=list(left), min_version=4
            )
            answer = await manager.send(lookup)
            nodes = {row.key: row.node_id for row in answer.coordinators if not row.error_code}
            for names in _windows([name for name in left if name in nodes]):
                sent = [
                    (
                        name,
                        manager.send(_request(layout, left[name], committed), node_id=nodes[name]),
                    )
                    for name in names
                ]
                for name, future in sent:
                    answer = await future
                    if not any(row.error_code for t in answer.topics for row in t.partitions):
                        del left[name]
            if left:
                await manager._net.sleep(POLL_S)

    try:
        manager.run(commit)
    finally:
        admin.close()


def _windows(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), IN_FLIGHT):
        yield names[start : start + IN_FLIGHT]


def _request(layout: Layout, group: int, committed: Committed) -> OffsetCommitRequest:
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_type = topic_type.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=layout.group(group),
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[
            topic_type(
                name=layout.topic(topic),
                partitions=[
                    partition_type(
                        partition_index=partition,
                        committed_offset=committed(group, topic, partition),
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    )
                    for partition in range(layout.partitions)
                ],
            )
            for topic in layout.topics_of(group)
        ],
        max_version=9,
    )
