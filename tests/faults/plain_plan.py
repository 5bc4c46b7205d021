"""A stand-in for Spark where a test is about something else: the oracle decides, which
tests/property holds against Spark's plan, and retentiond puts what it decides into words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa

import retentiond.cycle
from retentiond.daemon import engine
from retentiond.decide.detail import Decided
from retentiond.decide.plan import plan_rows
from retentiond.model import PlanRow
from retentiond.snapshot import Snapshot
from tests.support import oracle

JUDGED = pa.schema(
    {
        "partition_id": pa.int32(),
        "reason": pa.string(),
        "groups": pa.int32(),
        "min_committed_offset": pa.int64(),
        "cutoff": pa.int64(),
        "binding_group_id": pa.int32(),
        "binding_committed_offset": pa.int64(),
        "records": pa.int64(),
    }
)
"""What `retentiond.decide.plan.judged_partitions` says that becomes a row."""


class NoSpark:
    """In place of `retentiond.spark.session.SparkSessions`."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def abandon(self) -> None: ...


def decide(_session: object, snapshot: Snapshot) -> tuple[PlanRow, ...]:
    """In place of `retentiond.decide.plan.decide`."""
    partitions = {
        (snapshot.topics[each.topic].name, each.partition): number
        for number, each in enumerate(snapshot.partitions)
    }
    groups = {each.group_id: number for number, each in enumerate(snapshot.groups)}
    decided = [
        Decided(
            partitions[row.topic, row.partition],
            row.reason,
            row.groups,
            row.min_committed_offset,
            row.cutoff,
            None if row.binding_group is None else groups[row.binding_group],
            row.binding_committed_offset,
            row.records,
        )
        for row in oracle.plan(snapshot)
    ]
    judged = [{**each._asdict(), "reason": each.reason.value} for each in decided]
    return plan_rows(snapshot, pa.Table.from_pylist(judged, JUDGED))


@contextmanager
def without_spark() -> Iterator[None]:
    """Cycles of this process are planned so meanwhile."""
    with ExitStack() as replaced:
        replaced.enter_context(mock.patch.object(retentiond.cycle, "decide", decide))
        replaced.enter_context(mock.patch.object(engine, "SparkSessions", NoSpark))
        yield
