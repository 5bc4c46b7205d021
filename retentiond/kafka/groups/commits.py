"""Committed offsets, many groups in one request (KIP-709), and those of share groups (KIP-932).

Errors are read per group and per partition.

A share group commits nothing. Its coordinator keeps the start offset of each share-partition:
every record below has been acknowledged or given up, so it is the group's bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest

from retentiond.kafka.client import Client
from retentiond.kafka.errors.kafka_python import failure_of_code
from retentiond.kafka.groups.coordinators import ask_coordinators
from retentiond.kafka.network_client import NetworkClient
from retentiond.kafka.wire import DescribeShareGroupOffsetsRequest
from retentiond.kafka.wire.by_hand import (
    BATCHED_OFFSETS,
    BatchedOffsetFetchRequest,
    BatchedOffsets,
)
from retentiond.model import Commit, Failure

GROUPS_PER_REQUEST = 300
"""A commit takes some 23 bytes of an answer: a megabyte and a half where each has 200."""

GroupCommits = Sequence[Commit] | Failure


def commits(client: Client, groups: Collection[str]) -> Mapping[str, GroupCommits]:
    """All commits of each group. A failure on one partition is a commit without offset."""

    async def ask(network: NetworkClient) -> dict[str, GroupCommits]:
        return await ask_coordinators(
            network, groups, offset_fetch, read_commits, groups_per_request=GROUPS_PER_REQUEST
        )

    return client.run(ask) if groups else {}


def offset_fetch(groups: Sequence[str]) -> Any:
    """All partitions of the groups. Offsets of open transactions are left out, not waited for:
    the last stable commit is the lower bound."""
    asked = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups
    ]
    return BatchedOffsetFetchRequest(
        groups=asked, min_version=BATCHED_OFFSETS, max_version=BATCHED_OFFSETS
    )


def read_commits(answer: BatchedOffsets) -> dict[str, GroupCommits]:
    """The response to `offset_fetch`, by group."""
    return {
        group.group_id: failure_of_code(group.error_code) if group.error_code else group.commits
        for group in answer.groups
    }


def share_offsets(client: Client, groups: Collection[str]) -> Mapping[str, GroupCommits]:
    """The start offset of every share-partition of each group, as commits.

    One that isn't known yet, or couldn't be read, is a commit without offset.
    """

    async def ask(network: NetworkClient) -> dict[str, GroupCommits]:
        return await ask_coordinators(network, groups, _request, _read)

    return client.run(ask) if groups else {}


def _request(groups: Sequence[str]) -> Any:
    asked = [
        DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=group, topics=None
        )
        for group in groups
    ]
    return DescribeShareGroupOffsetsRequest(groups=asked)


def _read(answer: Any) -> dict[str, GroupCommits]:
    return {group.group_id: _offsets(group) for group in answer.groups}


def _offsets(group: Any) -> GroupCommits:
    if group.error_code:
        return failure_of_code(group.error_code, group.error_message)
    return [
        Commit(
            topic.topic_name,
            partition.partition_index,
            None if partition.error_code or partition.start_offset < 0 else partition.start_offset,
            None if partition.leader_epoch < 0 else partition.leader_epoch,
        )
        for topic in group.topics
        for partition in topic.partitions
    ]
