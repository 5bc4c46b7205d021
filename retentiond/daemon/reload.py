"""Reads the configuration again, beside a daemon that goes on meanwhile.

At a SIGHUP it is read at once. With ``reload.watch`` somebody looks at its files before each cycle,
and what has changed counts once it stands still: an editor writes a file in parts.

A file may never come: a mount may hang. No thread that waits for one can be woken, so it waits
alone, and is given up after a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from retentiond.config import Config
from retentiond.config.files import ConfigFiles
from retentiond.config.no_policy import UnreadableFile
from retentiond.errors import ConfigError

RELOAD_TIMEOUT_S = 30.0

SETTLED_S = 5.0
"""Between two looks that find the same, before it counts."""


class Reading(NamedTuple):
    """``files``: what was read, whatever came of it. ``unreadable``: of a refused configuration,
    the fenced files of the one in force that can't be used now; None if that is not known."""

    outcome: Config | ConfigError
    files: ConfigFiles
    unreadable: tuple[UnreadableFile, ...] | None = None


class _Found(NamedTuple):
    """What a look or a reading has found. ``settled``: what counts from now on, if anything does.
    ``changed``: what differs and may still change, and when it was read."""

    settled: Reading | None = None
    changed: tuple[Reading, float] | None = None


class Reload:
    """One reading at a time. ``adopt`` takes what was read, ``refuse`` why nothing was, and
    `Reading.unreadable`. ``files``: those of the configuration in force."""

    def __init__(
        self,
        read: Callable[[], Reading],
        adopt: Callable[[Config], None],
        refuse: Callable[[ConfigError, tuple[UnreadableFile, ...] | None], None],
        clock: Callable[[], float] = time.monotonic,
        files: ConfigFiles | None = None,
    ) -> None:
        self._read = read
        self._adopt = adopt
        self._refuse = refuse
        self._clock = clock
        self._files = files or ConfigFiles()  # of the last reading, be it a refused one
        self._changed: tuple[Reading, float] | None = None
        self._lock = threading.Lock()
        self._under_way: int | None = None
        self._ended = threading.Event()
        self._count = 0
        self._began_s = 0.0
        self._is_asked_again = False
        self._has_told_late = False

    def begin(self) -> None:
        """Returns at once. What is asked for during a reading follows it: files may have changed
        behind it."""
        with self._lock:
            if self._under_way is not None:
                self._is_asked_again = True
                return
            self._has_told_late = False
            self._start(lambda: _Found(self._read()))

    def look(self, wait_s: float = 0.0) -> None:
        """Looks whether files have changed, and adopts what has settled. It waits that long for the
        end."""
        with self._lock:
            if self._under_way is None:
                self._start(self._look)
            ended = self._ended
        ended.wait(wait_s)

    def go_on(self) -> None:
        """Called now and then: gives up a reading that takes too long, and looks again at what has
        changed."""
        with self._lock:
            changed = self._changed
            is_late = (
                self._under_way is not None and self._clock() - self._began_s > RELOAD_TIMEOUT_S
            )
            if is_late:
                self._give_up()
        if changed is not None and self._clock() - changed[1] >= SETTLED_S:
            self.look()

    def _give_up(self) -> None:
        has_told, self._has_told_late = self._has_told_late, True
        self._end()
        if has_told:
            return
        self._refuse(
            ConfigError(
                f"it could not be read within {RELOAD_TIMEOUT_S:g} s, so the old configuration "
                "stays; see that its files, and every ${file:…} in them, can be read at once, "
                "then send SIGHUP again"
            ),
            None,
        )

    def _look(self) -> _Found:
        if self._files.is_unchanged():
            return _Found()
        if self._changed is None or not self._changed[0].files.is_unchanged():
            return _Found(changed=(self._read(), self._clock()))
        reading, since_s = self._changed
        if self._clock() - since_s < SETTLED_S:
            return _Found(changed=self._changed)
        return _Found(settled=reading)

    def _start(self, find: Callable[[], _Found]) -> None:
        self._count += 1
        self._under_way, self._began_s = self._count, self._clock()
        self._ended = threading.Event()
        threading.Thread(
            target=self._run, args=(self._count, find), name="reload", daemon=True
        ).start()

    def _end(self) -> None:
        self._under_way = None
        self._ended.set()
        if self._is_asked_again:
            self._is_asked_again = False
            self._start(lambda: _Found(self._read()))

    def _run(self, number: int, find: Callable[[], _Found]) -> None:
        try:
            found = find()
        except Exception as error:  # noqa: BLE001 - a bug must not pass for a reload
            refusal = ConfigError(f"it can't be read: {error!r}")
            found = _Found(Reading(refusal, self._files))
        with self._lock:
            if self._under_way != number:
                return  # given up meanwhile
            self._has_told_late = False
            self._changed = found.changed
            if found.settled is not None:
                outcome, self._files, unreadable = found.settled
                if isinstance(outcome, ConfigError):
                    self._refuse(outcome, unreadable)
                else:
                    self._adopt(outcome)
            self._end()
