"""OffsetFetch for named partitions, the same of many groups: encoded once, decoded as one block.

The answer tells each partition that was asked for, with -1 where the group has no commit. So its
layout is known before it comes: where every commit is without metadata and without an error, as
most are, only offsets and leader epochs differ from what was expected, and all of a group's are
taken at once. Any other answer is decoded topic by topic. An answer that lacks a partition is no
answer: the group would look as if it had never read it.

One commit can't be told from none: that of offset -1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from retentiond.kafka.groups.commit_columns import CommitColumns
from retentiond.kafka.wire.by_hand import (
    BATCHED_OFFSETS,
    INT16,
    NO_TAGS,
    BatchedOffsetFetchRequest,
    BatchedOffsets,
    EncodedByHand,
    GroupOffsets,
    OffsetsResponse,
    Reader,
    decode_offsets,
    group_offsets,
    layout,
    length_of,
    text_of,
)

NO_COMMIT = -1
"""Kafka's offset of a partition on which the group has committed nothing."""

WITHOUT_STABILITY = 0
"""``require_stable``: offsets of open transactions are left out, not waited for."""

_ROW = layout(0)
"""A commit whose metadata are empty."""

_FIXED = b"\xff" * 4 + b"\0" * 12 + b"\xfe" + b"\xff" * 3
"""Which bits of a row are known before: all but its offset, its leader epoch, and whether there are
no metadata (0) or empty ones (1)."""


class NamedPartitions:
    """What each group is asked about, and how an answer looks that has nothing unusual in it.

    ``topics``: the partitions of each, at least one, none of them twice.
    """

    def __init__(self, topics: Mapping[str, Sequence[int]]) -> None:
        self.partitions = {name: np.array(numbers, np.int64) for name, numbers in topics.items()}
        self.count = sum(map(len, self.partitions.values()))
        parts = [length_of(len(topics))]
        for name, numbers in self.partitions.items():
            parts += (text_of(name), length_of(len(numbers)), numbers.astype(">i4").tobytes())
            parts.append(bytes([NO_TAGS]))
        self.encoded = b"".join(parts)
        self._numbers = np.concatenate([np.empty(0, np.int64), *self.partitions.values()])
        self._topic_starts = np.cumsum([0, *map(len, self.partitions.values())])[:-1]
        expected, mask, rows = self._layout()
        self._expected = np.frombuffer(expected, np.uint8)
        self._mask = np.frombuffer(mask, np.uint8)
        self._offsets_at = rows[:, None] + np.arange(4, 12)
        self._epochs_at = rows[:, None] + np.arange(12, 16)

    def _layout(self) -> tuple[bytes, bytes, npt.NDArray[np.int64]]:
        """The bytes of one group's topics and error code; where they must be so; and where each row
        begins."""
        expected, mask, rows = bytearray(), bytearray(), [np.empty(0, np.int64)]

        def fixed(part: bytes) -> None:
            expected.extend(part)
            mask.extend(b"\xff" * len(part))

        fixed(length_of(len(self.partitions)))
        for name, numbers in self.partitions.items():
            fixed(text_of(name) + length_of(len(numbers)))
            rows.append(len(expected) + _ROW.itemsize * np.arange(len(numbers)))
            block = np.zeros(len(numbers), _ROW)
            block["partition"] = numbers
            expected.extend(block.tobytes())
            mask.extend(_FIXED * len(numbers))
            fixed(bytes([NO_TAGS]))
        fixed(INT16.pack(0) + bytes([NO_TAGS]))
        return bytes(expected), bytes(mask), np.concatenate(rows)

    def read_group(self, reader: Reader) -> GroupOffsets:
        start = reader.at
        group_id = reader.text() or ""
        block = np.frombuffer(reader.data, np.uint8)[reader.at : reader.at + len(self._expected)]
        if len(block) < len(self._expected) or ((block ^ self._expected) & self._mask).any():
            reader.at = start
            return self._whole(group_offsets(reader))
        reader.at += len(block)
        offsets = block[self._offsets_at].view(">i8")[:, 0].astype(np.int64)
        epochs = block[self._epochs_at].view(">i4")[:, 0].astype(np.int64)
        has_commit = offsets != NO_COMMIT
        counts: list[int] = []
        if self.count:
            counts = np.add.reduceat(has_commit, self._topic_starts, dtype=np.int64).tolist()
        topics = [(name, n) for name, n in zip(self.partitions, counts, strict=True) if n]
        offsets = offsets[has_commit]
        return GroupOffsets(
            group_id,
            0,
            CommitColumns(
                topics, self._numbers[has_commit], offsets, offsets < 0, epochs[has_commit]
            ),
        )

    def _whole(self, group: GroupOffsets) -> GroupOffsets:
        """Without the partitions that have no commit, if all that were asked for are there."""
        commits = group.commits
        if group.error_code:
            return group
        has_commit = commits.offsets != NO_COMMIT  # a failed one has another
        topics: list[tuple[str, int]] = []
        missing = dict(self.partitions)
        start = 0
        for name, count in commits.topics:
            rows = slice(start, start + count)
            numbers = missing.pop(name, None)
            if numbers is None or not np.array_equal(
                np.sort(commits.partitions[rows]), np.sort(numbers)
            ):
                return GroupOffsets(group.group_id, 0, CommitColumns.of(()), is_whole=False)
            if committed := int(has_commit[rows].sum()):
                topics.append((name, committed))
            start = rows.stop
        if missing:
            return GroupOffsets(group.group_id, 0, CommitColumns.of(()), is_whole=False)
        columns = (commits.partitions, commits.offsets, commits.unreadable, commits.leader_epochs)
        return GroupOffsets(
            group.group_id, 0, CommitColumns(topics, *(column[has_commit] for column in columns))
        )


class NamedOffsetFetchRequest(EncodedByHand, BatchedOffsetFetchRequest, init=False):  # type: ignore[call-arg]  # untyped base
    """The same partitions of each of the groups."""

    def __init__(self, groups: Sequence[str], named: NamedPartitions) -> None:
        super().__init__(min_version=BATCHED_OFFSETS, max_version=BATCHED_OFFSETS)
        self.group_ids = tuple(groups)
        self.response = _NamedResponse(named)
        parts = [length_of(len(groups))]
        for group in groups:
            parts += (text_of(group), named.encoded, bytes([NO_TAGS]))
        self._body = b"".join([*parts, bytes([WITHOUT_STABILITY, NO_TAGS])])


class _NamedResponse(OffsetsResponse):
    def __init__(self, named: NamedPartitions) -> None:
        self._named = named

    def decode(self, data: Any) -> BatchedOffsets:
        return decode_offsets(data.read(), self._named.read_group)
