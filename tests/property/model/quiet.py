"""What a cycle finds out beside its decisions, left out of the model: it bears on no promise."""

from __future__ import annotations

from retentiond.disk.watch import DiskWatch
from retentiond.kafka.port import Kafka
from retentiond.unread.watch import NOT_LOOKED, UnreadReport, UnreadWatch


class NoDisks(DiskWatch):
    """Reads nothing: the real one does so on a thread, which would take steps of its own."""

    def begin(self, kafka: Kafka) -> None: ...


class NothingUnread(UnreadWatch):
    """Asks nothing: look-ups by time after the deletions would be taken for evidence."""

    def look(self, *_: object, **__: object) -> UnreadReport:
        return NOT_LOOKED
