"""Makes a `Layout` on a broker: topics, records and commits."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from kafka import KafkaAdminClient
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from devkit.bench.commits import PARTITIONS_AT_A_TIME, Offsets, requests
from devkit.bench.layouts import RECORDS, Integers, Layout
from devkit.embedded import EmbeddedKafka

TIMEOUT_S = 600.0
IN_FLIGHT = 64
TOPICS_AT_A_TIME = 100
POLL_S = 0.05

Committed = Callable[[int, int, Integers], Integers | int]
"""The offsets that a group has committed on a topic's partitions, all by their numbers."""


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


def commit(
    servers: str, layout: Layout, committed: Committed, groups: Iterable[int] | None = None
) -> None:
    """The commits of all groups, or of some, as consumers without a member send them."""
    admin = KafkaAdminClient(
        bootstrap_servers=servers, max_in_flight_requests_per_connection=2 * IN_FLIGHT
    )
    manager = admin._manager
    numbers = range(layout.groups) if groups is None else groups
    left = {layout.group(number): number for number in numbers}

    async def commit() -> None:
        while left:  # the first look-up makes __consumer_offsets, which then needs its leaders
            lookup = FindCoordinatorRequest(
                key_type=CoordinatorType.GROUP.value, coordinator_keys=list(left), min_version=4
            )
            answer = await manager.send(lookup)
            nodes = {row.key: row.node_id for row in answer.coordinators if not row.error_code}
            for names in _windows([name for name in left if name in nodes], layout):
                sent = [
                    (name, [manager.send(each, node_id=nodes[name]) for each in requests(name, of)])
                    for name in names
                    for of in [_offsets(layout, left[name], committed)]
                ]
                for name, futures in sent:
                    if all([(await future).is_done for future in futures]):
                        del left[name]
            if left:
                await manager._net.sleep(POLL_S)

    try:
        manager.run(commit)
    finally:
        admin.close()


def _windows(names: list[str], layout: Layout) -> Iterator[list[str]]:
    commits_each = layout.topics_each * layout.partitions
    size = max(1, IN_FLIGHT // (1 + commits_each // PARTITIONS_AT_A_TIME))
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _offsets(layout: Layout, group: int, committed: Committed) -> Offsets:
    partitions = np.arange(layout.partitions)
    return {
        layout.topic(topic): np.broadcast_to(committed(group, topic, partitions), layout.partitions)
        for topic in layout.topics_of(group)
    }
