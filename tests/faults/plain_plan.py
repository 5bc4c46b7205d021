"""A stand-in for Spark where a test is about something else: the rule, in a few lines of Python.

It knows healthy topics only: each group that has committed on a topic has committed on each of
its partitions, and everything could be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import retentiond.cycle
from retentiond.config import TopicPolicy
from retentiond.daemon import engine
from retentiond.model import VERDICT_OF, PlanRow, Reason
from retentiond.snapshot import Snapshot


class NoSpark:
    """In place of `retentiond.spark.session.SparkSessions`."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def abandon(self) -> None: ...


def decide(_session: object, snapshot: Snapshot) -> tuple[PlanRow, ...]:
    """In place of `retentiond.decide.plan.decide`."""
    return tuple(_row(snapshot, number) for number in range(len(snapshot.partitions)))


@contextmanager
def without_spark() -> Iterator[None]:
    """Cycles of this process are planned so meanwhile."""
    with ExitStack() as replaced:
        replaced.enter_context(mock.patch.object(retentiond.cycle, "decide", decide))
        replaced.enter_context(mock.patch.object(engine, "SparkSessions", NoSpark))
        yield


def _row(snapshot: Snapshot, number: int) -> PlanRow:
    partition = snapshot.partitions[number]
    topic = snapshot.topics[partition.topic]
    commits = {
        snapshot.groups[commit["group_id"]].group_id: commit["offset"]
        for commit in snapshot.commits.to_pylist()
        if commit["is_committed"] and commit["partition_id"] == number
    }
    binding_group = min(commits, key=lambda group: (commits[group], group), default=None)
    lowest = None if binding_group is None else commits[binding_group]
    start, end = partition.log_start_offset, partition.last_stable_offset
    if partition.failure or start is None or end is None or partition.retention_offset is None:
        raise ValueError(f"{topic.name}-{partition.partition} is not healthy: {partition.failure}")
    cutoff = None if lowest is None else min(lowest, partition.retention_offset, end)
    if cutoff is None:
        reason = Reason.NO_GROUP
    else:
        reason = Reason.CONSUMED if cutoff > start else Reason.NOT_CONSUMED
    return PlanRow(
        topic=topic.name,
        partition=partition.partition,
        topic_id=topic.topic_id,
        log_start_offset=start,
        high_watermark=partition.high_watermark,
        min_committed_offset=lowest,
        binding_group=binding_group,
        binding_committed_offset=lowest,
        retention_offset=partition.retention_offset,
        cutoff=cutoff,
        verdict=VERDICT_OF[reason],
        reason=reason,
        groups=len(commits),
        consumed_retention_ms=(
            partition.retention_ms(topic.policy) if isinstance(topic.policy, TopicPolicy) else None
        ),
        owner=topic.policy.owner,
        dry_run=topic.policy.dry_run,
        records=cutoff - start if cutoff is not None and reason is Reason.CONSUMED else 0,
    )
