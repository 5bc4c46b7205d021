"""What the brokers of `devkit.bench.stand_in` answer: a healthy cluster without ACLs, as a layout
says. kafka-python encodes most responses; those about commits and offsets are laid out here."""

import struct
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeQuorumResponse,
    ListGroupsResponse,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import ListOffsetsResponse, OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from devkit.bench.layouts import RECORDS, Layout
from devkit.embedded.ports import LOOPBACK
from retentiond.kafka.interface import OFFSETS_TOPIC
from retentiond.kafka.wire.by_hand import NO_TAGS, Reader, length_of, text_of

CLUSTER_ID = "stand-in-of-many-brokers"
REPLICAS = 3
COORDINATORS = 50
"""Partitions of ``__consumer_offsets``, as many as Kafka makes."""

EPOCH = 0
RECORDS_AGE_MS = 3_600_000
EVERYTHING = frozenset(range(3, 13))
"""The operations of an ACL, as a cluster without an authorizer allows all."""

SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "file.delete.delay.ms": "60000",
    "remote.storage.enable": "false",
}
"""A topic's; a broker shows those of its own that have the same name."""

SPOKEN: Mapping[int, tuple[Any, int]] = {
    response.API_KEY: (response, highest)
    for response, highest in (
        (MetadataResponse, 12),
        (DescribeClusterResponse, 2),
        (DescribeConfigsResponse, 4),
        (DescribeLogDirsResponse, 4),
        (DescribeQuorumResponse, 2),
        (FindCoordinatorResponse, 4),
        (ListGroupsResponse, 5),
        (ListOffsetsResponse, 8),
        (OffsetFetchResponse, 8),
        (ApiVersionsResponse, 4),
    )
}
"""The response to each request, and the highest version of it, as a 4.x broker's."""

LARGEST_TIME = -3

OFFSETS = {-2: 0, -1: RECORDS, LARGEST_TIME: RECORDS - 1, -4: 0}
"""By what ListOffsets asks for: log start, high watermark, largest timestamp, local log start.
Whatever time is asked about, a record at the end has just become young: so no record is looked at,
as on a partition that is written to all the time."""

LIST_OFFSETS_HEAD = 5
"""Before its topics a request names a replica and the isolation."""

A_TIME = struct.pack(">q", 0)

_ASKED = np.dtype([("partition", ">i4"), ("epoch", ">i4"), ("value", ">i8"), ("tags", "u1")])
_TOLD = np.dtype(
    [
        ("partition", ">i4"),
        ("error_code", ">i2"),
        ("timestamp", ">i8"),
        ("offset", ">i8"),
        ("leader_epoch", ">i4"),
        ("tags", "u1"),
    ]
)
_COMMIT = np.dtype(
    [
        ("partition", ">i4"),
        ("offset", ">i8"),
        ("leader_epoch", ">i4"),
        ("metadata", "u1"),
        ("error_code", ">i2"),
        ("tags", "u1"),
    ]
)

NO_METADATA = 1
"""The length of an empty text."""

END = bytes([NO_TAGS])


