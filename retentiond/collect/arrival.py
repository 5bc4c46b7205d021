"""Where the partitions ended at a few moments in the past, which dates what arrived since.

A record's time stamp may be anything that its producer likes. When it arrived is known from
outside only by the ends that earlier readings saw: what lies at or above such an end arrived
after it was read, what lies below it before. That is enough to tell where the age of records
protects nothing, and where it keeps everything (`retentiond.explain.age`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retentiond.collect.snapshot import Snapshot
from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.config.duration import MINUTE_MS

MOST = 4
"""With half a consumed retention between them, one is always younger than it and one older."""


@dataclass(frozen=True, slots=True)
class EndsSeen:
    """High watermarks by partition, read at ``at_ms`` (epoch milliseconds) or shortly after."""

    at_ms: int
    high_watermarks: Mapping[int, int]


def ends_by_topic(snapshot: Snapshot) -> list[EndsSeen]:
    """What this reading sees, for each topic of the snapshot."""
    seen: list[dict[int, int]] = [{} for _ in snapshot.topics]
    for reading in snapshot.partitions:
        if reading.high_watermark is not None:
            seen[reading.topic][reading.partition] = reading.high_watermark
    return [EndsSeen(snapshot.taken_at_ms, ends) for ends in seen]


def with_ends(
    before: tuple[EndsSeen, ...], now: EndsSeen, policy: TopicPolicy | PolicyConflict
) -> tuple[EndsSeen, ...]:
    """The ends to remember of a topic; none where age is no bound.

    What was remembered ``before`` stays as it is while the last of it is young, so that most
    cycles have nothing to write.
    """
    if not isinstance(policy, TopicPolicy) or not policy.consumed_retention_ms:
        return ()
    if before and 0 <= now.at_ms - before[-1].at_ms < spacing_ms(policy.consumed_retention_ms):
        return before
    past = [seen for seen in before if seen.at_ms < now.at_ms]  # a clock may have been set back
    return (*past, now)[-MOST:]


def spacing_ms(consumed_retention_ms: int) -> int:
    return max(consumed_retention_ms // 2, MINUTE_MS)
