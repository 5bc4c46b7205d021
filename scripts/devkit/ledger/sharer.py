"""Keeps a member of a share group going, and enters what it is given."""

import random
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from devkit.embedded.processes import leashed
from devkit.ledger.book import Book
from devkit.ledger.scenario import Group

AGAIN_SECONDS = 0.5
END_SECONDS = 30.0


class Sharer:
    """A `devkit.ledger.share_member`; when that dies, or is killed, another follows.

    ``error`` says what has broken down for good.
    """

    def __init__(self, servers: str, group: Group, book: Book, seed: str, log_file: Path) -> None:
        self.group = group
        self.error: str | None = None
        self._servers = servers
        self._book = book
        self._random = random.Random(seed)
        self._log_file = log_file
        self._calm = threading.Event()
        self._stop = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(
            target=self._guarded, name=f"sharer-{group.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def calm_down(self) -> None:
        """From now on only read, with a new member."""
        self._calm.set()
        if self._process is not None:
            self._process.terminate()

    def stop(self) -> None:
        """Ask for the end."""
        self._stop.set()
        if self._process is not None:
            self._process.terminate()

    def join(self) -> None:
        """Return when it has ended, or ``error`` says why not."""
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            self.error = f"a member of {self.group.name} did not end"
            if self._process is not None:
                self._process.kill()

    def _guarded(self) -> None:
        try:
            while not self._stop.is_set():
                self._live()
                pause = AGAIN_SECONDS if self._calm.is_set() else self._random.uniform(0.5, 6)
                self._stop.wait(pause)
        except Exception:  # noqa: BLE001 - a thread's end must be told
            self.error = f"a member of {self.group.name}: {traceback.format_exc()}"

    def _live(self) -> None:
        arguments = (self._servers, self.group.name, self.group.topic.name)
        command = [sys.executable, "-m", "devkit.ledger.share_member", *arguments]
        with self._log_file.open("ab") as log:
            self._process = subprocess.Popen(
                leashed(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        ends_at = time.monotonic() + self._random.uniform(8, 30)
        killed = False
        with self._process as process:
            for line in process.stdout or ():
                self._enter(line)
                if time.monotonic() > ends_at and not self._calm.is_set() and not killed:
                    killed = True
                    self._end(process)
        if process.returncode and not killed and not self._stop.is_set():
            self._book.count("share members died")

    def _end(self, process: "subprocess.Popen[str]") -> None:
        """With or without a farewell."""
        if self._random.random() < 0.5:
            process.terminate()
            self._book.count("share members stopped")
        else:
            process.kill()
            self._book.count("share members killed")

    def _enter(self, line: str) -> None:
        words = line.split()
        if not line.endswith("\n"):  # it was killed in the midst of it
            return
        number, offset = int(words[0]), int(words[1])
        sequence = None if words[2] == "None" else int(words[2])
        partition = (self.group.topic.name, number)
        self._book.shares(self.group.name, partition, offset, sequence, float(words[3]))
