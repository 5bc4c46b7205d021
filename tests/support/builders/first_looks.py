"""Rows of plans to look at, and what the disks say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from retentiond.disks.broker_disks import DiskReport
from retentiond.model import PlanRow, Reason, TopicPartition
from retentiond.tell.report import CycleReport
from tests.support.builders.reports import report, row


def rest(reason: Reason = Reason.CONSUMED, topic: str = "orders", **changes: Any) -> PlanRow:
    """Records 10 to 200, consumed up to 100 by the slowest group, old up to 150."""
    made = replace(row(topic, reason=reason), **changes)
    if reason is Reason.CONSUMED and made.cutoff is not None:
        return replace(made, records=made.cutoff - (made.log_start_offset or 0))
    return made


def on_disk(
    rows: Iterable[PlanRow],
    sizes: Mapping[str, int],
    freed: Mapping[str, int],
    log_bytes: int | None = None,
    **plan: Any,
) -> CycleReport:
    """A plan of topics of one partition, by their names."""
    planned = [
        replace(each, predicted_bytes=freed.get(each.topic) if each.records else None)
        for each in rows
    ]
    size_bytes = {TopicPartition(name, 0): size for name, size in sizes.items()}
    return replace(report(planned, **plan), disk=DiskReport(size_bytes, log_bytes=log_bytes))
