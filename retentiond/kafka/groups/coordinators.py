"""What each group's coordinator is asked, many groups in one request, and what it has committed.

A group is listed by its coordinator, so the broker that listed it a moment ago is asked first. One
that no longer coordinates it says so, and the coordinator is looked up.

One unreadable group must not blind the batch that it was asked in, nor be lost in it. A batch that
fails is asked again group by group, and every group comes back, if only as a `Failure`. Errors are
read per group and per partition.

Commits come by OffsetFetch (KIP-709). A share group commits nothing: its coordinator keeps the
start offset of each share-partition (KIP-932). Every record below it has been acknowledged or
given up, so it is the group's bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from retentiond.kafka.broker_errors import BrokerError
from retentiond.kafka.client import Client
from retentiond.kafka.groups.commit_columns import CommitColumns
from retentiond.kafka.interface import NOT_ANSWERED, TOLD_TWICE
from retentiond.kafka.network_client import NetworkClient, failure_of_code, failure_of_exception
from retentiond.kafka.remedies import with_group_grant
from retentiond.kafka.wire import DescribeShareGroupOffsetsRequest
from retentiond.kafka.wire.by_hand import BATCHED_OFFSETS, BatchedOffsetFetchRequest, BatchedOffsets
from retentiond.kafka.wire.named_offsets import NamedOffsetFetchRequest, NamedPartitions
from retentiond.model import Commit, Failure, TopicPartition

T = TypeVar("T")

GROUPS_PER_REQUEST = 100
"""Where an answer has as many members, and as much about each, as a group likes."""

GROUPS_PER_OFFSET_FETCH = 300
"""A commit takes some 23 bytes of an answer: a megabyte and a half where each group has 200."""

COMMITS_PER_OFFSET_FETCH = 500_000
"""Where partitions are named, each takes 20 bytes of an answer for each group."""

FIND_COORDINATOR_BATCHED = 4
"""FindCoordinator takes many groups since this version (KIP-699, Kafka 3.0)."""

NO_COORDINATOR = Failure(
    BrokerError.COORDINATOR_NOT_AVAILABLE.name, "no broker coordinates the group"
)


async def ask_coordinators(
    network: NetworkClient,
    groups: Collection[str],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Any], Iterable[tuple[str, T | Failure]]],
    *,
    groups_per_request: int | None = None,
) -> dict[str, T | Failure]:
    """``request`` makes the message about some groups, ``read`` its response into a value for each
    group that it mentions. A group that it mentions twice is a `Failure`.

    Groups that failed are asked about once more: one by one where their batch had no answer, and
    else in batches, because a coordinator may know none of thousands.
    """
    size = groups_per_request or GROUPS_PER_REQUEST
    listed_by = network.listed_by()
    nodes: dict[str, int | Failure] = {
        group: listed_by[group] for group in groups if group in listed_by
    }
    nodes |= await find_coordinators(network, [group for group in groups if group not in nodes])
    answers, without_answer = await _ask(network, nodes, request, read, size)
    failed = [name for name, answer in answers.items() if isinstance(answer, Failure)]
    if failed:
        await network.offsets_topic()  # a coordinator may have joined since the last metadata
        nodes = await find_coordinators(network, failed)
        alone = {group: node for group, node in nodes.items() if group in without_answer}
        others = {group: node for group, node in nodes.items() if group not in without_answer}
        for again, at_once in ((alone, 1), (others, size)):
            answers.update((await _ask(network, again, request, read, at_once))[0])
    return answers


async def _ask(
    network: NetworkClient,
    nodes: Mapping[str, int | Failure],
    request: Callable[[Sequence[str]], Any],
    read: Callable[[Any], Iterable[tuple[str, T | Failure]]],
    size: int,
) -> tuple[dict[str, T | Failure], set[str]]:
    """What is told of each group, and the groups whose batch had no answer. ``nodes``: each group's
    coordinator."""
    without_answer: set[str] = set()
    answers: dict[str, T | Failure] = dict.fromkeys(nodes, NOT_ANSWERED)
    by_node: dict[int, list[str]] = {}
    for group, node in nodes.items():
        if isinstance(node, Failure):
            answers[group] = node
        else:
            by_node.setdefault(node, []).append(group)
    for names, answer in await network.send_batches(by_node, size, request):
        if isinstance(answer, Exception):
            answers.update(dict.fromkeys(names, failure_of_exception(answer)))
            without_answer.update(names)
        else:
            told: dict[str, T | Failure] = {}
            for group, value in read(answer):
                told[group] = TOLD_TWICE if group in told else value
            answers.update({group: told[group] for group in names if group in told})
    explained = {
        group: with_group_grant(answer) if isinstance(answer, Failure) else answer
        for group, answer in answers.items()
    }
    return explained, without_answer


async def find_coordinators(
    network: NetworkClient, groups: Collection[str]
) -> dict[str, int | Failure]:
    """Each group's coordinator, asked each time: nothing is cached across calls."""
    if not groups:
        return {}
    answer = await network.send(
        FindCoordinatorRequest(
            key_type=CoordinatorType.GROUP.value,
            coordinator_keys=list(groups),
            min_version=FIND_COORDINATOR_BATCHED,
        )
    )
    coordinators: dict[str, int | Failure] = {
        row.key: failure_of_code(row.error_code, row.error_message)
        if row.error_code
        else row.node_id
        for row in answer.coordinators
    }
    return {group: coordinators.get(group, NO_COORDINATOR) for group in groups}


