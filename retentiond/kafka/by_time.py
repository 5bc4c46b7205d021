"""When "no record is that young" can be believed.

A broker looks up a time in the first segment that has, or had, a record of it or of later. Where
all such records of that segment are deleted and merely on disk until the broker's next check, it
finds nothing, whatever the segments behind hold. Any tool that deletes young records brings that
about, Kafka Streams among them. So the answer counts only where the newest time stamp on the disk,
deleted records included, says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from retentiond.model import Failure, TopicPartition

Found = dict[TopicPartition, int | Failure | None]
"""The first offset that is young, None: there is none."""

HIDDEN = Failure(
    "AGE_HIDDEN",
    "deleted records that are still on the leader's disk hide how old the others are; it removes "
    "them at its next check (log.retention.check.interval.ms)",
)


def offsets_at(
    timestamps_ms: Mapping[TopicPartition, int],
    look_up: Callable[[Mapping[TopicPartition, int]], Found],
    newest: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, object]],
) -> Found:
    """``look_up`` asks the brokers for times, ``newest`` for the largest time stamps that they
    have; -1: there is none; no number: it is not known."""
    found = look_up(timestamps_ms)
    none_young = {at: timestamps_ms[at] for at, offset in found.items() if offset is None}
    if not none_young:
        return found
    stamps = newest(none_young)
    doubtful = {
        at: time_ms for at, time_ms in none_young.items() if not _is_older(stamps.get(at), time_ms)
    }
    again = look_up(doubtful) if doubtful else {}  # a record may have come since
    return found | {at: HIDDEN if offset is None else offset for at, offset in again.items()}


def _is_older(newest_ms: object, than_ms: int) -> bool:
    """False where it is not known."""
    return isinstance(newest_ms, int) and newest_ms < than_ms
