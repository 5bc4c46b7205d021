"""What is in a partition folder: bytes, age, and whether every file of it is understood.

Kafka appends to a time index as it goes, and the last word when it closes the segment; only the
last segment of a log, after a crash, knows more than its time index. Timestamps are the records'
(or the broker's, with LogAppendTime), epoch milliseconds.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from retentiond.tools.orphans.folder import PartitionFolder

SEGMENT = re.compile(r"([0-9]{20})\.log(\.deleted|\.cleaned|\.swap)?")

FILE = re.compile(
    r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned|\.swap)?"
    r"|(leader-epoch-checkpoint|partition\.metadata)(\.tmp)?"
)
"""Every name that Kafka gives a file of a partition's folder."""


@dataclass(frozen=True, slots=True)
class Contents:
    """``segment_bytes``: of the segments, which is what DescribeLogDirs counts.

    ``newest_ms``: the largest timestamp of all segments; of one without any, when it was written.
    ``changed_ms``: when any file was last changed. ``inodes``: (device, inode) of the files.
    ``stranger``: why it is not understood; the figures are those of what is.
    """

    segment_bytes: int
    newest_ms: int | None
    changed_ms: int
    inodes: frozenset[tuple[int, int]]
    stranger: str | None = None


class Gone(Exception):
    """The folder isn't there any more, or another one has its name."""


@contextmanager
def opened(folder: PartitionFolder) -> Iterator[int]:
    """A descriptor of that very folder, no link followed. Raises `Gone`, OSError."""
    try:
        fd = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Gone from error
    try:
        found = os.fstat(fd)
        if (found.st_dev, found.st_ino) != (folder.device, folder.inode):
            raise Gone
        yield fd
    finally:
        os.close(fd)


def files(fd: int) -> dict[str, os.stat_result]:
    """The entries of a folder by name. Raises OSError."""
    with os.scandir(fd) as entries:
        return {entry.name: entry.stat(follow_symlinks=False) for entry in entries}


def unknown_file(found: Mapping[str, os.stat_result], device: int) -> str | None:
    """Why the folder isn't understood: something that Kafka doesn't put there."""
    for name, status in sorted(found.items()):
        if not stat.S_ISREG(status.st_mode) or status.st_dev != device:
            return f"{name!a} is no regular file"
        if not FILE.fullmatch(name):
            return f"{name!a} is no file of Kafka's"
    return None


def read_contents(folder: PartitionFolder) -> Contents:
    """Raises `Gone`, OSError."""
    with opened(folder) as fd:
        found = files(fd)
        stranger = unknown_file(found, folder.device)
        newest_ms = None
        if stranger is None:
            try:
                newest_ms = _newest(fd, found)
            except Misread as error:
                stranger = str(error)
        return Contents(
            segment_bytes=sum(
                status.st_size for name, status in found.items() if SEGMENT.fullmatch(name)
            ),
            newest_ms=newest_ms,
            changed_ms=max((_ms(status.st_ctime_ns) for status in found.values()), default=0),
            inodes=frozenset((status.st_dev, status.st_ino) for status in found.values()),
            stranger=stranger,
        )


def _newest(fd: int, found: Mapping[str, os.stat_result]) -> int | None:
    """None where there is no segment at all."""
    segments = sorted(name for name in found if SEGMENT.fullmatch(name))
    times = [_newest_of(fd, name, found, name == segments[-1]) for name in segments]
    return max(times, default=None)


def _newest_of(fd: int, name: str, found: Mapping[str, os.stat_result], is_last: bool) -> int:
    """The latest of what is known; the file's own time where its records tell nothing."""
    index_name = name.replace(".log", ".timeindex", 1)
    times: list[int | None] = []
    if index_name in found:
        with _file(fd, index_name) as file:
            times.append(of_time_index(file.read()))
    if is_last or times in ([], [None]):
        with _file(fd, name) as file:
            newest: Newest = of_log(file)
        times.append(newest.timestamp_ms)
        if not newest.is_whole:
            times.append(_ms(found[name].st_mtime_ns))
    known = [time for time in times if time is not None]
    return max(known, default=_ms(found[name].st_mtime_ns))


def _file(fd: int, name: str) -> BinaryIO:
    return os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd), "rb")


def _ms(ns: int) -> int:
    return ns // 1_000_000


TIME_INDEX_ENTRY = struct.Struct(">qi")
"""Largest timestamp so far, and the offset that it belongs to."""

OVERHEAD = 12
"""Bytes before what a batch's length counts: base offset and the length itself."""

_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")

MAGIC_AT = 16
HEADER = 43
"""Bytes of a batch up to the end of its largest timestamp."""

TIMESTAMP_AT = {1: 18, 2: 35}
"""By the batch's format; format 0 has none."""

LEAST_LENGTH = {0: 14, 1: 22, 2: 49}
"""What a batch's length is at least, by its format."""


class Misread(Exception):
    """The file isn't what Kafka would have written."""


@dataclass(frozen=True, slots=True)
class Newest:
    """``timestamp_ms``: None where no batch has one. ``is_whole``: no batch is cut off."""

    timestamp_ms: int | None
    is_whole: bool


def of_time_index(index: bytes) -> int | None:
    """None: it is empty. One that was in use in a crash is padded with zeros. Raises `Misread`."""
    size = TIME_INDEX_ENTRY.size
    if len(index) % size:
        raise Misread("a time index is cut off")
    used = -(-len(index.rstrip(b"\0")) // size) * size
    if not used:
        return None
    timestamp_ms, _ = TIME_INDEX_ENTRY.unpack_from(index, used - size)
    return _known(timestamp_ms)


def of_log(log: BinaryIO) -> Newest:
    """Reads every batch's header, from the start. Raises `Misread`, OSError."""
    newest: int | None = None
    while True:
        header = log.read(HEADER)
        if not header.strip(b"\0"):  # the end; preallocated files go on with zeros
            return Newest(newest, is_whole=len(header) in (0, HEADER))
        if len(header) <= MAGIC_AT:
            return Newest(newest, is_whole=False)
        (length,) = _LENGTH.unpack_from(header, 8)
        magic = header[MAGIC_AT]
        if length < LEAST_LENGTH.get(magic, length + 1):
            raise Misread("a segment holds something that is no batch of records")
        if length + OVERHEAD > len(header):
            end = log.seek(0, 1) - len(header) + OVERHEAD + length
            log.seek(end - 1)
            if not log.read(1):
                return Newest(newest, is_whole=False)
        else:
            log.seek(OVERHEAD + length - len(header), 1)
        if magic in TIMESTAMP_AT:
            found = _known(_TIMESTAMP.unpack_from(header, TIMESTAMP_AT[magic])[0])
            newest = max((each for each in (newest, found) if each is not None), default=None)


def _known(timestamp_ms: int) -> int | None:
    """Kafka's -1 is none."""
    return timestamp_ms if timestamp_ms >= 0 else None