class Answers:
    """The answers. ``ports``: of the brokers, by their ids."""

    def __init__(self, layout: Layout, ports: Mapping[int, int]) -> None:
        self._layout = layout
        self._ports = ports
        self.requests: Counter[str] = Counter()
        self._newest_ms = int(time.time() * 1000) - RECORDS_AGE_MS
        self._topics = {name: self._topic(name, number) for number, name in self._names()}
        self._commits = {
            layout.group(group): self._commits_of(group) for group in range(layout.groups)
        }
        self._bounds = lru_cache(maxsize=4096)(self._bounds_of)
        self._unchanged = lru_cache(maxsize=4096)(self._encoded)
        self._by_hand: Mapping[int, Callable[[int, bytes], bytes]] = {
            ListOffsetsResponse.API_KEY: self._offsets,
            OffsetFetchResponse.API_KEY: self._fetched,
        }
        self._responses: Mapping[int, Callable[[int, int, bytes], Any]] = {
            ApiVersionsResponse.API_KEY: self._api_versions,
            MetadataResponse.API_KEY: self._metadata,
            DescribeClusterResponse.API_KEY: self._cluster,
            DescribeConfigsResponse.API_KEY: self._configs,
            DescribeLogDirsResponse.API_KEY: self._log_dirs,
            DescribeQuorumResponse.API_KEY: self._quorum,
            FindCoordinatorResponse.API_KEY: self._coordinators,
            ListGroupsResponse.API_KEY: self._groups,
        }

    def answer(self, broker: int, request: bytes) -> bytes:
        """The response to a request, both with their headers. Raises ValueError for one that is
        not known here."""
        key, version, correlation_id, client_size = struct.unpack_from(">hhih", request)
        name = ApiKey(key).name
        response, highest = SPOKEN.get(key, (None, -1))
        if version > highest:
            raise ValueError(f"{name} of version {version}")
        self.requests[name] += 1
        is_flexible = response.flexible_version_q(version)
        body = request[10 + max(0, client_size) + is_flexible :]
        head = struct.pack(">i", correlation_id)
        if is_flexible and response is not ApiVersionsResponse:
            head += END
        if key in self._by_hand:
            return head + self._by_hand[key](version, body)
        has_the_time = response is DescribeQuorumResponse
        encoded = self._encoded if has_the_time else self._unchanged
        return head + encoded(key, broker, version, body)

    def _encoded(self, key: int, broker: int, version: int, body: bytes) -> bytes:
        encoded: bytes = self._responses[key](broker, version, body).encode(version=version)
        return encoded

    def _names(self) -> Iterator[tuple[int, str]]:
        for number in range(self._layout.topics):
            yield number, self._layout.topic(number)
        yield 0, OFFSETS_TOPIC

    def _replicas(self, number: int, partition: int) -> list[int]:
        """The leader first."""
        first = number * self._layout.partitions + partition
        return [(first + replica) % len(self._ports) for replica in range(REPLICAS)]

    def _topic(self, name: str, number: int) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        partitions = COORDINATORS if name == OFFSETS_TOPIC else self._layout.partitions
        described = []
        for partition in range(partitions):
            replicas = self._replicas(number, partition)
            described.append(
                topic.MetadataResponsePartition(
                    error_code=0,
                    partition_index=partition,
                    leader_id=replicas[0],
                    leader_epoch=EPOCH,
                    replica_nodes=replicas,
                    isr_nodes=replicas,
                    offline_replicas=[],
                )
            )
        return topic(
            error_code=0,
            name=name,
            topic_id=uuid.uuid5(uuid.NAMESPACE_OID, name),
            is_internal=name == OFFSETS_TOPIC,
            partitions=described,
            authorized_operations=EVERYTHING,
        )

    def _api_versions(self, _broker: int, _version: int, _body: bytes) -> Any:
        key = ApiVersionsResponse.ApiVersion
        return ApiVersionsResponse(
            error_code=0,
            api_keys=[
                key(api_key=api, min_version=0, max_version=highest)
                for api, (_, highest) in SPOKEN.items()
            ],
        )

    def _metadata(self, _broker: int, version: int, body: bytes) -> Any:
        asked = MetadataRequest.decode(body, version=version).topics
        names = self._topics if asked is None else [each.name for each in asked]
        broker = MetadataResponse.MetadataResponseBroker
        return MetadataResponse(
            brokers=[
                broker(node_id=node, host=LOOPBACK, port=port) for node, port in self._ports.items()
            ],
            cluster_id=CLUSTER_ID,
            controller_id=0,
            topics=[self._topics[name] for name in names],
            authorized_operations=EVERYTHING,
        )

    def _cluster(self, _broker: int, _version: int, _body: bytes) -> Any:
        broker = DescribeClusterResponse.DescribeClusterBroker
        return DescribeClusterResponse(
            cluster_id=CLUSTER_ID,
            controller_id=0,
            brokers=[
                broker(broker_id=node, host=LOOPBACK, port=port, is_fenced=False)
                for node, port in self._ports.items()
            ],
            authorized_operations=EVERYTHING,
        )

    def _configs(self, _broker: int, version: int, body: bytes) -> Any:
        result = DescribeConfigsResponse.DescribeConfigsResult
        setting = result.DescribeConfigsResourceResult
        return DescribeConfigsResponse(
            results=[
                result(
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[
                        setting(name=key, value=SETTINGS[key], synonyms=[])
                        for key in each.configuration_keys or SETTINGS
                        if key in SETTINGS
                    ],
                )
                for each in DescribeConfigsRequest.decode(body, version=version).resources
            ]
        )

    def _log_dirs(self, broker: int, _version: int, _body: bytes) -> Any:
        result = DescribeLogDirsResponse.DescribeLogDirsResult
        topic = result.DescribeLogDirsTopic
        topics = []
        for name, described in self._topics.items():
            partitions = [
                topic.DescribeLogDirsPartition(
                    partition_index=each.partition_index,
                    partition_size=RECORDS * 1000,
                    offset_lag=0,
                    is_future_key=False,
                )
                for each in described.partitions
                if broker in each.replica_nodes
            ]
            if partitions:
                topics.append(topic(name=name, partitions=partitions))
        directory = result(
            log_dir="/data", topics=topics, total_bytes=10**12, usable_bytes=5 * 10**11
        )
        return DescribeLogDirsResponse(results=[directory])

    def _quorum(self, _broker: int, _version: int, _body: bytes) -> Any:
        topic = DescribeQuorumResponse.TopicData
        now_ms = int(time.time() * 1000)
        leader = topic.PartitionData.ReplicaState(
            replica_id=0, log_end_offset=1, last_fetch_timestamp=now_ms
        )
        partition = topic.PartitionData(leader_id=0, current_voters=[leader], observers=[])
        return DescribeQuorumResponse(
            topics=[topic(topic_name="__cluster_metadata", partitions=[partition])], nodes=[]
        )

    def _groups(self, broker: int, _version: int, _body: bytes) -> Any:
        listed = ListGroupsResponse.ListedGroup
        return ListGroupsResponse(
            groups=[
                listed(
                    group_id=self._layout.group(group),
                    protocol_type="",
                    group_state="Empty",
                    group_type="classic",
                )
                for group in range(self._layout.groups)
                if self._coordinator(group) == broker
            ]
        )

    def _coordinators(self, _broker: int, version: int, body: bytes) -> Any:
        numbers = {self._layout.group(group): group for group in range(self._layout.groups)}
        found = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            coordinators=[
                found(
                    key=name,
                    node_id=node,
                    host=LOOPBACK,
                    port=self._ports[node],
                    error_code=0,
                    error_message=None,
                )
                for name in FindCoordinatorRequest.decode(body, version=version).coordinator_keys
                for node in [self._coordinator(numbers[name])]
            ]
        )

    def _coordinator(self, group: int) -> int:
        """One of those that lead a partition of ``__consumer_offsets``."""
        return group % min(COORDINATORS, len(self._ports))

    def _commits_of(self, group: int) -> bytes:
        """All of a group's, as OffsetFetch tells them."""
        layout, partitions = self._layout, np.arange(self._layout.partitions)
        topics = list(layout.topics_of(group))
        parts = [text_of(layout.group(group)), length_of(len(topics))]
        for topic in topics:
            commits = np.zeros(layout.partitions, _COMMIT)
            commits["partition"] = partitions
            commits["offset"] = layout.committed(group, topic, partitions)
            commits["leader_epoch"] = EPOCH
            commits["metadata"] = NO_METADATA
            parts += (text_of(layout.topic(topic)), length_of(layout.partitions))
            parts += (commits.tobytes(), END)
        return b"".join([*parts, struct.pack(">h", 0), END])

    def _fetched(self, version: int, body: bytes) -> bytes:
        asked = OffsetFetchRequest.decode(body, version=version).groups
        if any(each.topics is not None for each in asked):
            raise ValueError("OffsetFetch for named partitions")
        found = [
            self._commits.get(each.group_id) or _without_commits(each.group_id) for each in asked
        ]
        return struct.pack(">i", 0) + length_of(len(found)) + b"".join(found) + END

    def _offsets(self, _version: int, body: bytes) -> bytes:
        """The answers to two requests that differ only in the time are the same, and encoded once:
        a hundred brokers would take no turns on one processor."""
        value = body[_first_value(body) :][: len(A_TIME)]
        is_time = struct.unpack(">q", value)[0] >= 0
        return self._bounds(body.replace(value, A_TIME) if is_time else body)

    def _bounds_of(self, body: bytes) -> bytes:
        """For versions 7 and 8, which are laid out alike."""
        asked = Reader(body)
        asked.at = LIST_OFFSETS_HEAD
        topics = asked.length() or 0
        parts = [struct.pack(">i", 0), length_of(topics)]
        for _ in range(topics):
            name, count = asked.text() or "", asked.length() or 0
            rows = np.frombuffer(body, _ASKED, count, asked.at)
            asked.at += rows.nbytes
            asked.skip_tags()
            told = np.zeros(count, _TOLD)
            told["partition"] = rows["partition"]
            told["timestamp"] = np.where(rows["value"] < 0, -1, rows["value"])
            told["timestamp"][rows["value"] == LARGEST_TIME] = self._newest_ms
            told["offset"] = [OFFSETS.get(value, RECORDS) for value in rows["value"].tolist()]
            told["leader_epoch"] = EPOCH
            parts += (text_of(name), length_of(count), told.tobytes(), END)
        return b"".join([*parts, END])


def _first_value(body: bytes) -> int:
    """Where the first partition of a ListOffsets request says what is asked for."""
    asked = Reader(body)
    asked.at = LIST_OFFSETS_HEAD
    for skip in (asked.length, asked.text, asked.length):
        skip()
    return asked.at + 8


def _without_commits(group: str) -> bytes:
    return text_of(group) + length_of(0) + struct.pack(">h", 0) + END
