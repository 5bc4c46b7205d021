"""Committed offsets, many groups in one request for each coordinator (KIP-709).

Errors are read per group and per partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.coordinators import ask_coordinators
from retentiond.kafka.link import Link
from retentiond.kafka.offset_fetch import BATCHED_OFFSETS, BatchedOffsetFetchRequest
from retentiond.model import Commit, Failure

GROUPS_PER_REQUEST = 300
"""A commit takes some 23 bytes of an answer: a megabyte and a half where each has 200."""

Commits = Sequence[Commit] | Failure


def commits(connection: Connection, groups: Collection[str]) -> Mapping[str, Commits]:
    """All commits of each group. A failure on one partition is a commit without offset."""

    async def ask(link: Link) -> dict[str, Commits]:
        batched = takes_many(link)
        return await ask_coordinators(
            link,
            groups,
            lambda names: offset_fetch(names, batched),
            read_commits,
            groups_per_request=GROUPS_PER_REQUEST if batched else 1,
        )

    return connection.run(ask) if groups else {}


def takes_many(link: Link) -> bool:
    """Whether one request may be about many groups."""
    return link.version_of(OffsetFetchRequest) >= BATCHED_OFFSETS


def offset_fetch(groups: Sequence[str], batched: bool) -> Any:
    """All partitions of the groups. Offsets of open transactions are left out, not waited for:
    the last stable commit is the lower bound."""
    if not batched:
        return OffsetFetchRequest(
            group_id=groups[0], topics=None, min_version=2, max_version=BATCHED_OFFSETS - 1
        )
    asked = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups
    ]
    return BatchedOffsetFetchRequest(
        groups=asked, min_version=BATCHED_OFFSETS, max_version=BATCHED_OFFSETS
    )


def read_commits(answer: Any, asked: Sequence[str]) -> dict[str, Commits]:
    """The response to `offset_fetch`, by group."""
    if answer.API_VERSION < BATCHED_OFFSETS:
        return {asked[0]: _failure(answer) or _commits(answer)}
    return {group.group_id: _failure(group) or group.commits for group in answer.groups}


def _failure(group: Any) -> Failure | None:
    return protocol_failures.of_error_code(group.error_code) if group.error_code else None


def _commits(group: Any) -> list[Commit]:
    return [
        Commit(
            topic.name,
            partition.partition_index,
            None if partition.error_code else partition.committed_offset,
        )
        for topic in group.topics
        for partition in topic.partitions
        if partition.error_code or partition.committed_offset >= 0
    ]
