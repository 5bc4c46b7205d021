"""The remembered readers and their commits as arrays, which compare quickly with a reading.

They hold what `retentiond.memory.remembered.Remembered` holds, and are made from it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from retentiond.model import GroupKind
from retentiond.snapshot import NOWHERE, Flags, Integers, Snapshot, positions_of_names

if TYPE_CHECKING:
    from retentiond.memory.remembered import GroupOnTopic, RememberedReader

KINDS = (*GroupKind,)

_NUMBER_OF = {kind: number for number, kind in enumerate(KINDS)}

ReaderKey = tuple[str, bool]
"""A `ReaderName` as a plain tuple: a name, and whether it is an external reader's."""


class KnownCommits(NamedTuple):
    """The remembered commits as columns, sorted by reader and partition: the position of the
    commit's reader in `KnownReaders.at`, its partition, its offset, when it was first seen there
    (`NOWHERE` if that is not known), and whether it may be older than the log."""

    owners: Integers
    partitions: Integers
    offsets: Integers
    moved_at_ms: Integers
    is_stale: Flags

    def rows_of(self, owners: Integers, partitions: Integers) -> Integers:
        """Where the commit of each of those stands; `NOWHERE` where there is none."""
        known, asked = (self.owners << 32) + self.partitions, (owners << 32) + partitions
        at = np.searchsorted(known, asked)
        is_known = np.append(known, NOWHERE)[at] == asked  # behind the last there is none
        return np.where(is_known, at, NOWHERE)


class KnownReaders:
    """The remembered readers as columns. A row is a reader of one topic; ``at`` has the rows'
    names."""

    def __init__(self, commits: Mapping[GroupOnTopic, RememberedReader]) -> None:
        self.at = [*commits]
        self._last = commits
        readers: dict[ReaderKey, int] = {}
        topics: dict[str, int] = {}
        count = len(commits)
        self.reader_of = np.fromiter(
            (readers.setdefault((name, ext), len(readers)) for name, _, ext in commits),
            np.int64,
            count,
        )
        self.topic_of = np.fromiter(
            (topics.setdefault(topic, len(topics)) for _, topic, _ in commits), np.int64, count
        )
        self.names = [*readers]
        self._topics = [*topics]
        self._kinds = np.fromiter((_NUMBER_OF[last.kind] for last in commits.values()), int, count)
        self._is_settled = np.fromiter((last.is_settled for last in commits.values()), bool, count)

    @cached_property
    def commits(self) -> KnownCommits:
        every = [last.offsets for last in self._last.values()]
        counts = np.fromiter(map(len, every), int, len(every))
        partitions = _joined([each.partitions for each in every])
        offsets = _joined([each.numbers for each in every])
        moved_at_ms = _joined([_times_of(last) for last in self._last.values()])
        starts = np.cumsum(counts) - counts
        is_stale = np.zeros(len(offsets), bool)
        for at, last in enumerate(self._last.values()):
            if last.stale:
                rows = slice(int(starts[at]), int(starts[at] + counts[at]))
                is_stale[rows] = np.isin(partitions[rows], [*last.stale])
        owners = np.repeat(np.arange(len(every)), counts)
        return KnownCommits(owners, partitions, offsets, moved_at_ms, is_stale)

    @cached_property
    def absent(self) -> Sequence[int]:
        """The rows of the readers that are absent."""
        return [
            at for at, last in enumerate(self._last.values()) if last.absent_since_ms is not None
        ]

    def topics_in(self, topics: Sequence[str]) -> Integers:
        """For each row, the position of its topic in ``topics``; `NOWHERE` if it is not there."""
        return positions_of_names(self._topics, topics)[self.topic_of]

    def kinds_by_name(self, of: Flags) -> dict[ReaderKey, GroupKind]:
        """The kind of each reader in the rows ``of``. If the rows of a reader differ, the last
        one counts."""
        kinds = np.full(len(self.names), NOWHERE)
        kinds[self.reader_of[of]] = self._kinds[of]
        named = zip(self.names, kinds.tolist(), strict=True)
        return {name: KINDS[kind] for name, kind in named if kind != NOWHERE}

    def groups_in(self, snapshot: Snapshot) -> Integers:
        """For each row, the position of its group in the snapshot; `NOWHERE` if it is not there."""
        names = [(group.name, group.is_external) for group in snapshot.groups]
        return positions_of_names(self.names, names)[self.reader_of]

    def pairs(self, snapshot: Snapshot) -> Integers:
        """For each row, the positions of its group and topic as one number
        (`retentiond.memory.remembered.group_and_topic`); `NOWHERE` if one is not there."""
        topics = self.topics_in([topic.name for topic in snapshot.topics])
        groups = self.groups_in(snapshot)
        is_there = (groups != NOWHERE) & (topics != NOWHERE)
        return np.where(is_there, groups * len(snapshot.topics) + topics, NOWHERE)

    def unchanged(self, snapshot: Snapshot, pairs: Integers, quiet: Integers) -> Flags:
        """Whether the snapshot adds nothing to what is remembered, for each row. ``pairs``: of the
        rows. ``quiet``: pairs of group and topic that have commits, none of which has moved."""
        kinds = np.array([_NUMBER_OF[group.kind] for group in snapshot.groups], int)
        is_unchanged: Flags = self._is_settled & np.isin(pairs, quiet)
        if len(kinds) and len(snapshot.topics):
            is_unchanged &= self._kinds == kinds[pairs // len(snapshot.topics)]
        return is_unchanged


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> Integers:
    return np.concatenate([np.empty(0, np.int64), *arrays]).astype(np.int64, copy=False)


def _times_of(last: RememberedReader) -> Integers:
    """When each of its commits was first seen where it is."""
    offsets, times = last.offsets, last.moved_at_ms
    if times.has_partitions_of(offsets):
        return times.numbers
    return np.array([times.get(each, NOWHERE) for each in offsets], np.int64)
