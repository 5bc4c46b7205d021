"""Child processes that cannot outlive this one."""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from devkit.embedded.errors import EmbeddedKafkaError

LEASH = Path(__file__).with_name("leash.py")


def leashed(command: Sequence[str]) -> list[str]:
    """The command line that runs ``command`` until it ends or this process does."""
    return [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command]


def run(command: Sequence[str], timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end, stdout and stderr captured apart.

    Raises EmbeddedKafkaError when it takes longer; it is killed then.
    """
    try:
        return subprocess.run(
            leashed(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise EmbeddedKafkaError(
            f"{shlex.join(command)} did not end in {timeout_seconds:g} s and was killed."
        ) from exc


class Spawner:
    """Starts long-lived processes from a thread that stays until ``close``.

    The kernel ties a leashed process to the *thread* that started it, so a caller's worker
    thread that ends would take its broker with it. When the interpreter exits without
    ``close``, this thread ends too, and so do the processes.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-spawner")

    def spawn(self, command: Sequence[str], log_file: Path) -> subprocess.Popen[bytes]:
        """Start ``command`` in a session of its own (a terminal's Ctrl-C does not reach it),
        its stdout and stderr appended to ``log_file``."""
        return self._thread.submit(_popen, leashed(command), log_file).result()

    def close(self) -> None:
        """End the thread, and with it whatever it started."""
        self._thread.shutdown(wait=True)


def _popen(command: Sequence[str], log_file: Path) -> subprocess.Popen[bytes]:
    with log_file.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
