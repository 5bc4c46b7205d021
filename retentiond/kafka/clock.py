"""The cluster's clock, which the host's is held against.

Kafka has no request for the time. But the active controller answers DescribeQuorum with its own
time as that of its last fetch (KIP-836, Kafka 3.3).
"""

from __future__ import annotations

from typing import Any

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.admin import DescribeQuorumRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.link import Link
from retentiond.model import Failure

METADATA_TOPIC = "__cluster_metadata"

WITH_TIMES = 1

CLUSTER_AUTHORIZATION_FAILED = 31

NO_LEADER = Failure("LEADER_NOT_AVAILABLE", "the cluster's controllers have no leader just now")


def cluster_time(connection: Connection) -> int | Failure | None:
    """Epoch milliseconds; None where this cluster does not tell, or not this principal."""

    async def ask(link: Link) -> int | Failure | None:
        try:
            if link.version_of(DescribeQuorumRequest) < WITH_TIMES:
                return None
        except IncompatibleBrokerVersion:
            return None
        return _time(await link.send(_request()))

    return connection.run(ask)


def _request() -> Any:
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])])


def _time(answer: Any) -> int | Failure | None:
    if answer.error_code == CLUSTER_AUTHORIZATION_FAILED:
        return None
    if answer.error_code:
        return protocol_failures.of_error_code(answer.error_code)
    ((partition,),) = (topic.partitions for topic in answer.topics)
    if partition.error_code:
        return protocol_failures.of_error_code(partition.error_code)
    for voter in partition.current_voters:
        if voter.replica_id == partition.leader_id:
            time_ms: int = voter.last_fetch_timestamp
            return time_ms if time_ms > 0 else None
    return NO_LEADER
