"""Asks each group's coordinator, many groups in one request.

A group is listed by its coordinator, so who listed it a moment ago is asked first.

One unreadable group must not blind the batch that it was asked in, nor be lost in it: a batch
that fails is asked again group by group, and every group comes back, if only as a `Failure`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from kafka.errors import KafkaError
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.grants import with_group_grant
from retentiond.kafka.link import Link
from retentiond.model import Failure

T = TypeVar("T")

GROUPS_PER_REQUEST = 100
"""Where an answer has as many members, and as much about each, as a group likes."""

BATCHED = 4
"""FindCoordinator takes many groups since this version (KIP-699, Kafka 3.0)."""

NOT_ANSWERED = Failure("NOT_ANSWERED", "the coordinator left the group out of its answer")

NO_COORDINATOR = Failure("COORDINATOR_NOT_AVAILABLE", "no broker coordinates the group")


async def ask_coordinators(
    link: Link,
    groups: Collection[str],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Any, Sequence[str]], Mapping[str, T | Failure]],
    *,
    groups_per_request: int | None = None,
) -> dict[str, T | Failure]:
    """``request`` makes the message about some groups, ``read`` its response into values."""
    nodes = await _listed_or_asked(link, groups)
    found = await _ask(link, nodes, request, read, groups_per_request or GROUPS_PER_REQUEST)
    failed = [name for name, answer in found.items() if isinstance(answer, Failure)]
    if failed:
        await link.offsets_topic()  # a coordinator may have joined since the last metadata
        found.update(await _ask(link, await coordinators(link, failed), request, read, 1))
    return found


async def _listed_or_asked(link: Link, groups: Collection[str]) -> dict[str, int | Failure]:
    """Each group's coordinator. One that is one no more says so, and is asked for anew."""
    listed_by = link.listed_by()
    found: dict[str, int | Failure] = {
        group: listed_by[group] for group in groups if group in listed_by
    }
    return found | await coordinators(link, [group for group in groups if group not in found])


async def _ask(
    link: Link,
    nodes: Mapping[str, int | Failure],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Any, Sequence[str]], Mapping[str, T | Failure]],
    size: int,
) -> dict[str, T | Failure]:
    """``nodes``: each group's coordinator."""
    found: dict[str, T | Failure] = dict.fromkeys(nodes, NOT_ANSWERED)
    by_node: dict[int, list[str]] = {}
    for group, node in nodes.items():
        if isinstance(node, Failure):
            found[group] = node
        else:
            by_node.setdefault(node, []).append(group)
    batches = [
        (node, names[start : start + size])
        for node, names in by_node.items()
        for start in range(0, len(names), size)
    ]
    answers = await link.send_all([(node, request(names)) for node, names in batches])
    for (_, names), answer in zip(batches, answers, strict=True):
        if isinstance(answer, Exception):
            found.update(dict.fromkeys(names, protocol_failures.of_kafka_python(answer)))
        else:
            found.update(read(answer, names))
    return {group: _explained(answer) for group, answer in found.items()}


def _explained(answer: T | Failure) -> T | Failure:
    return with_group_grant(answer) if isinstance(answer, Failure) else answer


async def coordinators(link: Link, groups: Collection[str]) -> dict[str, int | Failure]:
    """Each group's coordinator, asked anew: nothing is cached across calls."""
    link.forget_coordinators()
    if not groups:
        return {}
    if link.version_of(FindCoordinatorRequest) < BATCHED:
        return {group: await _coordinator(link, group) for group in groups}
    answer = await link.send(
        FindCoordinatorRequest(
            key_type=CoordinatorType.GROUP.value,
            coordinator_keys=list(groups),
            min_version=BATCHED,
        )
    )
    found: dict[str, int | Failure] = {
        row.key: protocol_failures.of_error_code(row.error_code, row.error_message)
        if row.error_code
        else row.node_id
        for row in answer.coordinators
    }
    return {group: found.get(group, NO_COORDINATOR) for group in groups}


async def _coordinator(link: Link, group: str) -> int | Failure:
    try:
        return await link.coordinator_of(group)
    except KafkaError as error:
        return protocol_failures.of_kafka_python(error)
