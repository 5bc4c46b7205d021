"""Reads the disks beside the cycle, so that no slow disk or silent broker holds it up."""

from __future__ import annotations

import threading
from collections.abc import Callable

from retentiond.errors import RetentiondError
from retentiond.kafka.port import LogDirs
from retentiond.model import Failure

PATIENCE_S = 1.0
"""How long a cycle that has come to its decision still waits for the disks."""

LATE = Failure("REQUEST_TIMED_OUT", "a broker has not answered yet; the next cycle asks again")


class DiskReader:
    """At most one reading is under way: one that a silent broker holds up is not joined by more."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._thread: threading.Thread | None = None
        self._found: LogDirs | Failure = LATE
        self._is_old = False  # what is under way was begun for an earlier cycle

    def begin(self, read: Callable[[], LogDirs]) -> None:
        """Starts a reading; nothing, while an earlier one has not ended."""
        self._is_old = self._thread is not None and self._thread.is_alive()
        if self._is_old:
            return
        self._found = LATE
        self._thread = threading.Thread(
            target=self._read, args=(read,), name="read-disks", daemon=True
        )
        self._thread.start()

    def result(self) -> LogDirs | Failure:
        """What was found, if it comes within the patience."""
        if self._thread is None or self._is_old:
            return LATE
        self._thread.join(self._patience_s)
        return self._found

    def _read(self, read: Callable[[], LogDirs]) -> None:
        try:
            self._found = read()
        except RetentiondError as error:
            self._found = Failure(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it was, the disks are not known
            self._found = Failure(type(error).__name__, str(error) or "the reading failed")
