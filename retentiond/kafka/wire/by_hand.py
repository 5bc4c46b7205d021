"""Two messages that are encoded or decoded by hand, each because kafka-python is too slow for it.

- ListOffsets for many partitions is encoded at once. kafka-python makes an object of each
  partition, and encodes it by itself: 180 ms for 20,000 partitions, and 4 ms here. kafka-python
  decodes the response.
- OffsetFetch for many groups (KIP-709) is decoded into columns. kafka-python makes an object of
  each partition of a response: 410 ms for 60,000 commits, and 36 ms here, columns included. A
  topic's commits are read as one array, which works because nearly all of them have the same
  length. kafka-python encodes the request.

Each can go once kafka-python is as fast. Both are in Kafka's flexible encoding (KIP-482).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetFetchResponse

from retentiond.kafka.groups.commit_columns import CommitColumns

INT16, INT32, INT64 = (struct.Struct(kind) for kind in (">h", ">i", ">q"))

LONG = 0x80
"""From here on a length takes more than one byte."""

LIST_OFFSETS_VERSION = 7
"""The first that tells the largest timestamp (KIP-734, Kafka 3.0), and the one that is encoded."""

LOCAL_START_VERSION = 8
"""The first that tells where the local part of a log begins (KIP-405, Kafka 3.6); encoded alike."""

A_CLIENT = -1
"""In place of a replica's id."""

NO_TAGS = 0

_PARTITION = struct.Struct(">iiqB")


class OffsetQuery(NamedTuple):
    """``leader_epoch``: the one in which the partition's leader is believed to lead. ``value``: a
    timestamp in milliseconds, or one of Kafka's special values."""

    partition: int
    leader_epoch: int
    value: int


class EncodedByHand:
    """In front of a class of kafka-python's requests: it sends `_body`, whatever the version."""

    _body: bytes
    encode_header: Callable[..., bytes]

    def encode(self, version: Any = None, header: bool = False, framed: bool = False) -> bytes:
        head = self.encode_header(flexible=True) if header else b""
        size = INT32.pack(len(head) + len(self._body)) if framed else b""
        return size + head + self._body


class ListOffsets(EncodedByHand, ListOffsetsRequest, init=False):  # type: ignore[misc,call-arg]  # untyped base
    """kafka-python's own request with another encoder; the response is its own, too."""

    def __init__(
        self,
        isolation: int,
        topics: Mapping[str, Sequence[OffsetQuery]],
        version: int = LIST_OFFSETS_VERSION,
    ) -> None:
        super().__init__(min_version=version, max_version=version)
        self._body = _encoded(isolation, topics)


def _encoded(isolation: int, topics: Mapping[str, Sequence[OffsetQuery]]) -> bytes:
    parts = [INT32.pack(A_CLIENT), bytes([isolation]), length_of(len(topics))]
    for name, partitions in topics.items():
        parts += (text_of(name), length_of(len(partitions)))
        parts += [_PARTITION.pack(*partition, NO_TAGS) for partition in partitions]
        parts.append(bytes([NO_TAGS]))
    parts.append(bytes([NO_TAGS]))
    return b"".join(parts)


def length_of(size: int) -> bytes:
    rest, written = size + 1, bytearray()
    while rest >= LONG:
        written.append(rest & 0x7F | LONG)
        rest >>= 7
    return bytes([*written, rest])


def text_of(value: str) -> bytes:
    encoded = value.encode()
    return length_of(len(encoded)) + encoded


BATCHED_OFFSETS = 8
"""The first version that takes many groups (Kafka 3.0), and the one that is decoded."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """What one group has committed, unless there is an error code."""

    group_id: str
    error_code: int
    commits: CommitColumns
    is_whole: bool = True  # False: partitions that were asked for are missing


@dataclass(frozen=True, slots=True)
class BatchedOffsets:
    """The response, with those attributes of kafka-python's own that somebody reads."""

    groups: list[GroupOffsets]
    throttle_time_ms: int
    API_VERSION: int = BATCHED_OFFSETS
    error_code: int = 0  # the protocol has none for the whole response


class OffsetsResponse:
    """What kafka-python's parser calls for a response: the header first, then the rest."""

    def parse_header(self, data: Any) -> Any:
        return OffsetFetchResponse[BATCHED_OFFSETS].parse_header(data)

    def decode(self, data: Any) -> BatchedOffsets:
        return decode_offsets(data.read())


class BatchedOffsetFetchRequest(OffsetFetchRequest, init=False):  # type: ignore[misc,call-arg]  # untyped base
    """kafka-python's own request, whose response `decode_offsets` decodes."""

    response = OffsetsResponse()

    def with_header(self, *args: Any, **kwargs: Any) -> None:
        super().with_header(*args, **kwargs)
        made = self.header
        self._header = _Header(**{name: getattr(made, name) for name in _HEADER})
        self._header.response = self.response


class _Header(RequestHeader, init=False):  # type: ignore[misc,call-arg]  # untyped base
    response: OffsetsResponse

    def get_response_class(self) -> OffsetsResponse:
        return self.response


