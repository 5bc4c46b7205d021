"""Reads the readers of a ``groups.db`` of schema 6, which had a row for each reader and topic.

Numbers by partition were packed: their count, the partitions, the numbers, and a checksum. Integers
were written as the smallest one and what each has above it, in as few bytes as the largest
difference needs; the partitions as the steps from each to the next.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib

import numpy as np

from retentiond.memory.readers import GroupOnTopic, Readers, RememberedReader
from retentiond.model import GroupKind
from retentiond.snapshot import NOWHERE, Integers

SCHEMA_VERSION = 6

_CHECKSUM = struct.Struct("<I")
_COUNT = struct.Struct("<I")
_FRAME = struct.Struct("<qB")
"""The smallest of some integers, and the bytes that a difference to it takes."""


def read_readers(connection: sqlite3.Connection) -> Readers:
    """Raises `sqlite3.Error`, and `ValueError` or `TypeError` for what retentiond has not
    written."""
    query = (
        "SELECT group_id, topic, kind, offsets, absent_since_ms, moved_at_ms, absent_ms, "
        "seen_at_ms, stale FROM commits"
    )
    readers = {}
    for (
        group_id,
        topic,
        name,
        offsets,
        since_ms,
        moved_at_ms,
        absent_ms,
        seen_at_ms,
        stale,
    ) in connection.execute(query):
        kind = GroupKind(name)
        readers[GroupOnTopic(group_id, topic, kind is GroupKind.EXTERNAL)] = RememberedReader(
            kind,
            _unpacked(offsets),
            since_ms,
            _unpacked(moved_at_ms),
            absent_ms,
            seen_at_ms,
            frozenset(map(int, json.loads(stale))),
        )
    return Readers.of(readers)


def _unpacked(packed: bytes) -> dict[int, int]:
    body, checksum = packed[: -_CHECKSUM.size], packed[-_CHECKSUM.size :]
    if len(body) < _COUNT.size or _CHECKSUM.pack(zlib.crc32(body)) != checksum:
        raise ValueError("what is kept by partition has another checksum")
    (count,) = _COUNT.unpack_from(body)
    if not count:
        return {}
    steps, rest = _unframed(body[_COUNT.size :], count)
    numbers, _ = _unframed(rest, count)
    return dict(zip((np.cumsum(steps) + NOWHERE).tolist(), numbers.tolist(), strict=True))


def _unframed(framed: bytes, count: int) -> tuple[Integers, bytes]:
    """So many integers, and what follows them."""
    least, width = _FRAME.unpack_from(framed)
    rest = framed[_FRAME.size + count * width :]
    if not width:
        return np.full(count, least, np.int64), rest
    above = np.frombuffer(framed, f"<u{width}", count, _FRAME.size).astype(np.int64)
    return above + int(least), rest
