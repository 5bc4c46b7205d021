"""Where the groups of a topic stand: each figure about a group, worked out once.

In come a topic's answers and its readers, as a snapshot or `state_dir` knows them; out goes an
answer for each group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from retentiond.model import GroupKind
from retentiond.tell.answers import Kept, Stored, TopicAnswer, total, total_stored


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A group that reads a topic. Mappings are by partition.

    ``committed``: its commits that are known; ``remembered``: those that earlier cycles saw last.
    ``stands_since_ms``: when a commit was first seen where it is. ``absent_since_ms``: since when
    the group has no commit on the topic any more. ``kind`` None: only the plan knows it.
    ``state``, ``trace`` (why it counts) and ``problem`` (why it can't be read) are a snapshot's.
    """

    group_id: str
    kind: GroupKind | None
    committed: Mapping[int, int] = field(default_factory=dict)
    stands_since_ms: Mapping[int, int] = field(default_factory=dict)
    absent_since_ms: int | None = None
    remembered: Mapping[int, int | None] = field(default_factory=dict)
    state: str = ""
    trace: str = ""
    problem: str | None = None


@dataclass(frozen=True)
class GroupAnswer:
    """``ends``: high watermarks by partition, of the whole topic. ``binds``: the partitions whose
    smallest commit, or whose hold, is this group's. ``kept_records`` stay there on its account, and
    take about ``kept``; other groups may have yet to read some of them too."""

    reader: TopicReader
    ends: Mapping[int, int | None]
    binds: tuple[int, ...]
    kept_records: int
    kept: Stored

    @property
    def group_id(self) -> str:
        return self.reader.group_id

    @cached_property
    def lags(self) -> Mapping[int, int | None]:
        """Records that it has yet to read, by partition; None where that is not known."""
        committed = self.reader.committed
        return {
            partition: None
            if end is None or (offset := committed.get(partition)) is None
            else max(0, end - offset)
            for partition, end in self.ends.items()
        }

    @property
    def lag(self) -> int | None:
        """Over all partitions; None where one's is not known."""
        return total(self.lags.values())

    @cached_property
    def known_lag(self) -> int | None:
        """Over the partitions where it is known; None where it is on none."""
        known = [lag for lag in self.lags.values() if lag is not None]
        return sum(known) if known else None

    @property
    def without_commit(self) -> tuple[int, ...]:
        return tuple(each for each in self.ends if each not in self.reader.committed)

    @property
    def stands_since_ms(self) -> int | None:
        """Where it has stood the longest with records yet to read; else on the first partition.
        None: nobody has seen it."""
        since_ms = self.reader.stands_since_ms
        behind = [since_ms[at] for at, lag in self.lags.items() if lag != 0 and at in since_ms]
        return min(behind) if behind else since_ms.get(next(iter(self.ends)))


def group_answers(topic: TopicAnswer, readers: Iterable[TopicReader]) -> tuple[GroupAnswer, ...]:
    """Those that bind the most partitions first, then those that lag most."""
    ends = {each.row.partition: each.row.high_watermark for each in topic.partitions}
    binds: defaultdict[str | None, list[int]] = defaultdict(list)
    for each in topic.partitions:
        binds[each.row.binding_group].append(each.row.partition)
    kept: defaultdict[str | None, list[Kept]] = defaultdict(list)
    for part in topic.kept:
        kept[part.keeper.group].append(part)
    found = [
        GroupAnswer(
            reader,
            ends,
            tuple(binds.get(reader.group_id, ())),
            sum(part.records for part in kept.get(reader.group_id, ())),
            total_stored(part.size for part in kept.get(reader.group_id, ())),
        )
        for reader in readers
    ]
    found.sort(key=lambda each: (-len(each.binds), -(each.known_lag or 0), each.group_id))
    return tuple(found)
