"""The same requests, straight through the two clients with nothing around them.

No order is kept, nothing waits, nothing is checked, and no answer is kept either: it is the
least that a gather through these clients can take.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from kafka import KafkaAdminClient
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from devkit.bench.layouts import Layout

TIMEOUT_S = 300.0
GROUPS_PER_REQUEST = 50

PARTITIONS_PER_REQUEST = 500
"""What librdkafka is fastest with."""


class BareClients:
    """Both clients, connected."""

    def __init__(self, servers: str) -> None:
        self._records = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._groups = KafkaAdminClient(
            bootstrap_servers=servers,
            max_in_flight_requests_per_connection=64,
            request_timeout_ms=int(TIMEOUT_S * 1000),
        )
        self._executor = ThreadPoolExecutor(6)

    def close(self) -> None:
        self._executor.shutdown()
        self._groups.close()

    def read(self, layout: Layout, since_ms: int) -> None:
        """Everything that a cycle asks for."""
        names = [layout.topic(number) for number in range(layout.topics)]
        groups = self._executor.submit(self._read_groups)
        topics = [
            self._executor.submit(call, names) for call in (self._describe, self._read_configs)
        ]
        self._records.list_topics(timeout=TIMEOUT_S)
        committed, uncommitted = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
        looks = [
            self._executor.submit(self._look_up, layout, spec, isolation)
            for spec, isolation in (
                (OffsetSpec.earliest(), uncommitted),
                (OffsetSpec.latest(), uncommitted),
                (OffsetSpec.latest(), committed),
                (OffsetSpec.for_timestamp(since_ms), uncommitted),
            )
        ]
        for future in (groups, *topics, *looks):
            future.result(TIMEOUT_S)

    def delete(self, partitions: Collection[TopicPartition]) -> int:
        """DeleteRecords; how many partitions the broker did it for."""
        futures = self._records.delete_records(list(partitions))
        return sum(future.result(TIMEOUT_S).low_watermark > 0 for future in futures.values())

    def _describe(self, names: list[str]) -> None:
        for future in self._records.describe_topics(TopicCollection(names)).values():
            future.result(TIMEOUT_S)

    def _read_configs(self, names: list[str]) -> None:
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        for future in self._records.describe_configs(resources).values():
            future.result(TIMEOUT_S)

    def _look_up(self, layout: Layout, spec: OffsetSpec, isolation: IsolationLevel) -> None:
        partitions = [
            TopicPartition(layout.topic(topic), partition)
            for topic in range(layout.topics)
            for partition in range(layout.partitions)
        ]
        for start in range(0, len(partitions), PARTITIONS_PER_REQUEST):
            asked = dict.fromkeys(partitions[start : start + PARTITIONS_PER_REQUEST], spec)
            for future in self._records.list_offsets(asked, isolation_level=isolation).values():
                future.result(TIMEOUT_S)

    def _read_groups(self) -> None:
        manager = self._groups._manager

        async def read() -> None:
            topic = MetadataRequest.MetadataRequestTopic(name="__consumer_offsets")
            state = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
            for _ in range(2):  # before the listing and after it
                await manager.send(state)
                await self._groups._describe_cluster()
            listed = await manager.send(ListGroupsRequest())
            names = [group.group_id for group in listed.groups]
            lookup = FindCoordinatorRequest(
                key_type=CoordinatorType.GROUP.value, coordinator_keys=names, min_version=4
            )
            nodes = {row.key: row.node_id for row in (await manager.send(lookup)).coordinators}
            batches = [
                names[start : start + GROUPS_PER_REQUEST]
                for start in range(0, len(names), GROUPS_PER_REQUEST)
            ]
            sent = [manager.send(_fetch(batch), node_id=nodes[batch[0]]) for batch in batches]
            for future in sent:
                await future

        manager.run(read)


def _fetch(names: Collection[str]) -> Any:
    asked = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names
    ]
    return OffsetFetchRequest(groups=asked, min_version=8, max_version=8)
