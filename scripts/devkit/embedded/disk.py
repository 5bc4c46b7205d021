"""What a topic takes on the brokers' disks; and small file systems to run full (Linux, as root)."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


def topic_bytes(log_dirs: Iterable[Path], topic: str) -> int:
    """Bytes of the topic's segments (``*.log``) in all ``log_dirs``.

    Segments and partitions that Kafka has renamed for deletion don't count, as they don't in
    DescribeLogDirs.
    """
    partition = re.compile(re.escape(topic) + r"-\d+")
    return sum(
        _size(segment)
        for log_dir in log_dirs
        for folder in log_dir.iterdir()
        if partition.fullmatch(folder.name)
        for segment in folder.glob("*.log")
    )


def remote_segments(directory: Path, topic: str) -> dict[str, int]:
    """Bytes of each of the topic's segments below the folder that is the remote storage, by the
    file's name."""
    partition = re.compile(re.escape(topic) + r"-\d+-.{22}")  # with the topic's id
    found = directory.glob("*/*/*.log")
    return {each.name: _size(each) for each in found if partition.fullmatch(each.parent.name)}


def _size(segment: Path) -> int:
    try:
        return segment.stat().st_size
    except FileNotFoundError:  # deleted since it was listed
        return 0


MIB = 2**20


class CannotMount(Exception):
    """This host lets nobody mount a file system here."""


@contextmanager
def small_disks(folder: Path, *sizes: int) -> Iterator[tuple[Path, ...]]:
    """A tmpfs of each size, in bytes, below the folder. Raises `CannotMount`."""
    with ExitStack() as mounted:
        yield tuple(
            mounted.enter_context(_small_disk(folder / f"disk-{number}", size))
            for number, size in enumerate(sizes)
        )


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMount(getattr(error, "stderr", None) or str(error)) from error
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
