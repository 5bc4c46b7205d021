"""Numbers by partition in arrays: ten million commits in dictionaries would take gigabytes.

A packed mapping has its count, its partitions and its numbers, and ends with a checksum. Integers
are written as the smallest one and what each has above it, in as few bytes as the largest
difference needs: partitions without a gap take none, and neither do equal times.

Hundreds of thousands of readers have few different sets of partitions: those of the topics. So each
set is kept, packed and unpacked once for all readers that have it.
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache
from typing import Self

import numpy as np
import numpy.typing as npt

from retentiond.snapshot import NOWHERE, Flags, Integers

Partitions = npt.NDArray[np.int32]

CHECKSUM = struct.Struct("<I")

HEAD = struct.Struct("<I")
"""How many partitions there are."""

FRAME = struct.Struct("<qB")
"""The smallest of some integers, and the bytes that a difference to it takes."""

WIDTHS = (0, 1, 2, 4, 8)

SETS_KEPT = 4096
"""How many different sets of partitions are kept."""


@lru_cache(SETS_KEPT)
def _kept(partitions: bytes) -> Partitions:
    return np.frombuffer(partitions, np.int32)


class ByPartition(Mapping[int, int]):
    """An offset or a time of each partition; neither is negative. It never changes.

    ``partitions`` ascend; ``numbers`` are in their order.
    """

    __slots__ = ("numbers", "partitions")

    def __init__(self, partitions: npt.NDArray[np.integer], numbers: Integers) -> None:
        self.partitions = _kept(np.asarray(partitions, np.int32).tobytes())
        self.numbers = numbers

    @classmethod
    def of(cls, numbers: Mapping[int, int]) -> Self:
        partitions = sorted(numbers)
        return cls(
            np.array(partitions, np.int32), np.array([numbers[at] for at in partitions], np.int64)
        )

    def with_numbers(self, numbers: Integers) -> ByPartition:
        """Other numbers of the same partitions."""
        made = ByPartition.__new__(ByPartition)
        made.partitions, made.numbers = self.partitions, numbers
        return made

    def __getitem__(self, partition: int) -> int:
        at = int(np.searchsorted(self.partitions, partition))
        if at == len(self.partitions) or self.partitions[at] != partition:
            raise KeyError(partition)
        return int(self.numbers[at])

    def __iter__(self) -> Iterator[int]:
        return iter(self.partitions.tolist())

    def __len__(self) -> int:
        return len(self.partitions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByPartition):
            return super().__eq__(other)
        return self.has_partitions_of(other) and _are_equal(self.numbers, other.numbers)

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def __repr__(self) -> str:
        return f"ByPartition.of({self.as_dict()})"

    def as_dict(self) -> dict[int, int]:
        """For many look-ups: one in the arrays takes microseconds."""
        return dict(zip(self.partitions.tolist(), self.numbers.tolist(), strict=True))

    def items(self) -> ItemsView[int, int]:
        return self.as_dict().items()

    def values(self) -> ValuesView[int]:
        return self.as_dict().values()

    def has_partitions_of(self, other: ByPartition) -> bool:
        """Whether it has the same partitions; often it is the same array."""
        return self.partitions is other.partitions or _are_equal(self.partitions, other.partitions)

    def covers(self, other: ByPartition) -> bool:
        """Whether it has all partitions of the other."""
        return self.has_partitions_of(other) or bool(
            np.isin(other.partitions, self.partitions).all()
        )

    def updated(self, news: ByPartition) -> ByPartition:
        """With the other's numbers, also in place of its own."""
        if not len(self) or self.has_partitions_of(news):
            return news
        kept: Flags = ~np.isin(self.partitions, news.partitions)
        partitions = np.concatenate([self.partitions[kept], news.partitions])
        order = np.argsort(partitions)
        numbers = np.concatenate([self.numbers[kept], news.numbers])
        return ByPartition(partitions[order], numbers[order])

    def packed(self) -> bytes:
        """See `unpacked`."""
        return packed_all([self])[0]

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Raises `ValueError` for what is not of `packed`."""
        body, checksum = packed[: -CHECKSUM.size], packed[-CHECKSUM.size :]
        if len(body) < HEAD.size or CHECKSUM.pack(zlib.crc32(body)) != checksum:
            raise ValueError("what is kept by partition has another checksum")
        (count,) = HEAD.unpack_from(body)
        end = _end(body, HEAD.size, count)
        partitions = _unpacked_partitions(body[HEAD.size : end], count)
        return cls(partitions, _unframed(body[end:], count))


NONE = ByPartition.of({})


def _are_equal(some: npt.NDArray[np.integer], others: npt.NDArray[np.integer]) -> bool:
    """Most arrays are short, and np.array_equal takes ten times as long for them."""
    if some.dtype != others.dtype:
        return np.array_equal(some, others)
    return len(some) == len(others) and some.tobytes() == others.tobytes()


def packed_all(mappings: Sequence[ByPartition]) -> list[bytes]:
    """Each one `packed`. Those with the same partitions are packed as one matrix, which takes a
    fifth of the time."""
    packed = [b""] * len(mappings)
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for at, each in enumerate(mappings):
        alike[id(each.partitions)].append(at)
    for places in alike.values():
        partitions = mappings[places[0]].partitions
        head = HEAD.pack(len(partitions)) + _packed_partitions(partitions.tobytes())
        framed = _framed(np.array([mappings[at].numbers for at in places], np.int64))
        for at, numbers in zip(places, framed, strict=True):
            body = head + numbers
            packed[at] = body + CHECKSUM.pack(zlib.crc32(body))
    return packed


@lru_cache(SETS_KEPT)
def _packed_partitions(partitions: bytes) -> bytes:
    ascending = np.append(NOWHERE, np.frombuffer(partitions, np.int32))
    steps: Integers = ascending[1:] - ascending[:-1]
    return _framed(steps[np.newaxis])[0]


@lru_cache(SETS_KEPT)
def _unpacked_partitions(packed: bytes, count: int) -> Partitions:
    return (np.cumsum(_unframed(packed, count)) + NOWHERE).astype(np.int32)


def _framed(rows: Integers) -> list[bytes]:
    """The integers of each row of a matrix, framed."""
    if not rows.shape[1]:
        return [b""] * len(rows)
    least, most = rows.min(axis=1), rows.max(axis=1)
    spread = (most - least).view(np.uint64)  # right also where the difference exceeds an int64
    too_many = np.array([1 << 8 * width for width in WIDTHS[:-1]], np.uint64)
    widths = np.array(WIDTHS)[np.searchsorted(too_many, spread, side="right")]
    framed = [b""] * len(rows)
    for width in np.unique(widths).tolist():
        of_width = np.flatnonzero(widths == width)
        above = rows[of_width] - least[of_width, np.newaxis]
        bytes_above = above.astype(f"<u{width}").tobytes() if width else b""
        size = width * rows.shape[1]
        for at, (place, smallest) in enumerate(
            zip(of_width.tolist(), least[of_width].tolist(), strict=True)
        ):
            frame = FRAME.pack(smallest, width)
            framed[place] = frame + bytes_above[at * size : (at + 1) * size]
    return framed


def _unframed(framed: bytes, count: int) -> Integers:
    if not count:
        return np.empty(0, np.int64)
    least, width = FRAME.unpack_from(framed)
    if not width:
        return np.full(count, least, np.int64)
    above: Integers = np.frombuffer(framed, f"<u{width}", count, FRAME.size).astype(np.int64)
    return above + int(least)


def _end(packed: bytes, begin: int, count: int) -> int:
    """Where so many framed integers end."""
    if not count:
        return begin
    _, width = FRAME.unpack_from(packed, begin)
    return begin + FRAME.size + count * int(width)