_HEADER = ("request_api_key", "request_api_version", "correlation_id", "client_id")


def decode_offsets(
    body: bytes, read_group: Callable[[Reader], GroupOffsets] | None = None
) -> BatchedOffsets:
    """A response of version 8 behind its header.

    Raises ValueError or `struct.error` for anything else.
    """
    reader = Reader(body)
    throttle_time_ms = reader.integer(INT32)
    groups = [(read_group or group_offsets)(reader) for _ in range(reader.length() or 0)]
    reader.skip_tags()
    if reader.at != len(body):
        raise ValueError(f"{len(body) - reader.at} bytes too many in an OffsetFetch response")
    return BatchedOffsets(groups, throttle_time_ms)


def group_offsets(reader: Reader) -> GroupOffsets:
    group_id = reader.text() or ""
    topics: list[tuple[str, int]] = []
    blocks: list[tuple[int, bytes]] = []
    for _ in range(reader.length() or 0):
        name = reader.text() or ""
        count = reader.length() or 0
        topics.append((name, count))
        blocks.append(_rows_at_once(reader, count) or _rows_one_by_one(reader, count))
        reader.skip_tags()
    error_code = reader.integer(INT16)
    reader.skip_tags()
    return GroupOffsets(group_id, error_code, _commits(topics, blocks))


def _rows_at_once(reader: Reader, count: int) -> tuple[int, bytes] | None:
    """The length of each commit's metadata, and the next commits as they are.

    None where the commits differ in that length, where it takes more than one byte, and where a
    commit has an error or tags.
    """
    data, start = reader.data, reader.at
    size = data[start + _SIZE_AT] if count and start + _SIZE_AT < len(data) else LONG
    if size >= LONG:
        return None
    metadata = max(0, size - 1)
    width = _WITHOUT_METADATA + metadata
    end = start + count * width
    sizes = data[start + _SIZE_AT : end : width]
    # Behind the metadata: an error code of two bytes, and how many tags there are.
    ends = (data[start + width - distance : end : width] for distance in (3, 2, 1))
    if end > len(data) or sizes != bytes([size]) * count or any(map(any, ends)):
        return None
    reader.at = end
    return metadata, data[start:end]


def _rows_one_by_one(reader: Reader, count: int) -> tuple[int, bytes]:
    """The next commits, each read by itself, without their metadata and tags."""
    return 0, b"".join(_PLAIN.pack(*_commit(reader)) for _ in range(count))


def _commit(reader: Reader) -> tuple[int, int, int, int, int, int]:
    partition = reader.integer(INT32)
    offset = reader.integer(INT64)
    leader_epoch = reader.integer(INT32)
    reader.text()  # metadata, the group's own business
    error_code = reader.integer(INT16)
    reader.skip_tags()
    return partition, offset, leader_epoch, 1, error_code, 0


def _commits(topics: list[tuple[str, int]], blocks: list[tuple[int, bytes]]) -> CommitColumns:
    runs = [
        np.frombuffer(b"".join(raw for _, raw in run), layout(metadata))
        for metadata, run in groupby(blocks, key=itemgetter(0))
    ] or [np.empty(0, layout(0))]
    has_failed = _column(runs, "error_code") != 0
    offsets = np.where(has_failed, 0, _column(runs, "offset"))
    return CommitColumns(
        topics,
        _column(runs, "partition"),
        offsets,
        # Asked for all of a group's partitions, Kafka answers with those that it has a commit of. A
        # negative commit says nothing of what was read, but that the group reads the topic.
        unreadable=has_failed | (offsets < 0),
        leader_epochs=_column(runs, "leader_epoch"),
    )


def _column(runs: Sequence[npt.NDArray[Any]], name: str) -> npt.NDArray[np.int64]:
    return np.concatenate([rows[name].astype(np.int64) for rows in runs])


@functools.cache
def layout(metadata: int) -> np.dtype[Any]:
    """A commit whose metadata has that many bytes."""
    return np.dtype(
        [
            ("partition", ">i4"),
            ("offset", ">i8"),
            ("leader_epoch", ">i4"),
            ("size", "u1"),
            ("metadata", f"V{metadata}"),
            ("error_code", ">i2"),
            ("tags", "u1"),
        ]
    )


_PLAIN = struct.Struct(">iqiBhB")
"""A commit without metadata, as bytes."""

_WITHOUT_METADATA = _PLAIN.size

_SIZE_AT = 16
"""Where a commit says the length of its metadata."""


class Reader:
    """Kafka's flexible encoding (KIP-482), from ``at`` on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def integer(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack_from(self.data, self.at)
        self.at += kind.size
        return int(value)

    def length(self) -> int | None:
        """Of a string or a list; None: there is none."""
        size = self._varint()
        return size - 1 if size else None

    def text(self) -> str | None:
        size = self.length()
        return None if size is None else str(self._bytes(size), "utf-8")

    def skip_tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            self._bytes(self._varint())

    def _bytes(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError("a response ends too early")
        return self.data[start : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < LONG:
                return value
            shift += 7
