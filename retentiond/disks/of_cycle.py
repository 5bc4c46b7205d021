"""What one cycle knows of the disks: sizes, and what its deletions free.

It is worked out after the last request, to be told, and before the first one where
``limits.worthwhile`` or a limit asks which deletions free most. So it can let a deletion wait, and
never make one larger. Whatever goes wrong here is told, and no deletion waits because of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retentiond.disks.broker_disks import BrokerDisks, DiskReport
from retentiond.disks.freed import FreedProgress, PendingFree, follow, offsets_of
from retentiond.disks.log_dirs import DiskReading
from retentiond.disks.predictions import Predictions, predict, tiered_partitions, with_predictions
from retentiond.errors import RetentiondError
from retentiond.model import PlanRow, TopicPartition, Verdict
from retentiond.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DisksOfCycle:
    """What a cycle knows of the disks. ``rows``: with their predicted bytes."""

    rows: tuple[PlanRow, ...]
    reading: DiskReading = field(default_factory=DiskReading)
    followed: FreedProgress = field(default_factory=FreedProgress)
    predictions: Predictions = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def frees(self) -> dict[TopicPartition, int]:
        """The bytes that each deletion frees, where they are known."""
        return {
            row.topic_partition: row.predicted_bytes
            for row in self.rows
            if row.verdict is Verdict.DELETE and row.predicted_bytes is not None
        }

    def report(self) -> DiskReport:
        """Without what a look for stuck partitions would find."""
        sizes = {at: self.reading.size_bytes(at) for at in self.reading.folders}
        return DiskReport(
            size_bytes={at: size for at, size in sizes.items() if size is not None},
            freed_bytes=self.followed.freed_by_topic,
            orphans=self.reading.orphans,
            log_bytes=self.reading.log_bytes,
            topic_bytes=self.reading.topic_bytes,
            space=self.reading.space,
            log_dirs=self.reading.log_dirs(),
            problems=self.problems,
        )


def read_disks(
    disks: BrokerDisks, snapshot: Snapshot, rows: Sequence[PlanRow], awaited: Sequence[PendingFree]
) -> DisksOfCycle:
    """What the reading, begun beside the snapshot's, has found; it waits a moment at most.
    ``awaited``: of earlier deletions."""
    try:
        reading = disks.reading(snapshot)
        followed = follow(awaited, reading, offsets_of(snapshot), snapshot.taken_at_ms)
        predictions = predict(rows, snapshot, reading, followed.awaited_bytes)
        rows_with_bytes = with_predictions(rows, predictions)
        # A tiered log's disks lose bytes to local.retention.* all the time: what a deletion has
        # freed there can't be told.
        tiered = tiered_partitions(snapshot)
        predictions = {at: by_replica for at, by_replica in predictions.items() if at not in tiered}
        return DisksOfCycle(rows_with_bytes, reading, followed, predictions, reading.problems)
    except Exception as error:  # noqa: BLE001 - the disks are no evidence: nothing waits for them
        return DisksOfCycle(
            tuple(rows), followed=FreedProgress(tuple(awaited)), problems=(unforeseen(error),)
        )


def unforeseen(error: Exception) -> str:
    """What is told of an error that concerns the disks alone."""
    if isinstance(error, RetentiondError):
        return str(error)
    return f"what is on disk can't be told ({type(error).__name__}: {error}); please report this"
