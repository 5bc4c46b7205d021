"""Reads the configuration again, beside a daemon that goes on meanwhile.

At a SIGHUP it is read at once. With ``reload.watch`` somebody looks at its files before each cycle,
and what has changed counts once it stands still: an editor writes a file in parts. One file that
never stands still stays as it was, and keeps no change of another file out for long.

A reading may never end. No thread that waits can be woken, so it waits alone, and is given up after
a time; a look then begins no further one.
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

UNSETTLED_S = 15.0
"""For so long all wait for a file that doesn't stand still. They may belong together."""

UNSETTLED_LOOK_S = 30.0
"""After that, between two looks."""

TELL_UNSETTLED_S = 180.0
"""After that it is told."""


class Reading(NamedTuple):
    """``files``: what was read, whatever came of it. ``unreadable``: of a refused configuration,
    the fenced files of the one in force that can't be used now; None if that is not known."""

    outcome: Config | ConfigError
    files: ConfigFiles
    unreadable: tuple[UnreadableFile, ...] | None = None


class _Look(NamedTuple):
    """What comes of a look or a reading. ``settled``: what counts from now on, if anything does.
    ``changed``: what differs and may still change, and when it was read."""

    settled: Reading | None = None
    changed: tuple[Reading, float] | None = None


Read = Callable[[Callable[[], ConfigFiles]], Reading]
"""Reads the configuration with files that are made so."""


class Reload:
    """One reading at a time. ``adopt`` takes what was read, ``refuse`` why nothing was, and
    `Reading.unreadable`. ``files``: those of the configuration in force. ``tell_unsettled`` gets
    the files that have not stood still for minutes, and none once they have."""

    def __init__(
        self,
        read: Read,
        adopt: Callable[[Config], None],
        refuse: Callable[[ConfigError, tuple[UnreadableFile, ...] | None], None],
        clock: Callable[[], float] = time.monotonic,
        files: ConfigFiles | None = None,
        *,
        tell_unsettled: Callable[[tuple[str, ...]], None] = lambda _files: None,
    ) -> None:
        self._read = read
        self._adopt = adopt
        self._refuse = refuse
        self._clock = clock
        self._tell_unsettled = tell_unsettled
        self._files = files or ConfigFiles()  # of the last reading, be it a refused one
        self._changed: tuple[Reading, float] | None = None
        self._unsettled: dict[str, float] = {}  # since when, by path
        self._lock = threading.Lock()
        self._under_way: int | None = None
        self._thread = threading.Thread()
        self._given_up = threading.Thread()
        self._ended = threading.Event()
        self._count = 0
        self._began_s = 0.0
        self._looked_s = 0.0
        self._is_asked_again = False
        self._has_told_late = False
        self.is_outdated = False
        """Whether a look has found other files than those that were read last."""

    def begin(self) -> None:
        """Returns at once. What is asked for during a reading follows it: files may have changed
        behind it."""
        with self._lock:
            if self._under_way is not None:
                self._is_asked_again = True
                return
            self._has_told_late = False
            self._start(lambda: _Look(self._read(ConfigFiles)))

    def look(self, wait_s: float = 0.0, *, adopts: bool = True) -> None:
        """Looks whether files have changed, and ``adopts`` what has settled. It waits that long for
        the end."""
        with self._lock:
            if self._under_way is None and not self._given_up.is_alive():
                self._start(self._look if adopts else self._look_only)
            ended = self._ended
        ended.wait(wait_s)

    def go_on(self, *, is_refused: bool = False, watches: bool = True) -> None:
        """Called now and then: gives up a reading that takes too long, and looks again at what has
        changed, or has been refused."""
        with self._lock:
            changed = self._changed
            is_late = (
                self._under_way is not None and self._clock() - self._began_s > RELOAD_TIMEOUT_S
            )
            if is_late:
                self._give_up()
        oldest_s = min(self._unsettled.values(), default=self._clock())
        is_usual = self._clock() - oldest_s < UNSETTLED_S
        pause_s = SETTLED_S if is_usual else UNSETTLED_LOOK_S
        if changed is not None and self._clock() - changed[1] >= pause_s:
            self.look()
        elif is_refused and self._clock() - self._looked_s >= pause_s:
            self.look(adopts=watches)

    def _give_up(self) -> None:
        has_told, self._has_told_late = self._has_told_late, True
        self._given_up = self._thread
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

    def _look_only(self) -> _Look:
        self._looked_s = self._clock()
        self.is_outdated = bool(self._files.changed_in(self._files.look_again()))
        return _Look(changed=self._changed)

    def _look(self) -> _Look:
        self._looked_s = self._clock()
        changed = self._files.changed_in(self._files.look_again())
        self.is_outdated = bool(changed)
        if not changed:
            self._settle({})
            return _Look()
        if self._changed is None:
            return _Look(changed=(self._read(ConfigFiles), self._clock()))
        reading, since_s = self._changed
        if self._clock() - since_s < SETTLED_S:
            return _Look(changed=self._changed)
        written = reading.files.written_until(reading.files.look_again())
        self._settle({path: self._unsettled.get(path, since_s) for path in written})
        if not written:
            return _Look(settled=reading)
        oldest_s = min(self._unsettled.values())
        if changed - written and self._clock() - oldest_s >= UNSETTLED_S:
            without = self._read(lambda: ConfigFiles(written, earlier=self._files))
            if not reading.files.written_until(reading.files.look_again()) - written:
                return _Look(settled=without)
        return _Look(changed=(self._read(ConfigFiles), self._clock()))

    def _settle(self, unsettled: dict[str, float]) -> None:
        before = self._unsettled
        self._unsettled = unsettled
        late_s = self._clock() - TELL_UNSETTLED_S
        if before or unsettled:
            self._tell_unsettled(
                tuple(sorted(path for path, since_s in unsettled.items() if since_s <= late_s))
            )

    def _start(self, find: Callable[[], _Look]) -> None:
        self._count += 1
        self._under_way, self._began_s = self._count, self._clock()
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._count, find), name="reload", daemon=True
        )
        self._thread.start()

    def _end(self) -> None:
        self._under_way = None
        self._ended.set()
        if self._is_asked_again:
            self._is_asked_again = False
            self._start(lambda: _Look(self._read(ConfigFiles)))

    def _run(self, number: int, find: Callable[[], _Look]) -> None:
        try:
            look = find()
        except Exception as error:  # noqa: BLE001 - a bug must not pass for a reload
            refusal = ConfigError(f"it can't be read: {error!r}")
            look = _Look(Reading(refusal, self._files))
        with self._lock:
            if self._under_way != number:
                return  # given up meanwhile
            self._has_told_late = False
            self._changed = look.changed
            if look.settled is not None:
                outcome, self._files, unreadable = look.settled
                self.is_outdated = False
                if isinstance(outcome, ConfigError):
                    self._refuse(outcome, unreadable)
                else:
                    self._adopt(outcome)
            self._end()
