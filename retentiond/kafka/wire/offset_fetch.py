"""OffsetFetch for many groups (KIP-709), decoded into columns.

By hand because kafka-python makes an object of each partition of a response: 410 ms for 60,000
commits, and 36 ms here, columns included. A topic's commits are read as one array, which works
because nearly all of them have the same length. It can go once kafka-python decodes into arrays;
the request is encoded by kafka-python.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from retentiond.kafka.commit_columns import CommitColumns
from retentiond.kafka.wire.encoding import INT16, INT32, INT64, LONG, Reader

BATCHED_OFFSETS = 8
"""The first version that takes many groups (Kafka 3.0), and the one that this file can read."""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """What one group has committed, unless there is an error code."""

    group_id: str
    error_code: int
    commits: CommitColumns


@dataclass(frozen=True, slots=True)
class BatchedOffsets:
    """The response, with those attributes of kafka-python's own that somebody reads."""

    groups: list[GroupOffsets]
    throttle_time_ms: int
    API_VERSION: int = BATCHED_OFFSETS
    error_code: int = 0  # the protocol has none for the whole response


class BatchedOffsetFetchRequest(OffsetFetchRequest, init=False):  # type: ignore[misc,call-arg]  # untyped base
    """kafka-python's own request, whose response `decode_offsets` decodes."""

    def with_header(self, *args: Any, **kwargs: Any) -> None:
        super().with_header(*args, **kwargs)
        made = self.header
        self._header = _Header(**{name: getattr(made, name) for name in _HEADER})


class _Header(RequestHeader, init=False):  # type: ignore[misc,call-arg]  # untyped base
    def get_response_class(self) -> type[_Response]:
        return _Response


_HEADER = ("request_api_key", "request_api_version", "correlation_id", "client_id")


class _Response:
    """What kafka-python's parser calls for a response: the header first, then the rest."""

    @staticmethod
    def parse_header(data: Any) -> Any:
        return OffsetFetchResponse[BATCHED_OFFSETS].parse_header(data)

    @staticmethod
    def decode(data: Any) -> BatchedOffsets:
        return decode_offsets(data.read())


def decode_offsets(body: bytes) -> BatchedOffsets:
    """A response of version 8 behind its header.

    Raises ValueError or `struct.error` for anything else.
    """
    reader = Reader(body)
    throttle_time_ms = reader.integer(INT32)
    groups = [_group(reader) for _ in range(reader.length() or 0)]
    reader.skip_tags()
    if reader.at != len(body):
        raise ValueError(f"{len(body) - reader.at} bytes too many in an OffsetFetch response")
    return BatchedOffsets(groups, throttle_time_ms)


def _group(reader: Reader) -> GroupOffsets:
    group_id = reader.text() or ""
    topics: list[tuple[str, int]] = []
    blocks: list[tuple[int, bytes]] = []
    for _ in range(reader.length() or 0):
        name = reader.text() or ""
        count = reader.length() or 0
        topics.append((name, count))
        blocks.append(_alike(reader, count) or _made_alike(reader, count))
        reader.skip_tags()
    error_code = reader.integer(INT16)
    reader.skip_tags()
    return GroupOffsets(group_id, error_code, _commits(topics, blocks))


def _alike(reader: Reader, count: int) -> tuple[int, bytes] | None:
    """The next commits as they are, and the length of each one's metadata; None where they
    differ in it, where it is long, and where a commit has an error or tags."""
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


def _made_alike(reader: Reader, count: int) -> tuple[int, bytes]:
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
        np.frombuffer(b"".join(raw for _, raw in run), _layout(metadata))
        for metadata, run in groupby(blocks, key=itemgetter(0))
    ] or [np.empty(0, _layout(0))]
    offsets = _column(runs, "offset")
    return CommitColumns(
        topics,
        _column(runs, "partition"),
        offsets,
        # Asked for all of a group's partitions, Kafka answers with those that it has a commit of. A
        # commit of -1 says nothing of what was read, but that the group reads the topic.
        unread=(_column(runs, "error_code") != 0) | (offsets < 0),
        leader_epochs=_column(runs, "leader_epoch"),
    )


def _column(runs: Sequence[npt.NDArray[Any]], name: str) -> npt.NDArray[np.int64]:
    return np.concatenate([rows[name].astype(np.int64) for rows in runs])


@functools.cache
def _layout(metadata: int) -> np.dtype[Any]:
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
