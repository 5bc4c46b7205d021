"""Asks each group's coordinator, many groups in one request.

A group is listed by its coordinator, so who listed it a moment ago is asked first.

One unreadable group must not blind the batch that it was asked in, nor be lost in it: a batch
that fails is asked again group by group, and every group comes back, if only as a `Failure`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from retentiond.kafka.errors.kafka_python import failure_of_code, failure_of_exception
from retentiond.kafka.errors.remedies import with_group_grant
from retentiond.kafka.network_client import NetworkClient
from retentiond.model import Failure

T = TypeVar("T")

GROUPS_PER_REQUEST = 100
"""Where an answer has as many members, and as much about each, as a group likes."""

BATCHED = 4
"""FindCoordinator takes many groups since this version (KIP-699, Kafka 3.0)."""

NOT_ANSWERED = Failure("NOT_ANSWERED", "the coordinator left the group out of its answer")

NO_COORDINATOR = Failure("COORDINATOR_NOT_AVAILABLE", "no broker coordinates the group")


async def ask_coordinators(
    network: NetworkClient,
    groups: Collection[str],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Any], Mapping[str, T | Failure]],
    *,
    groups_per_request: int | None = None,
) -> dict[str, T | Failure]:
    """``request`` makes the message about some groups, ``read`` its response into values."""
    nodes = await _listed_or_asked(network, groups)
    found = await _ask(network, nodes, request, read, groups_per_request or GROUPS_PER_REQUEST)
    failed = [name for name, answer in found.items() if isinstance(answer, Failure)]
    if failed:
        await network.offsets_topic()  # a coordinator may have joined since the last metadata
        found.update(await _ask(network, await coordinators(network, failed), request, read, 1))
    return found


async def _listed_or_asked(
    network: NetworkClient, groups: Collection[str]
) -> dict[str, int | Failure]:
    """Each group's coordinator. One that is one no more says so, and is asked for anew."""
    listed_by = network.listed_by()
    found: dict[str, int | Failure] = {
        group: listed_by[group] for group in groups if group in listed_by
    }
    return found | await coordinators(network, [group for group in groups if group not in found])


async def _ask(
    network: NetworkClient,
    nodes: Mapping[str, int | Failure],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Any], Mapping[str, T | Failure]],
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
    for names, answer in await network.send_batches(by_node, size, request):
        if isinstance(answer, Exception):
            found.update(dict.fromkeys(names, failure_of_exception(answer)))
        else:
            found.update(read(answer))
    return {group: _explained(answer) for group, answer in found.items()}


def _explained(answer: T | Failure) -> T | Failure:
    return with_group_grant(answer) if isinstance(answer, Failure) else answer


async def coordinators(network: NetworkClient, groups: Collection[str]) -> dict[str, int | Failure]:
    """Each group's coordinator, asked anew: nothing is cached across calls."""
    if not groups:
        return {}
    answer = await network.send(
        FindCoordinatorRequest(
            key_type=CoordinatorType.GROUP.value,
            coordinator_keys=list(groups),
            min_version=BATCHED,
        )
    )
    found: dict[str, int | Failure] = {
        row.key: failure_of_code(row.error_code, row.error_message)
        if row.error_code
        else row.node_id
        for row in answer.coordinators
    }
    return {group: found.get(group, NO_COORDINATOR) for group in groups}
