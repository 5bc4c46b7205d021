"""Spark's answer as rows of Python, in positions instead of names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from retentiond.model import Reason

REASONS = {reason.value: reason for reason in Reason}


class Decided(NamedTuple):
    """What a row of the plan takes of `judged_partitions`; the rest of it led to the decision."""

    partition_id: int
    reason: Reason
    groups: int | None
    min_committed_offset: int | None
    cutoff: int | None
    binding_group_id: int | None
    binding_committed_offset: int | None
    records: int


def decided_rows(judged: pa.Table) -> Iterator[Decided]:
    """The rows of `judged_partitions`, sorted by partition."""
    told = judged.select(Decided._fields).sort_by("partition_id")
    columns = (column.to_pylist() for column in told.columns)
    for partition_id, reason, *rest in zip(*columns, strict=True):
        yield Decided(partition_id, REASONS[reason], *rest)
