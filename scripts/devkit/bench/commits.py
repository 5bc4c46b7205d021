"""OffsetCommit encoded by hand: kafka-python makes an object of each commit, and ten million of
them take it half an hour.

The version is the last that is not in the flexible encoding. It is answered with an error code for
each partition, in the order of the request; the whole answer is compared with the one that says
that all is well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

VERSION = 7

PARTITIONS_AT_A_TIME = 2000
"""Of one request: the broker writes each into one batch, below its ``max.message.bytes``."""

Offsets = Mapping[str, npt.NDArray[np.int64]]
"""By topic, the offset to be committed on each of its partitions."""

_ROW = np.dtype(
    [("partition", ">i4"), ("offset", ">i8"), ("leader_epoch", ">i4"), ("metadata", ">i2")]
)

_ANSWER = np.dtype([("partition", ">i4"), ("error_code", ">i2")])

_THROTTLE_BYTES = 4

_HEADER = ("request_api_key", "request_api_version", "correlation_id", "client_id")


def requests(group: str, offsets: Offsets) -> Iterator[HandEncodedCommit]:
    """As a consumer without a member sends them."""
    some: dict[str, npt.NDArray[np.int64]] = {}
    for topic, those in offsets.items():
        if some and sum(map(len, some.values())) + len(those) > PARTITIONS_AT_A_TIME:
            yield HandEncodedCommit(group, some)
            some = {}
        some[topic] = those
    if some:
        yield HandEncodedCommit(group, some)


class HandEncodedCommit(OffsetCommitRequest, init=False):  # type: ignore[misc,call-arg]  # untyped base
    """kafka-python's own request with another encoder, and `is_done` for a response."""

    def __init__(self, group: str, offsets: Offsets) -> None:
        super().__init__(min_version=VERSION, max_version=VERSION)
        head = [_text(group), struct.pack(">i", -1), _text(""), struct.pack(">h", -1)]
        self._body = b"".join([*head, *_topics(offsets, _rows)])
        self._expected = b"".join(_topics(offsets, _answers))

    def encode(self, version: Any = None, header: bool = False, framed: bool = False) -> bytes:
        head = self.encode_header() if header else b""
        size = struct.pack(">i", len(head) + len(self._body)) if framed else b""
        return size + head + self._body

    def with_header(self, *args: Any, **kwargs: Any) -> None:
        super().with_header(*args, **kwargs)
        made = self.header
        self._header = _Header(**{name: getattr(made, name) for name in _HEADER})
        self._header.expected = self._expected


class Committed:
    """``is_done``: every offset was committed."""

    API_VERSION = VERSION
    error_code = 0
    throttle_time_ms = 0

    def __init__(self, *, is_done: bool) -> None:
        self.is_done = is_done


class _Header(RequestHeader, init=False):  # type: ignore[misc,call-arg]  # untyped base
    expected: bytes

    def get_response_class(self) -> _Response:
        return _Response(self.expected)


class _Response:
    """What kafka-python's parser calls for a response: the header first, then the rest."""

    def __init__(self, expected: bytes) -> None:
        self._expected = expected

    def parse_header(self, data: Any) -> Any:
        return OffsetCommitResponse[VERSION].parse_header(data)

    def decode(self, data: Any) -> Committed:
        return Committed(is_done=data.read()[_THROTTLE_BYTES:] == self._expected)


def _topics(offsets: Offsets, rows: Any) -> Sequence[bytes]:
    parts = [struct.pack(">i", len(offsets))]
    for name, those in offsets.items():
        parts += (_text(name), struct.pack(">i", len(those)), rows(those))
    return parts


def _rows(offsets: npt.NDArray[np.int64]) -> bytes:
    rows = np.zeros(len(offsets), _ROW)
    rows["partition"] = np.arange(len(offsets))
    rows["offset"] = offsets
    rows["leader_epoch"] = -1
    return rows.tobytes()


def _answers(offsets: npt.NDArray[np.int64]) -> bytes:
    rows = np.zeros(len(offsets), _ANSWER)
    rows["partition"] = np.arange(len(offsets))
    return rows.tobytes()


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded
