"""A look, what it brings to memory, and the removals that it allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from retentiond.orphans.identity import Disks
from retentiond.orphans.look import Cluster, Terms, look
from retentiond.orphans.memory import MemoryFile
from retentiond.orphans.openers import OpenFiles, Unseen, open_files, running_broker
from retentiond.orphans.orphan import Fate, Look, Orphan
from retentiond.orphans.remove import DOWN, Journal, Remover, held_open
from retentiond.state.pause import read_pause

Approve = Callable[[Sequence[Orphan]], bool]
"""Asked before the first removal of a look, with all that may go."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Session:
    """``approve``: None looks only. ``stopping`` is asked before each removal.

    ``while_down``: removes also while the broker is down.
    """

    disks: Disks
    cluster: Cluster
    terms: Terms
    state_dir: Path
    journal: Journal
    approve: Approve | None = None
    stopping: Callable[[], bool] = lambda: False
    while_down: bool = True
    host_time_ms: Callable[[], int] = now_ms

    def run(self) -> Look:
        """Raises `RetentiondError`."""
        memory_file = MemoryFile(self.state_dir, self.disks)
        with memory_file.locked():
            taken, memory = look(
                self.disks, self.cluster, memory_file.read(), self.terms, self.host_time_ms
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
            except Unseen as unseen:
                yield orphan.kept(str(unseen))
                continue
            broker, files = known[log_dir]
            reason = held_open(orphan, files, broker)
            if broker is None and not self.while_down:
                reason = DOWN
            yield orphan if reason is None else orphan.kept(reason)

    def _removed(self, orphans: Sequence[Orphan], memory_file: MemoryFile) -> tuple[Orphan, ...]:
        remover = Remover(
            self.disks,
            self.cluster,
            memory_file,
            self.journal,
            brake=lambda: read_pause(self.state_dir),
            while_down=self.while_down,
        )
        return tuple(
            remover.remove(orphan)
            if orphan.fate is Fate.REMOVABLE and not self.stopping()
            else orphan
            for orphan in orphans
        )
