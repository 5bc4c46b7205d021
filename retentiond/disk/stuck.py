"""Retention that is stuck (KAFKA-9087 and its kind), told from outside and with its cause.

A broker pauses the cleaning of a partition while its folder moves to another log directory; a
move that stalls, or ends badly, leaves it paused, and the disk fills up in silence. Nothing in
Kafka's own metrics says so. Three signs, each over several readings and a quarter of an hour at
least, because a normal move, and brokers that look at their segments at different times, show
the same signs for a while.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from retentiond.disk.history import History, Moment, Patience, Traced
from retentiond.disk.replica import ReplicaKey
from retentiond.model import TopicPartition
from retentiond.wording.figures import say_about, say_bytes


class StuckCause(StrEnum):
    FUTURE_REPLICA = "future_replica"  # a move to another log directory makes no progress
    REPLICA_GROWS = "replica_grows"  # one broker removes nothing while the others do
    RETENTION_OVERDUE = "retention_overdue"  # Kafka's own retention leaves what is too old


class Stuck(NamedTuple):
    """``sentence``: what is seen, on which broker, and what to do."""

    at: TopicPartition
    cause: StuckCause
    sentence: str


@dataclass(frozen=True, slots=True)
class Overdue:
    """Records that Kafka's own retention should have removed: from the log start offset on."""

    log_start_offset: int
    old_before: int  # offset of the first record that may still be there
    bytes_per_record: float
    segment_bytes: int

    def up_to(self, offset: int) -> Overdue:
        """Only those before that offset."""
        return replace(self, old_before=min(self.old_before, offset))

    @property
    def size_bytes(self) -> int:
        return int((self.old_before - self.log_start_offset) * self.bytes_per_record)


def stuck_moves(history: History, patience: Patience) -> Iterator[Stuck]:
    """Future replicas that have not changed for too long."""
    for key, traced in history.future.items():
        if patience.is_over(traced.changed_at, history.now):
            yield Stuck(
                key.at,
                StuckCause.FUTURE_REPLICA,
                f"its move to {key.log_dir} on broker {key.broker} has stood at "
                f"{say_bytes(traced.size_bytes)} for {_passed(traced.changed_at, history.now)}, "
                "and until it ends that broker removes nothing of it (KAFKA-9087): let it go on "
                "(see to replica.alter.log.dirs.io.max.bytes.per.second), or call it off by "
                "moving the replica back to where it is",
            )


def uneven_replicas(history: History, patience: Patience) -> Iterator[Stuck]:
    """Replicas that lose nothing while all others of their partition do."""
    by_partition: defaultdict[TopicPartition, dict[ReplicaKey, Traced]] = defaultdict(dict)
    for key, traced in history.current.items():
        by_partition[key.at][key] = traced
    for at, replicas in by_partition.items():
        for key, traced in replicas.items():
            others = [each for other, each in replicas.items() if other != key]
            if others and _is_left_behind(traced, others, history.now, patience):
                least = min(each.size_bytes for each in others)
                yield Stuck(
                    at,
                    StuckCause.REPLICA_GROWS,
                    f"broker {key.broker} keeps {say_bytes(traced.size_bytes)} of it in "
                    f"{key.log_dir} and removes nothing, while every other replica shrinks (to "
                    f"{say_bytes(least)}): "
                    "its log cleaning is stuck (KAFKA-9087), so look for errors of LogCleaner "
                    "and LogManager in that broker's log, and restart it",
                )


def _is_left_behind(
    traced: Traced, others: Sequence[Traced], now: Moment, patience: Patience
) -> bool:
    """Whether each of the others has shrunk since it last did, and long enough ago."""
    last = traced.dropped_at[-1] if traced.dropped_at else traced.since
    return all(
        traced.size_bytes > other.size_bytes
        and any(drop > last and patience.is_over(drop, now) for drop in other.dropped_at)
        for other in others
    )


def standing(history: History, patience: Patience) -> set[TopicPartition]:
    """Partitions whose log start offset has not moved for long: perhaps it should have."""
    return {
        at
        for at, log_start in history.log_starts.items()
        if patience.is_over(log_start.since, history.now)
    }


def overdue_retention(overdue: Mapping[TopicPartition, Overdue]) -> Iterator[Stuck]:
    """Those where more than a segment should be gone."""
    for at, each in overdue.items():
        if each.size_bytes > each.segment_bytes:
            yield Stuck(
                at,
                StuckCause.RETENTION_OVERDUE,
                f"about {say_bytes(each.size_bytes)} from offset {each.log_start_offset} to "
                f"{each.old_before} are older than the topic's retention.ms, and its log start "
                "does not move: log cleaning is stuck on its leader (KAFKA-9087), so look for "
                "errors of LogCleaner and LogManager in that broker's log, and restart it",
            )


def _passed(since: Moment, now: Moment) -> str:
    return say_about(now.at_ms - since.at_ms)
