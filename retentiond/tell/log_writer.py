"""Writes the log on a thread of its own, so that logging waits for no reader and no disk.

A pipe whose reader stands still blocks every write, and on a full disk a write fails. Neither may
hold up a cycle or the end of the process. So lines wait in a bounded queue. A line is dropped and
counted if the queue or the disk is full. Once lines are written again, one of them says how many
were dropped.
"""

from __future__ import annotations

import os
import queue
import select
import threading
from collections.abc import Callable

MAX_WAITING = 10_000
"""How many lines may wait: some minutes of a daemon's lines with debugging, days without."""

FINISH_S = 1.0
"""How long the end of the process waits for lines to be written."""


class LogWriter:
    """Stands in for stderr. ``dropped_line`` makes the line that says how many were dropped."""

    encoding = "utf-8"

    def __init__(
        self, descriptor: int, dropped_line: Callable[[int], str], max_waiting: int = MAX_WAITING
    ) -> None:
        self._descriptor = descriptor
        self._dropped_line = dropped_line
        self.dropped = 0
        """How many lines were dropped since the start of the process."""
        self._unreported = 0  # dropped lines that no line has reported yet
        self._waiting: queue.Queue[str] = queue.Queue(max_waiting)
        self._begun = ""  # a line without its end
        self._is_mid_line = False  # the last write failed after a part of its line
        self._lock = threading.Lock()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def write(self, text: str) -> int:
        with self._lock:
            self._begun += text
            if self._begun.endswith("\n"):
                self._enqueue()
        return len(text)

    def flush(self) -> None:
        """Queues the line that was begun. Waits for nothing."""
        with self._lock:
            if self._begun:
                self._enqueue()

    def finish(self, seconds: float = FINISH_S) -> None:
        """Waits until the queued lines are written, for so many seconds at most."""
        self.flush()
        # As `queue.Queue.join`, which knows no limit.
        with self._waiting.all_tasks_done:
            self._waiting.all_tasks_done.wait_for(
                lambda: not self._waiting.unfinished_tasks, seconds
            )

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def _enqueue(self) -> None:
        text, self._begun = self._begun, ""
        try:
            self._waiting.put_nowait(text)
        except queue.Full:
            self._drop(text)

    def _drop(self, text: str) -> None:
        lines = text.count("\n")
        self.dropped += lines
        self._unreported += lines

    def _write_on(self) -> None:
        while True:
            text = self._waiting.get()
            with self._lock:
                unreported = self._unreported
            if not self._try_to_write(text):
                with self._lock:
                    self._drop(text)
            elif unreported and self._try_to_write(self._dropped_line(unreported)):
                with self._lock:
                    self._unreported -= unreported
            self._waiting.task_done()

    def _try_to_write(self, text: str) -> bool:
        """Whether the text was written. It can't be if the disk is full or the reader is gone."""
        left = text.encode("utf-8", "backslashreplace")
        if self._is_mid_line:
            left = b"\n" + left
        while left:
            try:
                written = os.write(self._descriptor, left)
            except BlockingIOError:  # another process has made the shared descriptor non-blocking
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
