"""The disks over the cycles of one process: what is there, and whose retention is stuck."""

from __future__ import annotations

from retentiond.collect.snapshot import Snapshot, partitions_of
from retentiond.disk.history import History, Moment, Patience
from retentiond.disk.overdue import look_up
from retentiond.disk.reader import DiskReader
from retentiond.disk.reading import DiskReading, sorted_out, unread
from retentiond.disk.stuck import (
    Stuck,
    overdue_retention,
    standing,
    stuck_moves,
    uneven_replicas,
)
from retentiond.kafka.port import Kafka
from retentiond.model import Failure, TopicPartition

CHECK_INTERVAL_MS = 5 * 60_000
"""``log.retention.check.interval.ms`` by default: records older than the forced retention may
stay for that long."""


class DiskWatch:
    """One for each process; a cycle calls `begin`, `look` and `stuck`, in that order."""

    def __init__(
        self, patience: Patience | None = None, check_interval_ms: int = CHECK_INTERVAL_MS
    ) -> None:
        self._reader = DiskReader()
        self._patience = patience or Patience()
        self._check_interval_ms = check_interval_ms
        self._history = History()
        self._first: Moment | None = None

    @property
    def can_tell(self) -> bool:
        """Whether it has looked for so long that what is not found stuck is not."""
        first = self._first
        return first is not None and self._patience.is_over(first, self._history.now)

    def begin(self, kafka: Kafka) -> None:
        """Starts reading on the side."""
        self._reader.begin(kafka.log_dirs)

    def look(self, snapshot: Snapshot) -> DiskReading:
        """What was found about the snapshot's partitions; it waits a moment at most."""
        found = self._reader.result()
        if isinstance(found, Failure):
            return unread(found)
        return sorted_out(found, partitions_of(snapshot))

    def stuck(self, kafka: Kafka, snapshot: Snapshot, reading: DiskReading) -> tuple[Stuck, ...]:
        """By partition and cause, with what this reading adds. It asks Kafka only about
        partitions whose log start has stood for long."""
        if reading.orphans:  # else no directory was read
            self._history = self._history.with_reading(
                reading, _log_starts(snapshot), snapshot.taken_at_ms
            )
            self._first = self._first or self._history.now
        compacted = {topic.name for topic in snapshot.topics if "compact" in topic.cleanup_policy}
        suspects = standing(self._history, self._patience)
        overdue = look_up(kafka, snapshot, reading, suspects, self._check_interval_ms)
        found = [
            *stuck_moves(self._history, self._patience),
            *(
                each  # the cleaner compacts each replica at its own time
                for each in uneven_replicas(self._history, self._patience)
                if each.at.topic not in compacted
            ),
            *overdue_retention(overdue),
        ]
        return tuple(sorted(found))


def _log_starts(snapshot: Snapshot) -> dict[TopicPartition, int]:
    return {
        at: each.log_start_offset
        for at, each in zip(partitions_of(snapshot), snapshot.partitions, strict=True)
        if each.log_start_offset is not None
    }
