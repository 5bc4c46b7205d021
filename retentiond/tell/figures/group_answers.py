"""The positions of a topic's groups: every figure about a group, computed once.

In come a topic's answers and its readers, as a snapshot or `state_dir` knows them; out goes an
answer for each group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from retentiond.decide.kept_records import KeptRecords
from retentiond.fields import (
    API,
    BYTES,
    EXPLAINED,
    NUMBERS,
    PARTITION,
    RECORDS,
    TEXT,
    TIME,
    WORD,
    described,
    figure,
    inlined,
    known_total,
    said,
    total,
)
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import GroupKind
from retentiond.tell.figures.answers import TopicAnswer

TOPIC = (API, EXPLAINED)
READING = (EXPLAINED, PARTITION)


@described
class TopicReader:
    """A group that reads a topic. Mappings are by partition.

    - ``kind``: None if only the plan knows the group.
    - ``committed``: the group's known commits; ``remembered``: those that earlier cycles saw last.
    - ``stands_since_ms``: when a commit was first seen at its present offset.
    - ``state``, ``trace`` and ``problem`` come from a snapshot.
    """

    group_id: str = said(TEXT, "the id of the group", name="group")
    kind: GroupKind | None = said(WORD, "its kind; null: only the plan knows the group")
    committed: Mapping[int, int] = field(default_factory=dict)
    stands_since_ms: Mapping[int, int] = field(default_factory=dict)
    remembered: Mapping[int, int | None] = field(default_factory=dict)
    state: str = said(WORD, "its state, as Kafka says it", READING, default="")
    trace: str = said(TEXT, "why the group counts", READING, default="", name="counts_because")

    absent_since_ms: int | None = said(
        TIME, "since when the group has had no commit; null: it has one", default=None
    )
    problem: str | None = said(TEXT, "why it can't be read; null: it can", READING, default=None)


@described
class GroupAnswer:
    """The figures of a group on a topic. ``ends``: the high watermarks of all partitions of the
    topic."""

    reader: TopicReader = inlined(TopicReader)
    ends: Mapping[int, int | None]

    @figure(
        RECORDS,
        "records that it has yet to read; null if that is not known of each partition",
        TOPIC,
    )
    def lag(self) -> int | None:
        return total(self.lags.values())

    @figure(TIME, "since when it has not moved; null if that was not seen", TOPIC)
    def stands_since_ms(self) -> int | None:
        """On the partition with lag where it has stood longest; without lag, on the first one."""
        since_ms = self.reader.stands_since_ms
        behind = [since_ms[at] for at, lag in self.lags.items() if lag != 0 and at in since_ms]
        return min(behind) if behind else since_ms.get(next(iter(self.ends)))

    binds: tuple[int, ...] = said(
        NUMBERS, "the partitions where it has the smallest commit or causes the hold", TOPIC
    )

    @figure(NUMBERS, "the partitions where it has no commit", TOPIC)
    def without_commit(self) -> tuple[int, ...]:
        return tuple(partition for partition in self.ends if partition not in self.reader.committed)

    kept_records: int = said(
        RECORDS,
        "how many records stay there because of it; others may have yet to read some of them, too",
        TOPIC,
    )
    kept_bytes: int | None = said(BYTES, "about what these take; null if that is not known", TOPIC)

    @property
    def group_id(self) -> str:
        return self.reader.group_id

    @cached_property
    def lags(self) -> Mapping[int, int | None]:
        """Records that the group has yet to read, by partition; None if that is not known."""
        committed = self.reader.committed
        return {
            partition: None
            if end is None or (offset := committed.get(partition)) is None
            else max(0, end - offset)
            for partition, end in self.ends.items()
        }

    @cached_property
    def known_lag(self) -> int | None:
        """The lag over the partitions where it is known; None if it is known on none."""
        return known_total(self.lags.values())


def group_answers(topic: TopicAnswer, readers: Iterable[TopicReader]) -> tuple[GroupAnswer, ...]:
    """The answers for a topic's groups: those that bind most partitions come first, then those that
    lag most."""
    ends = {partition.row.partition: partition.row.high_watermark for partition in topic.partitions}
    binds: defaultdict[str | None, list[int]] = defaultdict(list)
    for partition in topic.partitions:
        binds[partition.row.binding_group].append(partition.row.partition)
    kept: defaultdict[str | None, list[KeptRecords]] = defaultdict(list)
    for part in topic.kept:
        kept[part.keeper.group].append(part)
    answers = [
        GroupAnswer(
            reader,
            ends,
            tuple(binds.get(reader.group_id, ())),
            sum(part.records for part in kept.get(reader.group_id, ())),
            total(part.size_bytes for part in kept.get(reader.group_id, ())),
        )
        for reader in readers
    ]
    answers.sort(key=lambda answer: (-len(answer.binds), -(answer.known_lag or 0), answer.group_id))
    return tuple(answers)


@dataclass(frozen=True, slots=True)
class LagReport:
    """What a cycle finds out about the groups' lag in addition to its plan.

    ``kept``: how many records a group alone keeps. ``margins``: seconds until Kafka's forced
    retention reaches records that a group has not read. ``problem``: why some figures may be
    missing.
    """

    kept: Mapping[GroupOnTopic, int] = field(default_factory=dict)
    margins: Mapping[GroupOnTopic, float] = field(default_factory=dict)
    problem: str | None = None


NO_LAG_READ = LagReport()