GroupCommits = Sequence[Commit] | Failure


def commits(
    client: Client, groups: Collection[str], on: Collection[TopicPartition] | None = None
) -> Mapping[str, GroupCommits]:
    """A failure on one partition is a commit without offset."""
    request, size = offset_fetch, GROUPS_PER_OFFSET_FETCH
    if on is not None:
        topics: dict[str, list[int]] = {}
        for name, number in on:
            topics.setdefault(name, []).append(number)
        named = NamedPartitions(topics)
        request = partial(NamedOffsetFetchRequest, named=named)
        size = max(1, min(size, COMMITS_PER_OFFSET_FETCH // max(1, named.count)))

    async def ask(network: NetworkClient) -> dict[str, GroupCommits]:
        return await ask_coordinators(
            network, groups, request, read_commits, groups_per_request=size
        )

    return client.run(ask) if groups else {}


def offset_fetch(groups: Sequence[str]) -> Any:
    """All partitions of the groups. Offsets of open transactions are left out, not waited for:
    the last stable commit is the lower bound."""
    of_groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups
    ]
    return BatchedOffsetFetchRequest(
        groups=of_groups, min_version=BATCHED_OFFSETS, max_version=BATCHED_OFFSETS
    )


def read_commits(answer: BatchedOffsets) -> Iterator[tuple[str, GroupCommits]]:
    """The response to `offset_fetch`, group by group."""
    for group in answer.groups:
        if group.error_code:
            yield group.group_id, failure_of_code(group.error_code)
        elif not group.is_whole:
            yield group.group_id, NOT_ANSWERED
        else:
            yield group.group_id, TOLD_TWICE if group.commits.has_repeats() else group.commits


def share_offsets(client: Client, groups: Collection[str]) -> Mapping[str, GroupCommits]:
    def read(answer: Any) -> Iterator[tuple[str, GroupCommits]]:
        return ((group.group_id, _start_offsets(group)) for group in answer.groups)

    async def ask(network: NetworkClient) -> dict[str, GroupCommits]:
        return await ask_coordinators(network, groups, _share_request, read)

    return client.run(ask) if groups else {}


def _share_request(groups: Sequence[str]) -> Any:
    of_groups = [
        DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
            group_id=group, topics=None
        )
        for group in groups
    ]
    return DescribeShareGroupOffsetsRequest(groups=of_groups)


def _start_offsets(group: Any) -> GroupCommits:
    if group.error_code:
        return failure_of_code(group.error_code, group.error_message)
    commits = [
        Commit(
            topic.topic_name,
            partition.partition_index,
            None if partition.error_code or partition.start_offset < 0 else partition.start_offset,
            None if partition.leader_epoch < 0 else partition.leader_epoch,
        )
        for topic in group.topics
        for partition in topic.partitions
    ]
    return TOLD_TWICE if CommitColumns.of(commits).has_repeats() else commits
