"""The largest timestamp of a segment, from its time index or from the headers of its batches.

Kafka appends to a time index as it goes, and the last word when it closes the segment; only the
last segment of a log, after a crash, knows more than its time index. Timestamps are the records'
(or the broker's, with LogAppendTime), epoch milliseconds.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

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
