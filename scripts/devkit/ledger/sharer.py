"""Keeps a member of a share group going, and enters what it is given."""

import time
from pathlib import Path
from typing import ClassVar

from devkit.ledger.book import Book
from devkit.ledger.keeper import Keeper
from devkit.ledger.scenario import Group


class Sharer(Keeper):
    """Of `devkit.ledger.share_member`."""

    kind: ClassVar[str] = "share members"

    def __init__(self, servers: str, group: Group, book: Book, seed: str, log_file: Path) -> None:
        super().__init__(group, book, seed, log_file)
        self._servers = servers

    def _command(self) -> list[str]:
        arguments = (self._servers, self.group.name, self.group.topic.name)
        return ["-m", "devkit.ledger.share_member", *arguments]

    def _live(self) -> None:
        ends_at = time.monotonic() + self._random.uniform(8, 30)
        for line in self._lines():
            self._enter(line)
            if time.monotonic() > ends_at and not self._calm.is_set() and not self._asked:
                self._end()

    def _end(self) -> None:
        """With or without a farewell."""
        with self._lock:
            if self._random.random() < 0.5:
                self._ask_to_end()
                self._book.count("share members stopped")
            else:
                self._kill()
                self._book.count("share members killed")

    def _enter(self, line: str) -> None:
        if not line:
            return
        words = line.split()
        number, offset = int(words[0]), int(words[1])
        sequence = None if words[2] == "None" else int(words[2])
        partition = (self.group.topic.name, number)
        self._book.shares(self.group.name, partition, offset, sequence, float(words[3]))
