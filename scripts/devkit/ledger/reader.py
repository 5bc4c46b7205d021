"""Keeps a member of a classic or consumer group going, with its habits."""

from pathlib import Path
from typing import ClassVar

from devkit.ledger.book import Book
from devkit.ledger.clock import now_ms
from devkit.ledger.entries import Entries
from devkit.ledger.keeper import Keeper
from devkit.ledger.scenario import Group, Habit


class Reader(Keeper):
    """Of `devkit.ledger.group_member`."""

    kind: ClassVar[str] = "consumers"

    def __init__(self, servers: str, group: Group, book: Book, seed: str, log_file: Path) -> None:
        super().__init__(group, book, seed, log_file)
        self._servers = servers
        self._habits = [Habit.LAG, Habit.STOP, Habit.CRASH]
        if group.rewinds:
            self._habits += [Habit.REWIND, Habit.REWIND]

    def _command(self) -> list[str]:
        return [
            *("-m", "devkit.ledger.group_member"),
            self._servers,
            self.group.name,
            self.group.topic.name,
            self.group.protocol,
            "" if self._calm.is_set() else ",".join(self._habits),
            str(self._random.random()),
        ]

    def _live(self) -> None:
        entries = Entries(self._book, self.group)
        for line in self._lines():
            entries.enter(line)
        entries.end(now_ms())

    def _died(self, exit_code: int) -> None:
        """A signal is the client library's affair, and an exit code ours."""
        if exit_code > 0:
            raise ChildProcessError(f"it ended with exit code {exit_code}: see {self._log_file}")
        super()._died(exit_code)
