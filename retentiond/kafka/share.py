"""Share groups (KIP-932): how far each has acknowledged a partition.

A share group commits nothing. Its coordinator keeps the start offset of each share-partition:
every record below has been acknowledged or given up, so it is the group's bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from retentiond.kafka import protocol_failures
from retentiond.kafka.commits import Commits
from retentiond.kafka.connection import Connection
from retentiond.kafka.coordinators import ask_coordinators
from retentiond.kafka.link import Link
from retentiond.kafka.messages import DescribeShareGroupOffsetsRequest
from retentiond.model import Commit


def share_offsets(connection: Connection, groups: Collection[str]) -> Mapping[str, Commits]:
    """The start offset of every share-partition of each group, as commits.

    One that isn't known yet, or couldn't be read, is a commit without offset.
    """

    async def ask(link: Link) -> dict[str, Commits]:
        return await ask_coordinators(link, groups, _request, _read)

    return connection.run(ask) if groups else {}


def _request(groups: Sequence[str]) -> Any:
    asked = [
        DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=group, topics=None
        )
        for group in groups
    ]
    return DescribeShareGroupOffsetsRequest(groups=asked)


def _read(answer: Any, _asked: Sequence[str]) -> dict[str, Commits]:
    return {group.group_id: _offsets(group) for group in answer.groups}


def _offsets(group: Any) -> Commits:
    if group.error_code:
        return protocol_failures.of_error_code(group.error_code, group.error_message)
    return [
        Commit(
            topic.topic_name,
            partition.partition_index,
            None if partition.error_code or partition.start_offset < 0 else partition.start_offset,
        )
        for topic in group.topics
        for partition in topic.partitions
    ]
