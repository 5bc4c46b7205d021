"""Committed offsets, many groups in one request for each coordinator (KIP-709).

One unreadable group must not blind the batch that it was asked in, nor be lost in it: errors
are read per group and per partition, and a batch that fails as a whole is asked again, group
by group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kafka.errors import KafkaError
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from retentiond.kafka import failures
from retentiond.kafka.connection import Connection, Link
from retentiond.model import Commit, Failure

GROUPS_PER_REQUEST = 50

BATCHED_COORDINATORS = 4
"""FindCoordinator takes many groups since this version (KIP-699, Kafka 3.0)."""

BATCHED_OFFSETS = 8
"""OffsetFetch takes many groups since this version (KIP-709, Kafka 3.0)."""

Commits = Sequence[Commit] | Failure


def commits(connection: Connection, groups: Collection[str]) -> Mapping[str, Commits]:
    """All commits of each group. A failure on one partition is a commit without offset."""

    async def ask(link: Link) -> dict[str, Commits]:
        found = await _fetch(link, list(groups), GROUPS_PER_REQUEST)
        failed = [name for name, answer in found.items() if isinstance(answer, Failure)]
        if failed:
            await link.offsets_topic()  # a coordinator may have joined since the last metadata
            found.update(await _fetch(link, failed, 1))
        return found

    return connection.run(ask)


async def coordinators(link: Link, groups: Collection[str]) -> dict[str, int | Failure]:
    """Each group's coordinator, asked anew: nothing is cached across calls."""
    link.forget_coordinators()
    if not groups:
        return {}
    if link.version_of(FindCoordinatorRequest) < BATCHED_COORDINATORS:
        return {group: await _coordinator(link, group) for group in groups}
    answer = await link.send(
        FindCoordinatorRequest(
            key_type=CoordinatorType.GROUP.value,
            coordinator_keys=list(groups),
            min_version=BATCHED_COORDINATORS,
        )
    )
    found: dict[str, int | Failure] = {
        row.key: failures.of_error_code(row.error_code, row.error_message)
        if row.error_code
        else row.node_id
        for row in answer.coordinators
    }
    return {group: found.get(group, _NO_COORDINATOR) for group in groups}


_NO_COORDINATOR = Failure("COORDINATOR_NOT_AVAILABLE", "no broker coordinates the group")


async def _coordinator(link: Link, group: str) -> int | Failure:
    try:
        return await link.coordinator_of(group)
    except KafkaError as error:
        return failures.of_kafka_python(error)


async def _fetch(link: Link, groups: Sequence[str], groups_per_request: int) -> dict[str, Commits]:
    found: dict[str, Commits] = {}
    by_node: dict[int, list[str]] = {}
    for group, node in (await coordinators(link, groups)).items():
        if isinstance(node, Failure):
            found[group] = node
        else:
            by_node.setdefault(node, []).append(group)
    if not by_node:
        return found
    size = groups_per_request if _takes_many(link) else 1
    batches = [
        (node, names[start : start + size])
        for node, names in by_node.items()
        for start in range(0, len(names), size)
    ]
    answers = await link.send_all(
        [(node, _request(names, _takes_many(link))) for node, names in batches]
    )
    for (_, names), answer in zip(batches, answers, strict=True):
        if isinstance(answer, Exception):
            found.update(dict.fromkeys(names, failures.of_kafka_python(answer)))
        else:
            found.update(dict.fromkeys(names, NOT_ANSWERED))
            found.update(_read(answer, names))
    return found


NOT_ANSWERED = Failure("NOT_ANSWERED", "the coordinator left the group out of its answer")


def _takes_many(link: Link) -> bool:
    return link.version_of(OffsetFetchRequest) >= BATCHED_OFFSETS


def _request(groups: Sequence[str], takes_many: bool) -> Any:
    """All partitions of the groups. Offsets of open transactions are left out, not waited for:
    the last stable commit is the lower bound."""
    if not takes_many:
        return OffsetFetchRequest(
            group_id=groups[0], topics=None, min_version=2, max_version=BATCHED_OFFSETS - 1
        )
    asked = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups
    ]
    return OffsetFetchRequest(groups=asked, min_version=8, max_version=BATCHED_OFFSETS)


def _read(answer: Any, asked: Sequence[str]) -> dict[str, Commits]:
    if answer.API_VERSION < BATCHED_OFFSETS:
        return {asked[0]: _commits(answer)}
    return {group.group_id: _commits(group) for group in answer.groups}


def _commits(group: Any) -> Commits:
    if group.error_code:
        return failures.of_error_code(group.error_code)
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
