"""The positions of a topic's groups: every figure about a group, computed once.

In come a topic's answers and its readers, as a snapshot or `state_dir` knows them; out goes an
answer for each group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

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
    document_of,
    figure,
    known_total,
    said,
    total,
)
from retentiond.formatting import rfc3339_or_none
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import GroupKind
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.figures.kept_records import KeptRecords

TOPIC = (API, EXPLAINED)
ANY = (*TOPIC, PARTITION)
READING = (EXPLAINED, PARTITION)


@dataclass(frozen=True)
class TopicReader:
    """A group that reads a topic. Mappings are by partition.

    - ``kind``: None if only the plan knows the group.
    - ``committed``: the group's known commits; ``remembered``: those that earlier cycles saw last.
    - ``stands_since_ms``: when a commit was first seen at its present offset.
    - ``absent_since_ms``: since when the group has had no commit on the topic.
    - ``state``, ``trace`` and ``problem`` come from a snapshot.
    """

    group_id: str = field(metadata=said(TEXT, "the id of the group", name="group", documents=ANY))
    kind: GroupKind | None = field(
        metadata=said(WORD, "its kind; null: only the plan knows the group", documents=ANY)
    )
    committed: Mapping[int, int] = field(default_factory=dict)
    stands_since_ms: Mapping[int, int] = field(default_factory=dict)
    absent_since_ms: int | None = None
    remembered: Mapping[int, int | None] = field(default_factory=dict)
    state: str = field(
        default="",
        metadata=said(WORD, "its state, as Kafka says it", documents=READING),
    )
    trace: str = field(
        default="",
        metadata=said(TEXT, "why the group counts", name="counts_because", documents=READING),
    )

    @figure(TIME, "since when the group has had no commit; null: it has one", documents=ANY)
    def absent_since(self) -> str | None:
        return rfc3339_or_none(self.absent_since_ms)

    problem: str | None = field(
        default=None,
        metadata=said(TEXT, "why it can't be read; null: it can", documents=READING),
    )


@dataclass(frozen=True)
class GroupAnswer:
    """The figures of a group on a topic. ``ends``: the high watermarks of all partitions of the
    topic."""

    reader: TopicReader
    ends: Mapping[int, int | None]

    @figure(
        RECORDS,
        "records that it has yet to read; null if that is not known of each partition",
        documents=TOPIC,
    )
    def lag(self) -> int | None:
        return total(self.lags.values())

    @figure(TIME, "since when it has not moved; null if that was not seen", documents=TOPIC)
    def stands_since(self) -> str | None:
        return rfc3339_or_none(self.stands_since_ms)

    binds: tuple[int, ...] = field(
        metadata=said(
            NUMBERS,
            "the partitions where it has the smallest commit or causes the hold",
            documents=TOPIC,
        )
    )

    @figure(NUMBERS, "the partitions where it has no commit", documents=TOPIC)
    def without_commit(self) -> tuple[int, ...]:
        return tuple(partition for partition in self.ends if partition not in self.reader.committed)

    kept_records: int = field(
        metadata=said(
            RECORDS,
            "how many records stay there because of it; others may have yet to read some of them, "
            "too",
            documents=TOPIC,
        )
    )
    kept_bytes: int | None = field(
        metadata=said(BYTES, "about what these take; null if that is not known", documents=TOPIC)
    )

    def document(self, where: str) -> dict[str, Any]:
        """The group with its figures on the topic."""
        return document_of(self.reader, where) | document_of(self, where)

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

    @property
    def stands_since_ms(self) -> int | None:
        """Since when the group has not moved, on the partition with lag where it has stood longest;
        without lag, on the first partition. None if that was not observed."""
        since_ms = self.reader.stands_since_ms
        behind = [since_ms[at] for at, lag in self.lags.items() if lag != 0 and at in since_ms]
        return min(behind) if behind else since_ms.get(next(iter(self.ends)))


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
