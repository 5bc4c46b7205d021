"""What a member in a process of its own tells the bench, line by line, for the book.

The process may be killed at any moment, and still no commit may be missing from the book: that
would be a false alarm, or hide a true one. So a member tells what it has read and which commit it
asks for before it asks, and the answer afterwards. A commit whose answer is no longer told is
entered as one that may have been done (`devkit.ledger.entries`).

A line is a JSON array, its kind first; a blank one says that the member is alive. No module of
the book is imported here: a member begins often, and numpy takes its time.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TextIO


class Dictation:
    """Onto ``stream``; what `flush` and `asked` have returned from is told, whatever comes.

    Partitions are numbers, of the one topic that a member reads; times are epoch milliseconds.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def saw(self, number: int, offset: int, sequence: int | None) -> None:
        self._say("saw", number, offset, sequence)

    def skipped(self, number: int, start: int, end: int, at_ms: float) -> None:
        self._say("skipped", number, start, end, at_ms)

    def was_reset(self, number: int, offset: int, log_start: int, at_ms: float) -> None:
        self._say("was reset", number, offset, log_start, at_ms)

    def asked(self, offsets: Mapping[int, int], sent_ms: float) -> None:
        """A commit goes out when this has returned, one at a time; ``offsets`` by partition."""
        self._say("asked", list(offsets.items()), sent_ms)
        self._stream.flush()

    def answered(self, acknowledged: Iterable[int], ended_ms: float) -> None:
        """Or given up, as to all partitions but those."""
        self._say("answered", list(acknowledged), ended_ms)

    def count(self, what: str) -> None:
        self._say("count", what)

    def flush(self) -> None:
        """A sign of life."""
        print(file=self._stream, flush=True)

    def _say(self, *words: object) -> None:
        print(json.dumps(words), file=self._stream)
