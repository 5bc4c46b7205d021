"""The contents of a partition folder: bytes, age, and whether every file is understood.

Invariant: no folder looks older than its newest record. So the batches of every segment are read.
A time index alone would not do: one that lost its end in an unclean stop (KAFKA-10207) looks
complete. An index can only make a folder younger. If a segment itself has lost something, or has a
batch that begins with a record without a timestamp, the time when its file was written counts, too.
Timestamps are those of the records (or the broker's, with LogAppendTime), in epoch milliseconds.
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

from retentiond.fields import BYTES, TIME, described, said
from retentiond.tools.orphans.folder import PartitionFolder

SEGMENT = re.compile(r"([0-9]{20})\.log(\.deleted|\.cleaned|\.swap)?")

KAFKA_FILE = re.compile(
    r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned|\.swap)?"
    r"|(leader-epoch-checkpoint|partition\.metadata)(\.tmp)?"
)
"""Every name that Kafka gives a file of a partition's folder."""


@described
class Contents:
    """What a partition folder has.

    - ``changed_ms``: when a file was last changed.
    - ``inodes``: (device, inode) of the files.
    - ``problem``: why the folder is not understood; the figures are those of the files that are.
    """

    segment_bytes: int = said(
        BYTES,
        "the size of its segments, as DescribeLogDirs counts it",
        name="size_bytes",
        column="BYTES",
    )
    newest_ms: int | None = said(
        TIME,
        "the largest timestamp of its segments, or when one without timestamps was written; null: "
        "it has no segment, or is not understood",
        name="newest_record",
    )
    changed_ms: int
    inodes: frozenset[tuple[int, int]]
    problem: str | None = None


class Gone(Exception):
    """The folder no longer exists, or another one has its name."""


@contextmanager
def opened(folder: PartitionFolder) -> Iterator[int]:
    """A descriptor of this very folder, opened without following links. Raises `Gone`, OSError."""
    try:
        fd = os.open(folder.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Gone from error
    try:
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != (folder.device, folder.inode):
            raise Gone
        yield fd
    finally:
        os.close(fd)


def files(fd: int) -> dict[str, os.stat_result]:
    """The entries of a folder by name. Raises OSError."""
    with os.scandir(fd) as entries:
        return {entry.name: entry.stat(follow_symlinks=False) for entry in entries}


def unknown_file(entries: Mapping[str, os.stat_result], device: int) -> str | None:
    """Why the folder isn't understood: it has an entry that Kafka doesn't make. None if it has
    none."""
    for name, status in sorted(entries.items()):
        if not stat.S_ISREG(status.st_mode) or status.st_dev != device:
            return f"{name!a} is no regular file"
        if not KAFKA_FILE.fullmatch(name):
            return f"{name!a} is no file of Kafka's"
    return None


def read_contents(folder: PartitionFolder) -> Contents:
    """Reads a partition folder. Raises `Gone`, OSError."""
    with opened(folder) as fd:
        entries = files(fd)
        segments = [name for name in sorted(entries) if SEGMENT.fullmatch(name)]
        problem = unknown_file(entries, folder.device)
        newest_ms = None
        if problem is None:
            try:
                times_ms = (_newest_of(fd, name, entries) for name in segments)
                newest_ms = max(times_ms, default=None)
            except Misread as error:
                problem = str(error)
        return Contents(
            segment_bytes=sum(entries[name].st_size for name in segments),
            newest_ms=newest_ms,
            changed_ms=max((_ms(status.st_ctime_ns) for status in entries.values()), default=0),
            inodes=frozenset((status.st_dev, status.st_ino) for status in entries.values()),
            problem=problem,
        )


def _newest_of(fd: int, name: str, entries: Mapping[str, os.stat_result]) -> int:
    """The latest known time of a segment; the file's own time if its records have none."""
    index_name = name.replace(".log", ".timeindex", 1)
    times: list[int | None] = []
    if index_name in entries:
        with _file(fd, index_name) as file:
            times.append(newest_by_time_index(file.read()))
    newest = _newest_in(fd, name, entries[name])
    times.append(newest.timestamp_ms)
    if not newest.is_sure:
        times.append(_ms(entries[name].st_mtime_ns))
    known = [time for time in times if time is not None]
    return max(known, default=_ms(entries[name].st_mtime_ns))


_READ: dict[tuple[int, ...], Newest] = {}
"""By a file in its present state: every look reads all segments, and a removal reads them three
times."""


def _newest_in(fd: int, name: str, status: os.stat_result) -> Newest:
    """The newest timestamp in a segment. Raises `Misread`, OSError."""
    times_ns = (status.st_mtime_ns, status.st_ctime_ns)
    state = (status.st_dev, status.st_ino, status.st_size, *times_ns)
    if state not in _READ:
        with _file(fd, name) as file:
            _READ[state] = newest_in_log(file)
    return _READ[state]


def _file(fd: int, name: str) -> BinaryIO:
    return os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd), "rb")


