"""What an entry says a commit proves, and a group that can't be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from retentiond.history.entries import FinishedCycle, RecordedState, recorded_state, rows_of
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import COMMIT_SCHEMA, EPOCH_SCHEMA, Snapshot
from tests.support.builders.histories import World

KEY = ("billing", "orders", 0)
ANOTHER = ("search", "orders", 0)


def seen(
    commits: Mapping[tuple[str, str, int], int | None],
    stale: tuple[int, ...] = (),
    epochs: tuple[tuple[int | None, ...], ...] = (),
) -> FinishedCycle:
    """``stale``: positions of groups; ``epochs``: rows of `EPOCH_SCHEMA`."""
    made = World(commits=dict(commits)).seen()
    snapshot = replace(
        made.snapshot,
        stale=pa.Table.from_pylist(
            [{"group_id": at, "partition_id": 0, "offset": 1} for at in stale], COMMIT_SCHEMA
        ),
        epochs=pa.Table.from_pylist(
            [dict(zip(EPOCH_SCHEMA.names, row, strict=True)) for row in epochs], EPOCH_SCHEMA
        ),
    )
    return replace(made, snapshot=snapshot)


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
    now = seen({KEY: 7, ANOTHER: 0, ("web", "orders", 0): None}, stale=(1,))

    assert commits(now) == {
        "billing": (7, "read"),
        "search": (0, "replaced"),
        "web": (None, "unreadable"),
    }


def test_a_commit_that_proves_something_else_is_told_although_it_has_not_moved() -> None:
    before, now = seen({KEY: 7, ANOTHER: 3}), seen({KEY: 7, ANOTHER: 3}, stale=(0,))

    assert commits(now, before) == {"billing": (7, "replaced")}
    assert commits(now, now) == {}
    assert commits(before, now) == {"billing": (7, "read")}


def test_a_commit_that_is_gone_is_another_than_one_that_cannot_be_read() -> None:
    before = seen({KEY: 7, ANOTHER: 3})

    assert commits(seen({KEY: None}), before) == {
        "billing": (None, "unreadable"),
        "search": (None, None),
    }


def test_a_commit_is_of_these_records_only_where_the_leader_bears_it_out() -> None:
    def state(known_epoch: int | None, end_offset: int | None) -> str | None:
        return commits(seen({KEY: 7}, epochs=((0, 0, 7, 3, known_epoch, end_offset),)))["billing"][
            1
        ]

    assert state(3, 7) == state(3, 9) == state(2, 7) == "read"
    assert state(3, 6) == state(2, 9) == state(None, None) == "replaced"


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
