"""Looking up offsets in the commits of a snapshot, against a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from retentiond.snapshot import COMMIT_SCHEMA, NOWHERE, offsets_beside

Row = tuple[int, int, int]
"""Group, partition and offset."""


def table(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"group_id": group, "partition_id": partition, "offset": offset, "leader_epoch": None}
            for group, partition, offset in rows
        ],
        schema=COMMIT_SCHEMA,
    )


FEW = st.integers(0, 3)
SCATTERED = st.sampled_from([0, 1, 70_000, 2_000_000])
"""Too large for a table of all groups and partitions."""


def two_tables(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    rows = st.lists(st.tuples(FEW, numbers, st.integers(0, 2**62)), max_size=12)
    return st.tuples(rows, rows)


@given(st.one_of(two_tables(FEW), two_tables(SCATTERED)))
def test_an_offset_is_that_of_the_first_commit_of_the_same_group_and_partition(
    tables: tuple[Sequence[Row], Sequence[Row]],
) -> None:
    rows, commits = tables
    first = {(group, partition): offset for group, partition, offset in reversed(commits)}

    found = offsets_beside(table(rows), table(commits))

    assert found.tolist() == [first.get(each[:2], NOWHERE) for each in rows]
