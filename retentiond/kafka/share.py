"""Share groups (KIP-932): how far each has acknowledged a partition.

A share group commits nothing. Its coordinator keeps the start offset of each share-partition:
every record below has been acknowledged or given up, so it is the group's bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from retentiond.kafka import failures
from retentiond.kafka.commits import NOT_ANSWERED, Commits, coordinators
from retentiond.kafka.connection import Connection, Link
from retentiond.kafka.messages import DescribeShareGroupOffsetsRequest
from retentiond.model import Commit, Failure

GROUPS_PER_REQUEST = 50


def share_offsets(connection: Connection, groups: Collection[str]) -> Mapping[str, Commits]:
    """The start offset of every share-partition of each group, as commits.

    One that isn't known yet, or couldn't be read, is a commit without offset.
    """

    async def ask(link: Link) -> dict[str, Commits]:
        found = await _fetch(link, list(groups), GROUPS_PER_REQUEST)
        failed = [name for name, answer in found.items() if isinstance(answer, Failure)]
        if failed:
            found.update(await _fetch(link, failed, 1))
        return found

    return connection.run(ask) if groups else {}


async def _fetch(link: Link, groups: list[str], size: int) -> dict[str, Commits]:
    found: dict[str, Commits] = {}
    by_node: dict[int, list[str]] = {}
    for group, node in (await coordinators(link, groups)).items():
        if isinstance(node, Failure):
            found[group] = node
        else:
            by_node.setdefault(node, []).append(group)
    batches = [
        (node, names[start : start + size])
        for node, names in by_node.items()
        for start in range(0, len(names), size)
    ]
    answers = await link.send_all([(node, _request(names)) for node, names in batches])
    for (_, names), answer in zip(batches, answers, strict=True):
        if isinstance(answer, Exception):
            found.update(dict.fromkeys(names, failures.of_kafka_python(answer)))
        else:
            found.update(dict.fromkeys(names, NOT_ANSWERED))
            found.update({group.group_id: _offsets(group) for group in answer.groups})
    return found


def _request(groups: Collection[str]) -> Any:
    asked = [
        DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=group, topics=None
        )
        for group in groups
    ]
    return DescribeShareGroupOffsetsRequest(groups=asked)


def _offsets(group: Any) -> Commits:
    if group.error_code:
        return failures.of_error_code(group.error_code, group.error_message)
    return [
        Commit(
            topic.topic_name,
            partition.partition_index,
            None if partition.error_code or partition.start_offset < 0 else partition.start_offset,
        )
        for topic in group.topics
        for partition in topic.partitions
    ]
