"""stdout, whose reader may go before the end, as in ``| head -1``.

What is printed then goes nowhere, and the command ends as it would have: an exit code tells of its
work, which nobody undoes by looking away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, TypeVar

T = TypeVar("T")


class Stdout:
    """In place of the stream, of which it has everything else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.reader_is_gone = False

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            return self._discard(len(text))

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._discard(0)

    def _discard(self, written: int) -> int:
        """From now on, and what the stream still holds."""
        self.reader_is_gone = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def while_read(values: Iterable[T]) -> Iterator[T]:
    """Those that somebody still reads: a long list ends with its reader."""
    for value in values:
        if getattr(sys.stdout, "reader_is_gone", False):
            return
        yield value
