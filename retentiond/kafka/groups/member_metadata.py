"""The topics in what members of classic consumer groups say of themselves.

Each member writes its subscription and its assignment itself, and many clients end before the
fields of the version that they name: kafka-go and sarama-cluster say version 1, and write no owned
partitions. Java's client and librdkafka take what is there. Every version so far begins with the
topics, and nothing else is needed here: so only the topics are read, and they must be whole. A
topic that is cut off may be any, so it raises `ValueError`, and the group counts as unreadable.
"""

from __future__ import annotations

import struct

_VERSION = struct.Struct(">h")
_LENGTH = struct.Struct(">h")
_COUNT = struct.Struct(">i")
_PARTITION = struct.Struct(">i")


class _Bytes:
    """Reads one field after the other. Raises `ValueError` where the bytes end too soon."""

    def __init__(self, body: bytes) -> None:
        self._body = bytes(body)
        self._at = 0

    def number(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack(self._take(kind.size))
        if value < 0:
            raise ValueError(f"{value} where a length or a version belongs")
        return int(value)

    def text(self) -> str:
        return self._take(self.number(_LENGTH)).decode()

    def skip(self, size: int) -> None:
        self._take(size)

    def _take(self, size: int) -> bytes:
        taken = self._body[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError(f"it ends after {len(self._body)} bytes, within its topics")
        self._at += size
        return taken


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics of a ConsumerProtocolSubscription. Raises `ValueError`."""
    read = _Bytes(metadata)
    read.number(_VERSION)
    return frozenset(read.text() for _ in range(read.number(_COUNT)))


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """The topics of a ConsumerProtocolAssignment. Raises `ValueError`."""
    read = _Bytes(assignment)
    read.number(_VERSION)
    topics: set[str] = set()
    for _ in range(read.number(_COUNT)):
        topics.add(read.text())
        read.skip(read.number(_COUNT) * _PARTITION.size)
    return frozenset(topics)
