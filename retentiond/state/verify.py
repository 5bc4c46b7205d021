"""Works a recorded deletion out again, from nothing but what the audit log holds.

It restates the rule a third time, and shares no code with the plan or the guard:

    cutoff <= min(every group's committed offset, retention offset, high watermark)

The plan's reading is older than the evidence, and the last stable offset is not recorded, so a
cutoff may lie below that bound. One above it was wrong, or the log was changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from retentiond.model import Outcome
from retentiond.state.records import DeletionRecord


def differences(deletion: DeletionRecord) -> tuple[str, ...]:
    """What of a deletion its own evidence does not bear out, a sentence each; none: all is well."""
    return tuple(_differences(deletion))


def _differences(deletion: DeletionRecord) -> Iterator[str]:
    row, cutoff = deletion.row, deletion.row.cutoff
    if cutoff is None or row.log_start_offset is None:
        yield "the cutoff or the log start offset is missing"
        return
    if not deletion.evidence:
        yield "no group is recorded that had read the records"
    for group in deletion.evidence:
        if group.committed_offset < cutoff:
            yield f"group {group.group_id} had committed {group.committed_offset} only"
    bounds = {
        "the plan's min committed offset": row.min_committed_offset,
        "the retention offset": row.retention_offset,
        "the high watermark": row.high_watermark,
    }
    for name, offset in bounds.items():
        if offset is None:
            yield f"{name} is missing"
        elif offset < cutoff:
            yield f"{name} was {offset}"
    if row.groups > len(deletion.evidence):
        yield f"the plan counted {row.groups} groups, and {len(deletion.evidence)} are recorded"
    if row.records != cutoff - row.log_start_offset:
        yield f"{row.records} records are recorded, from offset {row.log_start_offset} on"
    if deletion.evidence_at_ms > deletion.requested_at_ms:
        yield "the evidence was read after the request"
    if deletion.outcome is Outcome.DELETED and (deletion.low_watermark or 0) < cutoff:
        yield f"it counts as deleted, and the low watermark was {deletion.low_watermark}"
