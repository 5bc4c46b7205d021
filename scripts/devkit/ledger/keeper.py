"""Keeps a member of a group going, in a process of its own."""

import os
import random
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from devkit.embedded.processes import leashed
from devkit.ledger.book import Book
from devkit.ledger.record import now_ms
from devkit.ledger.scenario import Group
from devkit.waiting import came_true

AGAIN_SECONDS = 0.5
END_SECONDS = 60.0
ASKED = (0, -signal.SIGTERM, -signal.SIGKILL, -signal.SIGUSR1)
"""How a member ends that was asked to, perhaps before it could listen."""

SCRIPTS = Path(__file__).parents[2]


class Keeper(ABC):
    """One life of a member after another, each a process, looked after by a thread.

    A member says something all the time, if only a blank line. One that is silent for
    ``silent_seconds`` hangs in its client library; it is killed, and counted as ``hung``. What
    it has told until then is read to the end. ``error`` says what has broken down for good.
    """

    kind: ClassVar[str]
    """What the members are in the counts of the book."""

    silent_seconds: ClassVar[float] = 20.0  # a client waits up to 15 s for an answer

    def __init__(self, servers: str, group: Group, book: Book, seed: str, log_file: Path) -> None:
        self.group = group
        self.error: str | None = None
        self._servers = servers
        self._book = book
        self._random = random.Random(seed)
        self._log_file = log_file
        self._calm = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()  # or a member might begin unaware of what is asked of it
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False  # the member of this life has been asked to end, or killed
        self._killed_ms: float | None = None
        self._thread = threading.Thread(
            target=self._guarded, name=f"keeper-{group.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def calm_down(self) -> None:
        """From now on only read, with a new member that has fetched nothing ahead."""
        with self._lock:
            self._calm.set()
            self._ask_to_end()

    def stop(self) -> None:
        with self._lock:
            self._stop.set()
            self._ask_to_end()

    def join(self) -> None:
        """Return when it has ended, or ``error`` says why not."""
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            self.error = f"a member of {self.group.name} did not end"
            if self._process is not None:
                self._process.kill()

    def tell_renewed(self) -> None:
        """A topic was deleted and created again: see `devkit.ledger.member`."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGUSR1)

    @abstractmethod
    def _command(self) -> list[str]:
        """The interpreter's arguments for a new life."""

    @abstractmethod
    def _live(self) -> None:
        """Enter what one life tells: its ``_lines()``."""

    def _lines(self) -> Iterator[str]:
        """Of a new life, until it has ended; a blank one is only a sign of life."""
        process = self._begin()
        if process is None or process.stdout is None:
            return
        hung = False
        with process:
            for line in lines_of(process.stdout.fileno(), self.silent_seconds):
                if line is None:
                    hung = True
                    process.kill()
                else:
                    yield line
        if hung:
            self._book.count(f"{self.kind} hung")
        elif process.returncode not in (ASKED if self._asked else (0,)):
            self._died(process.returncode)

    def _died(self, _exit_code: int) -> None:
        """Not as it should; the exit code is as of `subprocess`."""
        self._book.count(f"{self.kind} died")

    def _ask_to_end(self) -> None:
        self._asked = True
        if self._process is not None:
            self._process.terminate()

    def _kill(self) -> None:
        self._asked = True
        self._killed_ms = now_ms()
        if self._process is not None:
            self._process.kill()

    def _freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT when the time is over or the end is asked for."""
        process = self._process
        if process is not None:
            process.send_signal(signal.SIGSTOP)
            self._stop.wait(seconds)
            process.send_signal(signal.SIGCONT)

    def _guarded(self) -> None:
        try:
            while not self._stop.is_set():
                self._live()
                self._stop.wait(AGAIN_SECONDS)
                self._stay_away(0, 5)
        except Exception:  # noqa: BLE001 - a thread's end must be told
            self.error = f"a member of {self.group.name}: {traceback.format_exc()}"

    def _stay_away(self, least: float, most: float) -> None:
        """Some seconds, unless all are to calm down or to stop."""
        came_true(
            lambda: self._calm.is_set() or self._stop.is_set(), self._random.uniform(least, most)
        )

    def _begin(self) -> "subprocess.Popen[bytes] | None":
        with self._lock, self._log_file.open("ab") as log:
            if self._stop.is_set():
                return None
            self._asked, self._killed_ms = False, None
            self._process = subprocess.Popen(
                leashed([sys.executable, *self._command()]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
            )
            return self._process


def lines_of(source: int, silent_seconds: float) -> Iterator[str | None]:
    """Each line as it comes, until the other end is closed; None whenever none came for so long.

    ``source`` is a file descriptor that nobody else reads. What a process was killed in the midst
    of is no line.
    """
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while True:
            if not selector.select(silent_seconds):
                yield None
                continue
            part = os.read(source, 65_536)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)
