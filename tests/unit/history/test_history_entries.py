"""What an entry says a commit proves, and a group that can't be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from retentiond.history.entries import FinishedCycle, RecordedState, recorded_state, rows_of
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import Snapshot, with_columns
from tests.support.builders.histories import World

KEY = ("billing", "orders", 0)
ANOTHER = ("search", "orders", 0)


def seen(
    commits: Mapping[tuple[str, str, int], int | None],
    **are: tuple[int, ...],
) -> FinishedCycle:
    """``are``: flags of `COMMIT_SCHEMA`, and for the commits of which groups (by position)."""
    made = World(commits=dict(commits)).seen()
    table = made.snapshot.commits
    groups = table["group_id"].to_pylist()
    flags = {name: pa.array([each in those for each in groups]) for name, those in are.items()}
    return replace(made, snapshot=replace(made.snapshot, commits=with_columns(table, **flags)))


def told(
    now: FinishedCycle, before: FinishedCycle | None, kind: str = "commit"
) -> list[dict[str, Any]]:
    past: RecordedState | None = recorded_state(before.snapshot) if before else None
    rows = rows_of(
        now, recorded_state(now.snapshot), past, entry=1, deletions=(), observed_ms=None
    ).to_pylist()
    return [row for row in rows if row["kind"] == kind]


def commits(
    now: FinishedCycle, before: FinishedCycle | None = None
) -> dict[str, tuple[int | None, str | None]]:
    return {row["group"]: (row["committed_offset"], row["state"]) for row in told(now, before)}


def test_a_commit_says_what_it_proves() -> None:
    now = seen({KEY: 7, ANOTHER: 0, ("web", "orders", 0): None}, is_stale=(1,))

    assert commits(now) == {
        "billing": (7, "read"),
        "search": (0, "replaced"),
        "web": (None, "unreadable"),
    }


def test_a_commit_that_proves_something_else_is_told_although_it_has_not_moved() -> None:
    before, now = seen({KEY: 7, ANOTHER: 3}), seen({KEY: 7, ANOTHER: 3}, is_stale=(0,))

    assert commits(now, before) == {"billing": (7, "replaced")}
    assert commits(now, now) == {}
    assert commits(before, now) == {"billing": (7, "read")}


def test_a_commit_that_is_gone_is_another_than_one_that_cannot_be_read() -> None:
    before = seen({KEY: 7, ANOTHER: 3})

    assert commits(seen({KEY: None}), before) == {
        "billing": (None, "unreadable"),
        "search": (None, None),
    }


def test_a_commit_whose_records_were_replaced_is_told_as_that() -> None:
    now = seen({KEY: 7, ANOTHER: 3}, is_replaced=(1,))

    assert commits(now) == {"billing": (7, "read"), "search": (3, "replaced")}


def test_a_partition_says_in_which_log_directories_its_replicas_lie() -> None:
    def told_of(log_dirs: Mapping[TopicPartition, tuple[tuple[int, str], ...]]) -> list[Any]:
        made = seen({KEY: 7})
        now = replace(made, disk=replace(made.disk, log_dirs=log_dirs))
        return [row["log_dirs"] for row in told(now, None, "partition")]

    held = ((1, "/a"), (2, '/b, "c": d'))
    assert told_of({TopicPartition("orders", 0): held}) == ['["1:/a", "2:/b, \\"c\\": d"]']
    assert told_of({}) == [None]


def test_a_group_that_cannot_be_read_as_a_whole_is_told_as_that() -> None:
    def of_group(**changes: Failure) -> list[tuple[str, bool]]:
        made = seen({KEY: None})
        snapshot: Snapshot = made.snapshot
        groups = tuple(replace(each, **changes) for each in snapshot.groups)  # type: ignore[arg-type]
        now = replace(made, snapshot=replace(snapshot, groups=groups))
        return [(row["state"], row["complete"]) for row in told(now, None, "group")]

    assert of_group() == [("live", True)]
    assert of_group(problem=Failure("SOME", "")) == [("unreadable", True)]
    assert of_group(failure=Failure("ALL", "")) == [("unreadable", False)]
