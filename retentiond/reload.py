"""Reads the configuration again, beside a daemon that goes on meanwhile.

A file may never come: a mount may hang. No thread that waits for one can be woken, so it waits
alone, and is given up after a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from retentiond.config import Config
from retentiond.errors import ConfigError

RELOAD_TIMEOUT_S = 30.0
"""How long a reload may take to read its files."""


class Reload:
    """One reading at a time. ``adopt`` takes what was read, ``refuse`` why nothing was."""

    def __init__(
        self,
        load: Callable[[], Config],
        adopt: Callable[[Config], None],
        refuse: Callable[[ConfigError], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._adopt = adopt
        self._refuse = refuse
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: int | None = None
        self._count = 0
        self._began_s = 0.0
        self._is_asked_again = False

    def begin(self) -> None:
        """Returns at once. What is asked for during a reading follows it: files may have changed
        behind it."""
        with self._lock:
            if self._under_way is not None:
                self._is_asked_again = True
                return
            self._start()

    def give_up_late(self) -> None:
        """Refuses a reading that takes too long. It is called now and then."""
        with self._lock:
            is_late = (
                self._under_way is not None and self._clock() - self._began_s > RELOAD_TIMEOUT_S
            )
            if not is_late:
                return
            self._end()
            self._refuse(
                ConfigError(
                    f"it could not be read within {RELOAD_TIMEOUT_S:g} s, so the old configuration "
                    "stays; see that its files, and every ${file:…} in them, can be read at once, "
                    "then send SIGHUP again"
                )
            )

    def _start(self) -> None:
        self._count += 1
        self._under_way, self._began_s = self._count, self._clock()
        threading.Thread(target=self._read, args=(self._count,), name="reload", daemon=True).start()

    def _end(self) -> None:
        self._under_way = None
        if self._is_asked_again:
            self._is_asked_again = False
            self._start()

    def _read(self, number: int) -> None:
        read: Config | ConfigError
        try:
            read = self._load()
        except ConfigError as error:
            read = error
        except Exception as error:  # noqa: BLE001 - a bug must not pass for a reload
            read = ConfigError(f"it can't be read: {error!r}")
        with self._lock:
            if self._under_way != number:
                return  # given up meanwhile
            if isinstance(read, ConfigError):
                self._refuse(read)
            else:
                self._adopt(read)
            self._end()
