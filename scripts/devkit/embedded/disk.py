"""What a topic takes on the brokers' disks."""

import re
from collections.abc import Iterable
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
