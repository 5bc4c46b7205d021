"""ListOffsets for many partitions, encoded at once.

kafka-python makes an object of each partition of a request, and encodes it by itself: that takes
longer than the broker needs to answer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest

from retentiond.kafka.compact import length, text

VERSION = 7
"""The first that tells the largest time stamp (KIP-734, Kafka 3.0), and the one that is encoded."""


class Wanted(NamedTuple):
    """``timestamp``: milliseconds, or one of Kafka's special values."""

    partition: int
    leader_epoch: int
    timestamp: int


class ListOffsets(ListOffsetsRequest, init=False):  # type: ignore[misc,call-arg]  # untyped base
    """kafka-python's own request with another encoder; the response is its own, too."""

    def __init__(self, isolation: int, topics: Mapping[str, Sequence[Wanted]]) -> None:
        super().__init__(min_version=VERSION, max_version=VERSION)
        self._body = _encoded(isolation, topics)

    def encode(self, version: Any = None, header: bool = False, framed: bool = False) -> bytes:
        head = self.encode_header(flexible=True) if header else b""
        size = _INT32.pack(len(head) + len(self._body)) if framed else b""
        return size + head + self._body


def _encoded(isolation: int, topics: Mapping[str, Sequence[Wanted]]) -> bytes:
    parts = [_INT32.pack(A_CLIENT), bytes([isolation]), length(len(topics))]
    for name, partitions in topics.items():
        parts += (text(name), length(len(partitions)))
        parts += [_PARTITION.pack(*each, NO_TAGS) for each in partitions]
        parts.append(bytes([NO_TAGS]))
    parts.append(bytes([NO_TAGS]))
    return b"".join(parts)


A_CLIENT = -1
"""In place of a replica's id."""

NO_TAGS = 0

_INT32 = struct.Struct(">i")

_PARTITION = struct.Struct(">iiqB")
