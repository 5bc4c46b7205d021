"""Writes the log on a thread of its own: whoever logs waits for no reader and no disk.

A pipe whose reader stands still blocks each write, and a full disk fails it. Neither may hold up a
cycle, or the end of the process. So lines wait in a bounded queue; what finds no room there or on
the disk is dropped and counted, and a line says how many once lines are written again.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

MOST_WAITING = 10_000
"""Lines that may wait for the reader: some minutes of a daemon's with debugging, days without."""

FINISH_S = 1.0
"""How long the end of the process waits for lines to be written."""


class LogWriter:
    """Stands in for stderr. ``told`` makes the line that says how many were dropped."""

    encoding = "utf-8"

    def __init__(
        self, descriptor: int, told: Callable[[int], str], most_waiting: int = MOST_WAITING
    ) -> None:
        self._descriptor = descriptor
        self._told = told
        self._most_waiting = most_waiting
        self.dropped = 0
        """Lines, since the start of the process."""
        self._untold = 0
        self._waiting: deque[str] = deque()
        self._begun = ""  # a line whose end is yet to be written
        self._is_mid_line = False  # on the disk: a write failed after a part of its line
        self._is_writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def write(self, text: str) -> int:
        with self._changed:
            self._begun += text
            if self._begun.endswith("\n"):
                self._enqueue()
        return len(text)

    def flush(self) -> None:
        """Waits for nobody."""
        with self._changed:
            if self._begun:
                self._enqueue()

    def finish(self, seconds: float = FINISH_S) -> None:
        """Gives what waits so much time to be written."""
        self.flush()
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._is_writing), seconds)

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def _enqueue(self) -> None:
        text, self._begun = self._begun, ""
        if len(self._waiting) >= self._most_waiting:
            self._drop(text)
            return
        self._waiting.append(text)
        self._changed.notify_all()

    def _drop(self, text: str) -> None:
        lines = text.count("\n")
        self.dropped += lines
        self._untold += lines

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                text, untold = self._waiting.popleft(), self._untold
                self._is_writing = True
            is_written = self._is_written(text)
            with self._changed:
                if not is_written:
                    self._drop(text)
            if is_written and untold and self._is_written(self._told(untold)):
                with self._changed:
                    self._untold -= untold
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()

    def _is_written(self, text: str) -> bool:
        """False: the disk is full, or nobody will ever read."""
        left = text.encode("utf-8", "backslashreplace")
        if self._is_mid_line:
            left = b"\n" + left
        while left:
            try:
                written = os.write(self._descriptor, left)
            except BlockingIOError:  # whoever shares the descriptor has set it so
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll()
                continue
            except OSError:
                return False
            self._is_mid_line = not left[:written].endswith(b"\n")
            left = left[written:]
        self._is_mid_line = False
        return True
