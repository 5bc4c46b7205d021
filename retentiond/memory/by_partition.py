"""Numbers by partition in arrays: ten million commits in dictionaries would take gigabytes.

A packed mapping has its count, its partitions and its numbers, and ends with a checksum. Integers
are written as the smallest one and what each has above it, in as few bytes as the largest
difference needs: partitions without a gap take none, and neither do equal times.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Self

import numpy as np
import numpy.typing as npt

from retentiond.snapshot import NOWHERE, Flags, Integers

CHECKSUM = struct.Struct("<I")

HEAD = struct.Struct("<I")
"""How many partitions there are."""

FRAME = struct.Struct("<qB")
"""The smallest of some integers, and the bytes that a difference to it takes."""

WIDTHS = (0, 1, 2, 4, 8)


class ByPartition(Mapping[int, int]):
    """An offset or a time of each partition; neither is negative. It never changes.

    ``partitions`` ascend; ``numbers`` are in their order.
    """

    __slots__ = ("numbers", "partitions")

    def __init__(self, partitions: npt.NDArray[np.int32], numbers: Integers) -> None:
        self.partitions = partitions
        self.numbers = numbers

    @classmethod
    def of(cls, numbers: Mapping[int, int]) -> Self:
        partitions = sorted(numbers)
        return cls(
            np.array(partitions, np.int32), np.array([numbers[at] for at in partitions], np.int64)
        )

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
        # np.diff takes twice as long for a few partitions.
        steps: Integers = self.partitions.astype(np.int64)
        steps[1:] -= self.partitions[:-1]
        steps[:1] -= NOWHERE
        body = HEAD.pack(len(self)) + _framed(steps) + _framed(self.numbers)
        return body + CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Raises `ValueError` for what is not of `packed`."""
        body, checksum = packed[: -CHECKSUM.size], packed[-CHECKSUM.size :]
        if len(body) < HEAD.size or CHECKSUM.pack(zlib.crc32(body)) != checksum:
            raise ValueError("what is kept by partition has another checksum")
        (count,) = HEAD.unpack_from(body)
        steps, at = _unframed(body, HEAD.size, count)
        numbers, _ = _unframed(body, at, count)
        return cls((np.cumsum(steps) + NOWHERE).astype(np.int32), numbers)


NONE = ByPartition.of({})


def _are_equal(some: npt.NDArray[np.integer], others: npt.NDArray[np.integer]) -> bool:
    """Most arrays are short, and np.array_equal takes ten times as long for them."""
    if some.dtype != others.dtype:
        return np.array_equal(some, others)
    return len(some) == len(others) and some.tobytes() == others.tobytes()


def _framed(integers: Integers) -> bytes:
    if not len(integers):
        return b""
    least = int(integers.min())
    most = int(integers.max()) - least
    width = next(each for each in WIDTHS if most < 1 << 8 * each)
    above = (integers - least).astype(f"<u{width}").tobytes() if width else b""
    return FRAME.pack(least, width) + above


def _unframed(packed: bytes, at: int, count: int) -> tuple[Integers, int]:
    """The integers, and where they end."""
    if not count:
        return np.empty(0, np.int64), at
    least, width = FRAME.unpack_from(packed, at)
    begin = at + FRAME.size
    if not width:
        return np.full(count, least, np.int64), begin
    above = np.frombuffer(packed, f"<u{width}", count, begin).astype(np.int64)
    return above + least, begin + count * width
