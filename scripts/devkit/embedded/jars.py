"""The jars of a Kafka version, fetched on first use.

``locks/VERSION-PART.txt`` names the jars of a version with their SHA-256, as the Python
requirements are pinned: the fetch is reproducible, and fast because no POM is read. A version
without such a list is resolved through its POMs; ``python -m devkit.embedded.lock`` writes one.
"""

import fcntl
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from devkit.embedded import ivy
from devkit.embedded.ivy import Coordinate
from devkit.embedded.processes import EmbeddedKafkaError

Part = Literal["broker", "tools", "streams", "tiered"]
"""``tools`` and ``streams``: what Kafka's command line tools, and stateless applications of Kafka
Streams, need on top of the broker's jars; ``tiered``: a remote storage that is a local folder
(KIP-405), which Kafka has for its own tests."""

LOCKS = Path(__file__).with_name("locks")

BROKER_ALONE = {"4.4.0": "4.3.1"}
"""Releases of which Maven Central has the broker alone, and the one whose other parts serve."""


def major_version(version: str) -> int:
    """4 of ``4.4.0``. Raises EmbeddedKafkaError unless ``version`` has three numbers."""
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise EmbeddedKafkaError(f"Kafka version {version!r} is no version such as 4.4.0.")
    return int(version.split(".", maxsplit=1)[0])


def classpath(version: str, *parts: Part) -> str:
    """A Java class path with the jars of ``parts``. Raises EmbeddedKafkaError."""
    return ":".join(f"{folder(version, part)}/*" for part in parts)


def roots(version: str, part: Part) -> list[Coordinate]:
    """What the part is made of before its dependencies are known.

    Kafka 4 logs through log4j 2, Kafka 3 through reload4j.
    """
    if part == "tiered":
        return [Coordinate("org.apache.kafka", "kafka-storage", version, "test")]
    if part != "broker":
        return [Coordinate("org.apache.kafka", f"kafka-{part}", version)]
    logging = (
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3"
        if major_version(version) >= 4
        else "org.slf4j:slf4j-reload4j:1.7.36"
    )
    return [Coordinate("org.apache.kafka", "kafka_2.13", version), Coordinate.parse(logging)]


def beside(version: str) -> str:
    """The release whose tools, Streams and remote storage go with a broker. Remote storage needs a
    broker of that very release: its class loader is its own."""
    return BROKER_ALONE.get(version, version)


def lock_file(version: str, part: Part) -> Path:
    return LOCKS / f"{version}-{part}.txt"


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def folder(version: str, part: Part) -> Path:
    """Where the jars of ``part`` are, fetched if they weren't. Raises EmbeddedKafkaError."""
    major_version(version)  # nothing that is no version becomes a path

    def fetch(directory: Path) -> None:
        print(f"Fetching Apache Kafka {version} ({part}), once per user ...", file=sys.stderr)
        if lock_file(version, part).exists():
            _fetch_locked(version, part, directory)
        else:
            ivy.retrieve(roots(version, part), directory, transitive=part != "tiered")

    return ensure(cache_root() / version / part, fetch)


def _fetch_locked(version: str, part: Part, directory: Path) -> None:
    locked = read_lock(lock_file(version, part).read_text())
    ivy.retrieve(list(locked), directory, transitive=False)
    for jar, expected in locked.items():
        if sha256(directory / jar.file_name) != expected:
            raise EmbeddedKafkaError(
                f"{jar} from Maven Central is not the file that {lock_file(version, part).name}"
                " names: find out why before you trust it."
            )


def read_lock(text: str) -> dict[Coordinate, str]:
    """Lines of ``organisation:name:revision[:classifier] sha256``; ``#`` starts a comment."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {Coordinate.parse(coordinate): digest for coordinate, digest in lines}


def cache_root() -> Path:
    """``$RETENTIOND_KAFKA_CACHE``, else ``retentiond/kafka`` in the user's cache folder."""
    if own := os.environ.get("RETENTIOND_KAFKA_CACHE"):
        return Path(own).expanduser()
    user_cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(user_cache).expanduser() / "retentiond" / "kafka"


def ensure(directory: Path, fetch: Callable[[Path], None]) -> Path:
    """``directory``, filled by ``fetch(empty folder)`` if it isn't there yet.

    One process fetches, the others wait for it. The folder gets its name only when ``fetch``
    has returned: what is there is whole. A killed fetch leaves a remnant under another name,
    which the next one removes.
    """
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the kernel, also when we are killed
        if not directory.is_dir():
            _fetch_and_rename(directory, fetch)
    return directory


def _fetch_and_rename(directory: Path, fetch: Callable[[Path], None]) -> None:
    prefix = f".{directory.name}.part-"
    for remnant in directory.parent.glob(f"{prefix}*"):
        shutil.rmtree(remnant)
    part = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
    try:
        fetch(part)
        part.rename(directory)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