def _ms(ns: int) -> int:
    return ns // 1_000_000


TIME_INDEX_ENTRY = struct.Struct(">qi")
"""The largest timestamp so far, and its offset."""

BATCH_PREFIX_BYTES = 12
"""Base offset and length of a batch. The length doesn't count these bytes."""

_LENGTH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")

MAGIC_AT = 16
"""Position of the batch's format, Kafka's magic byte."""

BATCH_HEADER_BYTES = 61
"""Size of a batch's header in format 2."""

COUNT_AT = 57
"""Position of the number of records in format 2, the last field of the header."""

TIMESTAMPS_AT = {1: (18,), 2: (27, 35)}
"""Positions of the timestamps, by the batch's format: in format 2 of the first record and the
largest one. Format 0 has none."""

LEAST_LENGTH = {0: 14, 1: 22, 2: 49}
"""The least length of a batch, by its format."""


FORMAT_WITH_COUNT = 2

CHUNK = 1 << 20


class Misread(Exception):
    """The file isn't one that Kafka would have written."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest timestamp in a segment. ``timestamp_ms``: None if no batch has one. ``is_sure``:
    whether no record may be newer: each batch has a timestamp, none is cut off, and no zeros follow
    the last one."""

    timestamp_ms: int | None
    is_sure: bool


def newest_by_time_index(index: bytes) -> int | None:
    """The largest timestamp in a time index; None if it has none. Raises `Misread`."""
    if len(index) % TIME_INDEX_ENTRY.size:
        raise Misread("a time index is cut off")
    largest_ms = max((time_ms for time_ms, _ in TIME_INDEX_ENTRY.iter_unpack(index)), default=0)
    return largest_ms if largest_ms > 0 else None  # an index that is in use ends with zeros


def newest_in_log(log: BinaryIO) -> Newest:
    """Reads the header of every batch, from the start. Raises `Misread`, OSError."""
    newest: int | None = None
    is_dated = True
    while True:
        header = log.read(BATCH_HEADER_BYTES)
        if not header:
            return Newest(newest, is_sure=is_dated)
        if not header.strip(b"\0"):  # preallocated, or pages that were never written
            _refuse_all_but_zeros(log)
            return Newest(newest, is_sure=False)
        if len(header) <= MAGIC_AT:
            return Newest(newest, is_sure=False)
        (length,) = _LENGTH.unpack_from(header, 8)
        magic = header[MAGIC_AT]
        if length < LEAST_LENGTH.get(magic, length + 1):
            raise Misread("a segment holds something that is no batch of records")
        if length + BATCH_PREFIX_BYTES > len(header):
            end = log.seek(0, 1) - len(header) + BATCH_PREFIX_BYTES + length
            log.seek(end - 1)
            if not log.read(1):
                return Newest(newest, is_sure=False)
        else:
            log.seek(BATCH_PREFIX_BYTES + length - len(header), 1)
        if magic in TIMESTAMPS_AT:
            _refuse_torn(header, magic, length)
        stamps = [_TIMESTAMP.unpack_from(header, at)[0] for at in TIMESTAMPS_AT.get(magic, ())]
        known = [stamp for stamp in stamps if stamp >= 0]  # Kafka counts a negative one as none
        is_dated = is_dated and bool(stamps) and known == stamps
        newest = max(known if newest is None else [newest, *known], default=None)


def _refuse_torn(header: bytes, magic: int, length: int) -> None:
    """Raises `Misread` if the page with the header's end was never written. Then the timestamp and
    the number of records, which follows it, are zeros."""
    has_no_count = not any(header[COUNT_AT:BATCH_HEADER_BYTES])
    if magic == FORMAT_WITH_COUNT and has_no_count and length > LEAST_LENGTH[magic]:
        raise Misread("the header of a batch is damaged")


def _refuse_all_but_zeros(log: BinaryIO) -> None:
    """Raises `Misread` if anything but zeros follows, and OSError."""
    while rest := log.read(CHUNK):
        if rest.strip(b"\0"):
            raise Misread("a segment goes on behind zeros")
