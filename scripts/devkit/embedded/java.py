"""Finds the Java that runs Kafka, its tools and the resolver."""

import os
import re
import shutil
from dataclasses import dataclass

from devkit.embedded import processes
from devkit.embedded.errors import EmbeddedKafkaError

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
        banner = processes.run([path, "-version"], timeout_seconds=30).stderr
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
