"""stdout and stderr of a command as they may be: closed, full, read by nobody, unable to
show some letters.

A command's work is not undone by looking away, so no write to either raises: the command ends as it
would have. A result that could not be written costs the exit code 0, unless its reader has gone by
itself (``| head -1``). What is said on stderr is no result.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from retentiond.formatting import printable

LEAST_WIDTH = 40
"""Columns: where a terminal says that it has less, or none, its lines are broken by itself."""

_CODES_OF_SUCCESS = (None, 0, 3)  # 3: something was found, and nobody has seen what


class Stdout:
    """Stands for the stream. ``failure``: why something could not be written; what is printed then
    goes nowhere."""

    def __init__(self, stream: TextIO, *, is_closed: bool = False) -> None:
        self._stream = stream
        self._is_closed = is_closed
        self.reader_is_gone = False
        self.failure: str | None = None

    def write(self, text: str) -> int:
        if self._is_closed and text:
            self._lose(os.strerror(errno.EBADF))
        try:
            return self._stream.write(text)
        except OSError as error:
            return self._discard(error, len(text))

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._discard(error, 0)

    def _discard(self, error: OSError, written: int) -> int:
        """Discards what the stream still holds, and all that follows."""
        if isinstance(error, BrokenPipeError):
            self.reader_is_gone = True
        else:
            self._lose(error.strerror or str(error))
        _send_nowhere(self._stream)
        return written

    def _lose(self, why: str) -> None:
        self.reader_is_gone = True
        self.failure = self.failure or why

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Stderr:
    """Stands for the stream, whose disk may be full or whose reader gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def finish(self) -> None:
        """At the end: Python itself would try to write what is left, and end with 120."""
        try:
            self._stream.flush()
        except OSError:
            _send_nowhere(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _send_nowhere(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # a stream without a descriptor holds nothing back
        os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


@contextmanager
def any_streams() -> Iterator[None]:
    """Within it, commands may print whatever they like, and end with `settled`."""
    _fill_closed_descriptors()
    _widen()
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - for as long as it runs
    is_closed = sys.stdout is None
    sys.stdout = cast(TextIO, Stdout(_writable(sys.stdout), is_closed=is_closed))
    sys.stderr = cast(TextIO, Stderr(_writable(sys.stderr)))
    try:
        yield
    except SystemExit as ended:
        raise SystemExit(settled(ended.code)) from None
    else:
        raise SystemExit(settled(0))
    finally:
        sys.stdout.flush()
        # `run` writes to stderr on a thread of its own, which has yet to write what was said last.
        if (finish := getattr(sys.stderr, "finish", None)) is not None:
            finish()


def say_aside(sentence: str) -> None:
    """On stderr, beside the result. A name in it can't steer the terminal."""
    text = "\n".join(map(printable, sentence.split("\n")))
    print(f"retentiond: {text}", file=sys.stderr)


def settled(code: Any) -> Any:
    """The exit code, once all that was printed is written; says so where it can't be."""
    sys.stdout.flush()
    failure = getattr(sys.stdout, "failure", None)
    if failure is None:
        return code
    say_aside(
        f"the result can't be written to stdout ({failure}). What the command did is done: send "
        "its output elsewhere"
    )
    return 1 if code in _CODES_OF_SUCCESS else code


def _fill_closed_descriptors() -> None:
    """Else the next file that is opened gets the number, and with it what children print."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def _widen() -> None:
    """Rich prints nothing at all in no columns, and cuts figures short in a few."""
    said = os.environ.get("COLUMNS", "")
    columns = int(said) if said.isdecimal() else 0
    if said and not columns:
        del os.environ["COLUMNS"]
    if not columns:
        with contextlib.suppress(OSError):
            columns = os.get_terminal_size(1).columns
    if 0 < columns < LEAST_WIDTH:
        os.environ["COLUMNS"] = str(LEAST_WIDTH)


def _writable(stream: TextIO | None) -> TextIO:
    """Python has none where the descriptor was closed."""
    if stream is None:
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as it runs
    with contextlib.suppress(AttributeError, OSError, ValueError):  # a stream of its own
        cast(Any, stream).reconfigure(errors="backslashreplace")
    return stream
