"""Rows of plans to look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from retentiond.model import PlanRow, Reason
from tests.unit.observe.reports import row


def rest(reason: Reason = Reason.CONSUMED, topic: str = "orders", **changes: Any) -> PlanRow:
    """Records 10 to 200, consumed up to 100 by the slowest group, old up to 150."""
    made = replace(row(topic, reason=reason), **changes)
    if reason is Reason.CONSUMED and made.cutoff is not None:
        return replace(made, records=made.cutoff - (made.log_start_offset or 0))
    return made
