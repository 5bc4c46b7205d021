"""Since when the group that binds a partition stands where it does, by what earlier cycles saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from retentiond.decide.detail import Decided
from retentiond.decide.plan import plan_rows
from retentiond.fields import rfc3339
from retentiond.model import Reason
from retentiond.snapshot import Snapshot, with_columns
from retentiond.state.groups import GroupMemory
from tests.support.builders.gather_worlds import (
    HOUR_MS,
    ORDERS_0,
    ORDERS_1,
    config,
    entry,
    healthy,
)
from tests.support.builders.group_memories import cycle, taken
from tests.support.fakes import FakeCluster

POLICY = config(entry("orders"))


@pytest.fixture
def kafka() -> FakeCluster:
    """Of ``orders`` group billing has committed 3 and 4."""
    return healthy()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[GroupMemory]:
    opened = GroupMemory.open(tmp_path)
    yield opened
    opened.close()


def since(
    kafka: FakeCluster,
    memory: GroupMemory,
    *committed: int | None,
    group: str | None = "billing",
    reason: Reason = Reason.CONSUMED,
) -> list[str | None]:
    """Of both partitions, where that group binds with these commits."""
    return since_of(taken(kafka, memory.recall(), POLICY), *committed, group=group, reason=reason)


def since_of(
    snapshot: Snapshot,
    *committed: int | None,
    group: str | None = "billing",
    reason: Reason = Reason.CONSUMED,
) -> list[str | None]:
    ids = {each.group_id: position for position, each in enumerate(snapshot.groups)}
    decided = [
        Decided(at, reason, 1, offset, offset, None if group is None else ids[group], offset, 0)
        for at, offset in enumerate(committed)
    ]
    columns = dict(zip(Decided._fields, zip(*decided, strict=True), strict=True))
    judged = pa.table({**columns, "reason": [str(reason)] * len(decided)})
    return [row.binding_since for row in plan_rows(snapshot, judged)]


def test_a_commit_stands_since_the_cycle_that_first_saw_it_there(
    kafka: FakeCluster, memory: GroupMemory
) -> None:
    began = rfc3339(kafka.now_ms)
    cycle(memory, kafka, POLICY)
    kafka.advance(HOUR_MS)
    cycle(memory, kafka, POLICY)
    kafka.advance(HOUR_MS)
    kafka.commit("billing", {ORDERS_1: 5})
    assert since(kafka, memory, 3, 5) == [began, rfc3339(kafka.now_ms)]


def test_where_no_cycle_has_seen_the_commit_it_is_not_known(
    kafka: FakeCluster, memory: GroupMemory
) -> None:
    assert since(kafka, memory, 3, 4) == [None, None]
    cycle(memory, kafka, POLICY)
    kafka.commit("newcomer", {ORDERS_0: 1})
    assert since(kafka, memory, 1, None, group="newcomer") == [None, None]
    kafka.commit("newcomer", {ORDERS_0: 3})  # where billing stands
    assert since(kafka, memory, 3, None, group="newcomer") == [None, None]
    kafka.commit("billing", {ORDERS_0: 2})  # it went back
    assert since(kafka, memory, 2, 4)[0] is None


def test_a_commit_that_was_first_seen_at_an_unknown_time_has_no_since(
    kafka: FakeCluster, memory: GroupMemory
) -> None:
    cycle(memory, kafka, POLICY)
    snapshot = taken(kafka, memory.recall(), POLICY)
    unknown = pa.nulls(snapshot.commits.num_rows, pa.int64())
    undated = with_columns(snapshot.commits, moved_at_ms=unknown)
    assert since_of(replace(snapshot, commits=undated), 3, 4) == [None, None]


def test_a_group_that_has_vanished_is_gone_since_the_cycle_that_first_missed_it(
    kafka: FakeCluster, memory: GroupMemory
) -> None:
    kafka.join("ghost", ["orders"])  # which never commits
    cycle(memory, kafka, POLICY)
    kafka.advance(HOUR_MS)
    kafka.delete_group("billing")
    kafka.delete_group("ghost")
    assert since(kafka, memory, 3, 4, reason=Reason.GROUP_VANISHED) == [None, None]
    missed = rfc3339(kafka.now_ms)
    cycle(memory, kafka, POLICY)
    kafka.advance(HOUR_MS)
    for group in ("billing", "ghost"):
        told = since(kafka, memory, None, None, group=group, reason=Reason.GROUP_VANISHED)
        assert told == [missed, missed]


def test_a_row_that_no_group_binds_has_no_since(kafka: FakeCluster, memory: GroupMemory) -> None:
    cycle(memory, kafka, POLICY)
    assert since(kafka, memory, None, None, group=None, reason=Reason.NO_GROUP) == [None, None]
