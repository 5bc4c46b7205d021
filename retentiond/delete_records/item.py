"""One partition on its way through ``retentiond delete-records``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from retentiond.kafka.deletions import Target
from retentiond.kafka.port import OffsetBound
from retentiond.model import Outcome, TopicPartition


@dataclass(frozen=True, slots=True)
class Item:
    """What is asked for, what was read, what came of it.

    ``target`` is the first offset to keep, or everything up to the high watermark; None where
    nothing is asked for, and ``error`` says why. ``log_start_offset`` and ``high_watermark`` are
    known after a preview only, ``predicted_bytes`` (on the disks of all replicas) after a dry
    run's. ``outcome`` stays `Outcome.NOT_ATTEMPTED` until there is one.
    """

    topic: str
    partition: int
    target: Target | None
    topic_id: str | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    outcome: Outcome = Outcome.NOT_ATTEMPTED
    low_watermark: int | None = None
    error: str | None = None
    predicted_bytes: int | None = None

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def is_pending(self) -> bool:
        """A request may go out for it."""
        return self.target is not None and self.outcome is Outcome.NOT_ATTEMPTED

    @property
    def has_failed(self) -> bool:
        """It was not done, or nobody knows; what was left out on purpose has not failed."""
        return self.outcome in (Outcome.FAILED, Outcome.UNKNOWN)

    @property
    def cutoff(self) -> int | None:
        """The target as an offset, where it is one or the high watermark is known."""
        return self.high_watermark if self.target is OffsetBound.HIGH_WATERMARK else self.target

    @property
    def records(self) -> int | None:
        """How many offsets the deletion spans, by the preview; None without one."""
        if self.target is None or self.outcome is Outcome.FAILED:
            return 0
        if self.cutoff is None or self.log_start_offset is None:
            return None
        return max(0, self.cutoff - self.log_start_offset)

    def failed(self, error: str) -> Item:
        """Refused: nothing was moved."""
        return replace(self, outcome=Outcome.FAILED, error=error)

    def left_out(self, reason: str) -> Item:
        """Nothing is asked for, and that is as it should be."""
        return replace(self, target=None, error=reason)
