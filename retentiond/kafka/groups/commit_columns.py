"""A group's commits as columns: an object for each of a million takes longer than to read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import overload

import numpy as np
import numpy.typing as npt

from retentiond.model import Commit

NOT_TOLD = -1
"""Kafka's own word for a leader epoch that is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class CommitColumns(Sequence[Commit]):
    """All that one group has committed, topic by topic.

    - ``topics``: (name, how many of the rows are its), in the rows' order. A name may come twice.
    - ``partitions``, ``offsets``: int64.
    - ``unreadable``: bool, whether the offset could not be read; what stands in ``offsets`` then
      means nothing, unless it is negative: that was committed.
    - ``leader_epochs``: int64, negative where the group's client did not say. Well-behaved clients
      say -1 then; a broker stores any number.
    """

    topics: Sequence[tuple[str, int]]
    partitions: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    unreadable: npt.NDArray[np.bool_]
    leader_epochs: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.partitions)

    def __iter__(self) -> Iterator[Commit]:
        names = (name for name, count in self.topics for _ in range(count))
        rows = zip(
            names,
            self.partitions.tolist(),
            self.offsets.tolist(),
            self.unreadable.tolist(),
            self.leader_epochs.tolist(),
            strict=True,
        )
        return (
            Commit(name, partition, None)
            if unreadable
            else Commit(name, partition, offset, None if epoch < 0 else epoch)
            for name, partition, offset, unreadable, epoch in rows
        )

    @overload
    def __getitem__(self, index: int) -> Commit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Commit]: ...
    def __getitem__(self, index: int | slice) -> Commit | Sequence[Commit]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def negative(self) -> Iterator[tuple[str, int, int]]:
        """Topic, partition and offset of each commit of a negative offset, which is none."""
        rows = np.flatnonzero(self.unreadable & (self.offsets < 0))
        if not len(rows):
            return
        ends = np.cumsum([count for _, count in self.topics])
        for row in rows.tolist():
            name, _ = self.topics[int(np.searchsorted(ends, row, side="right"))]
            yield name, int(self.partitions[row]), int(self.offsets[row])

    def has_repeats(self) -> bool:
        """Whether a topic, or a partition of one, is there twice."""
        if len({name for name, _ in self.topics}) < len(self.topics):
            return True
        if len(self.partitions) < 2:
            return False
        topics = np.repeat(np.arange(len(self.topics)), [count for _, count in self.topics])
        keys = topics << 32 | self.partitions & 0xFFFFFFFF
        # A coordinator tells most of them in ascending order.
        return not bool((np.diff(keys) > 0).all()) and len(np.unique(keys)) < len(keys)

    __hash__ = None  # type: ignore[assignment]  # like a list's

    @staticmethod
    def of(commits: Iterable[Commit]) -> CommitColumns:
        if isinstance(commits, CommitColumns):
            return commits
        rows = list(commits)
        return CommitColumns(
            [(name, len(list(those))) for name, those in groupby(row.topic for row in rows)],
            np.array([row.partition for row in rows], np.int64),
            np.array([row.offset or 0 for row in rows], np.int64),
            np.array([row.offset is None for row in rows], np.bool_),
            np.array(
                [NOT_TOLD if row.leader_epoch is None else row.leader_epoch for row in rows],
                np.int64,
            ),
        )
