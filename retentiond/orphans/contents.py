"""What is in a partition folder: bytes, age, and whether every file of it is understood."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from retentiond.orphans.folder import Folder
from retentiond.orphans.segment import Misread, Newest, of_log, of_time_index

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
def opened(folder: Folder) -> Iterator[int]:
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


def stranger_among(found: Mapping[str, os.stat_result], device: int) -> str | None:
    """Why the folder isn't understood: something that Kafka doesn't put there."""
    for name, status in sorted(found.items()):
        if not stat.S_ISREG(status.st_mode) or status.st_dev != device:
            return f"{name!a} is no regular file"
        if not FILE.fullmatch(name):
            return f"{name!a} is no file of Kafka's"
    return None


def read_contents(folder: Folder) -> Contents:
    """Raises `Gone`, OSError."""
    with opened(folder) as fd:
        found = files(fd)
        stranger = stranger_among(found, folder.device)
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
