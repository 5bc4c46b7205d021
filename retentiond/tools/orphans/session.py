"""A look at a cluster, what it brings to memory, and the removals that it allows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from retentiond.clock import now_ms
from retentiond.kafka import brokers, log_dirs
from retentiond.kafka.client import Client
from retentiond.kafka.log_dirs import ClusterView
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure
from retentiond.state.pause import read_pause
from retentiond.tools.orphans.broker_process import (
    BrokerLogDirs,
    OpenFiles,
    OpenFilesUnknown,
    open_files,
    running_broker,
)
from retentiond.tools.orphans.memory import OrphanMemoryFile
from retentiond.tools.orphans.orphan import Fate, Orphan, Scan
from retentiond.tools.orphans.remove import DOWN, RemovalJournal, Remover, held_open
from retentiond.tools.orphans.scan import AssignmentSource, HostClocks, RemovalTerms, scan

Approve = Callable[[Sequence[Orphan]], bool]
"""Asked before the first removal of a look, with all that may go."""


HOSTS_CLOCKS = HostClocks(now_ms)


@dataclass(frozen=True, slots=True)
class Session:
    """``approve``: None looks only. ``stopping`` is asked before each removal.

    ``while_down``: removes also while the broker is down.
    """

    disks: BrokerLogDirs
    cluster: AssignmentSource
    terms: RemovalTerms
    state_dir: Path
    journal: RemovalJournal
    approve: Approve | None = None
    stopping: Callable[[], bool] = lambda: False
    while_down: bool = True
    clocks: HostClocks = HOSTS_CLOCKS

    def run(self) -> Scan:
        """Raises `RetentiondError`."""
        memory_file = OrphanMemoryFile(self.state_dir, self.disks)
        with memory_file.locked():
            taken, memory = scan(
                self.disks, self.cluster, memory_file.read(), self.terms, self.clocks
            )
            memory_file.write(memory)
            taken = replace(taken, orphans=tuple(self._closed(taken.orphans)))
            due = [orphan for orphan in taken.orphans if orphan.fate is Fate.REMOVABLE]
            if self.approve is None or not due or not self.approve(due):
                return taken
            return replace(taken, orphans=self._removed(taken.orphans, memory_file))

    def _closed(self, orphans: Sequence[Orphan]) -> Iterator[Orphan]:
        """What is held open, or may be at any moment, is kept; looking changes nothing."""
        known: dict[Path, tuple[int | None, OpenFiles]] = {}
        for orphan in orphans:
            if orphan.fate is not Fate.REMOVABLE:
                yield orphan
                continue
            log_dir = orphan.folder.log_dir
            try:
                if log_dir not in known:
                    broker = running_broker(log_dir)
                    known[log_dir] = (broker, open_files(broker))
            except OpenFilesUnknown as unseen:
                yield orphan.kept(str(unseen))
                continue
            broker, files = known[log_dir]
            reason = held_open(orphan, files, broker)
            if broker is None and not self.while_down:
                reason = DOWN
            yield orphan if reason is None else orphan.kept(reason)

    def _removed(
        self, orphans: Sequence[Orphan], memory_file: OrphanMemoryFile
    ) -> tuple[Orphan, ...]:
        remover = Remover(
            self.disks,
            self.cluster,
            memory_file,
            self.journal,
            why_paused=lambda: read_pause(self.state_dir),
            while_down=self.while_down,
        )
        return tuple(
            remover.remove(orphan)
            if orphan.fate is Fate.REMOVABLE and not self.stopping()
            else orphan
            for orphan in orphans
        )


class KafkaReplicas:
    def __init__(self, settings: ClientSettings) -> None:
        self._connection = Client(settings)

    def replicas(self, topics: Collection[str]) -> ClusterView:
        return log_dirs.read_replicas(self._connection, topics)

    def retention_ms(self, broker: int) -> int | Failure | None:
        return log_dirs.read_retention_ms(self._connection, broker)

    def time_ms(self) -> int | Failure | None:
        return brokers.cluster_time(self._connection)

    def close(self) -> None:
        self._connection.close()
