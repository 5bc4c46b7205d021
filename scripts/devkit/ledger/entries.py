"""Enters into the book what a member of a classic or consumer group dictates."""

import json

from devkit.ledger.book import Book, Commit, Reset, Skip
from devkit.ledger.scenario import Group, Partition


class Entries:
    """Of one life of a member of ``group``; the lines are those of `devkit.ledger.dictation`."""

    def __init__(self, book: Book, group: Group) -> None:
        self._book = book
        self._group = group
        self._open: tuple[dict[int, int], float] | None = None  # a commit: offsets, sent at

    def enter(self, line: str) -> None:
        """Raises ValueError for what is no such line."""
        if not line:
            return
        name = self._group.name
        match json.loads(line):
            case ["saw", number, offset, sequence]:
                self._book.saw(name, self._partition(number), offset, sequence)
            case ["skipped", number, start, end, at_ms]:
                self._book.skipped(Skip(name, self._partition(number), start, end, at_ms))
            case ["was reset", number, offset, log_start, at_ms]:
                at = self._partition(number)
                self._book.was_reset(Reset(name, at, offset, log_start, at_ms))
            case ["asked", offsets, sent_ms]:
                self._open = dict(offsets), sent_ms
            case ["answered", acknowledged, ended_ms]:
                self._settle(set(acknowledged), ended_ms)
            case ["count", what]:
                self._book.count(what)
            case _:
                raise ValueError(f"a member of {name} says: {line}")

    def end(self, at_ms: float) -> None:
        """The process is gone: nobody waits any longer for an answer that has not been told."""
        self._settle(set(), at_ms)

    def _settle(self, acknowledged: set[int], ended_ms: float) -> None:
        if self._open is None:
            return
        offsets, sent_ms = self._open
        self._open = None
        commits = (
            (self._partition(number), Commit(offset, sent_ms, ended_ms, number in acknowledged))
            for number, offset in offsets.items()
        )
        self._book.committed(self._group.name, commits)

    def _partition(self, number: int) -> Partition:
        return (self._group.topic.name, number)
