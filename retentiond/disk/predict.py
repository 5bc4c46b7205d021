"""How many bytes a deletion frees on a disk, foretold from sizes and offsets.

A broker frees whole segments that lie wholly below the log start offset, and never the active
one; how the segments lie can't be seen from outside. So this is an estimate:

- *Bytes per record*: the replica's size, spread evenly over its offsets.
- *Segments* are as large as ``segment.bytes``, or as what arrives in ``segment.ms`` where that is
  less. The first one begins where the log begins on disk, and the last one is active.
- A log that still begins at offset 0 is cut at those segments: what the cutoff covers only in
  part stays. Elsewhere an earlier deletion has left the log start somewhere within the first
  segment, whose *dead bytes* below it count in the size: half a segment, by expectation. They
  go with the segment, as the covered part of the last one stays, so what is freed is by
  expectation just what the deleted records take.
- What Kafka's own retention removes anyway is not this deletion's doing: what exceeds
  ``retention.bytes`` by whole segments, and everything where ``retention.ms`` is no longer than
  the consumed retention.

An error of up to a segment for each replica remains; over many it evens out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """A deletion: the records from the log start offset to the cutoff, of those up to the end."""

    log_start_offset: int
    cutoff: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class SegmentRules:
    """What is known of how a topic's segments begin and end.

    ``records_per_ms``: how fast a partition grows, None where that can't be told.
    ``kafka_removes_all``: its own retention by time goes at least as far as the cutoff.
    """

    segment_bytes: int
    segment_ms: int | None = None
    retention_bytes: int | None = None
    records_per_ms: float | None = None
    kafka_removes_all: bool = False


def freed_bytes(size_bytes: int, cut: Cut, rules: SegmentRules) -> int:
    """What a replica of that size loses by the cut; never negative, and less than its size."""
    end = max(cut.end_offset, cut.log_start_offset)
    cutoff = min(cut.cutoff, end)
    if cutoff <= cut.log_start_offset or size_bytes <= 0 or rules.kafka_removes_all:
        return 0
    segment = _segment_bytes(size_bytes / (end - cut.log_start_offset), rules)
    closed = (math.ceil(size_bytes / segment) - 1) * segment
    if cut.log_start_offset == 0:
        freed = math.floor(size_bytes * cutoff / end / segment) * segment
    else:
        dead = min(segment, size_bytes) / 2
        share = (cutoff - cut.log_start_offset) / (end - cut.log_start_offset)
        freed = (size_bytes - dead) * share
    excess = size_bytes - (size_bytes if rules.retention_bytes is None else rules.retention_bytes)
    kafkas = math.floor(max(0, excess) / segment) * segment
    return max(0, int(min(freed, closed) - kafkas))


def _segment_bytes(bytes_per_record: float, rules: SegmentRules) -> float:
    """As large as a segment becomes, and at least as large as a record."""
    segment = float(rules.segment_bytes)
    if rules.segment_ms is not None and rules.records_per_ms is not None:
        segment = min(segment, rules.records_per_ms * rules.segment_ms * bytes_per_record)
    return max(segment, bytes_per_record, 1.0)
