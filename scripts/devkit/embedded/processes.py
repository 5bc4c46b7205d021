"""Child processes that cannot outlive this one, and the Java that many of them run in."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path


class EmbeddedKafkaError(Exception):
    """The embedded Kafka could not be fetched, started, stopped or asked."""


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


MINIMUM_VERSION = 17  # Kafka 4 and Spark 4


@dataclass(frozen=True, slots=True)
class Java:
    """``path``: the executable; ``banner``: what ``java -version`` prints, one build's name."""

    path: str
    banner: str


def find_java() -> Java:
    """``$JAVA_HOME``'s java, else the one on ``$PATH``, whichever first is new enough.

    Raises EmbeddedKafkaError when there is none.
    """
    for path in _candidates():
        banner = run([path, "-version"], timeout_seconds=30).stderr
        if _major_version(banner) >= MINIMUM_VERSION:
            return Java(path, banner)
    raise EmbeddedKafkaError(
        f"No Java {MINIMUM_VERSION} or newer was found: run scripts/setup, or set JAVA_HOME."
    )


def _candidates() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    found = [
        shutil.which("java", path=os.path.join(home, "bin")) if home else None,
        shutil.which("java"),
    ]
    return [path for path in found if path is not None]


def _major_version(banner: str) -> int:
    """17 of ``version "17.0.15"``; 0 when unreadable. Java 8 calls itself 1.8: too old."""
    match = re.search(r'version "(\d+)', banner)
    return int(match.group(1)) if match else 0
