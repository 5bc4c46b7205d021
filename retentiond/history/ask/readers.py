"""Which groups read at each moment of the past, and how far, by the recorded commits.

A commit is in force until the next one of the same group on the partition, or until the next whole
entry. A group that has read a topic counts for it until the next whole entry, too, whatever becomes
of its commits. Each day begins with a whole entry, which has all commits and readers that are still
known.

Invariant: if the record doesn't tell which groups read a topic, an unreadable group holds it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from retentiond.decide.groups import KINDS, groups_by_topic
from retentiond.decide.rule import commits_by_partition
from retentiond.history.ask.past import Past
from retentiond.history.ask.question import TopicQuestion
from retentiond.history.ask.rows import moments_of, recorded_rows, table_of
from retentiond.history.entries import day_of
from retentiond.history.schema import CommitState, RowKind
from retentiond.history.table import quoted
from retentiond.model import GroupKind
from retentiond.snapshot import namesake_id


class Trace(NamedTuple):
    """A group that counts for a topic (its number), from one moment to another, both included."""

    topic: int
    group: str
    first: int
    last: int
    committed: bool = False
    required: bool = False
    failed: bool = False
    foreign: bool = False  # an external reader that the topic's tried policy does not name


@dataclass(frozen=True)
class RecordedReaders:
    """The readers of some topics. ``questions``: by the topic's number."""

    past: Past
    questions: Mapping[int, TopicQuestion]

    @cached_property
    def traces(self) -> list[Trace]:
        last = len(self.past.timeline.moments) - 1
        required = [
            Trace(number, self._required_as(number, group), 0, last, required=True)
            for number, question in self.questions.items()
            if question.policy
            for group in question.policy.required_groups
        ]
        unknown = [
            Trace(number, "", first, last, failed=True)
            for first, last in self._unknown
            for number in self.questions
        ]
        unreadable = [
            Trace(number, group, first, last, failed=True)
            for group, first, last in self._unreadable
            for number in self.questions
            if self._counts(number, group)
        ]
        return sorted({*required, *unknown, *unreadable, *self._seen})

    @cached_property
    def groups(self) -> list[str]:
        """Sorted. A group's number is its position."""
        return sorted({trace.group for trace in self.traces})

    def _counts(self, number: int, group: str) -> bool:
        question = self.questions[number]
        is_external = self._kinds.get(group) == {GroupKind.EXTERNAL.value}
        if is_external and question.drops(group):
            return False
        return self._is_foreign(number, group) or not question.excludes(group)

    def _is_foreign(self, number: int, group: str) -> bool:
        """Whether it is an external reader that another policy names, or was one at a time: then it
        counts by its offset, and stands for no name and no number."""
        policy = self.questions[number].policy
        was_external = GroupKind.EXTERNAL.value in self._kinds.get(group, ())
        return was_external and not (policy and policy.names_external(group))

    def _required_as(self, number: int, group: str) -> str:
        """The required group, as another than the reader that only has its name."""
        if self._is_foreign(number, group):
            return namesake_id(group, is_external=False)
        return group

    @property
    def _seen(self) -> Iterator[Trace]:
        numbers = {question.topic: number for number, question in self.questions.items()}
        ends = self.past.timeline.next_whole
        for row in self._first_traces:
            number, group = numbers[row["topic"]], row["group"]
            if row["first_entry"] is None or not self._counts(number, group):
                continue
            first = self._numbers[row["first_entry"]]
            last = (len(ends) if self.questions[number].waits_longer else ends[first]) - 1
            unknown = self._may_restore(number, group)
            foreign = self._is_foreign(number, group)
            yield Trace(number, group, first, last, committed=True, failed=unknown, foreign=foreign)

    def _may_restore(self, number: int, group: str) -> bool:
        """Whether the group may restore its state from the topic without a trace in the record: a
        streams group that did not count under the policy in force."""
        in_force = self.questions[number].in_force
        was_counted = in_force is not None and not in_force.excludes(group)
        return not was_counted and GroupKind.STREAMS.value in self._kinds.get(group, ())

    @property
    def _first_traces(self) -> list[dict[str, Any]]:
        """Grain: topic, group, and the time between two whole entries, or less. ``first_entry``:
        the first entry of this time at which the group had a commit or was known to read; None if
        there is none."""
        topics = ", ".join(quoted(question.topic) for question in self.questions.values())
        commit, reader = quoted(RowKind.COMMIT.value), quoted(RowKind.READER.value)
        times = ["day", *(f"entry >= {entry}" for entry in self._whole_within_a_day)]
        rows: list[dict[str, Any]] = self.past.query(
            f"""SELECT topic, "group",
                min(CASE WHEN state IS NOT NULL THEN entry END) AS first_entry
            FROM history WHERE kind IN ({commit}, {reader}) AND topic IN ({topics}) AND {{within}}
            GROUP BY topic, "group", {", ".join(times)}"""
        ).to_pylist()
        return rows

    @property
    def _whole_within_a_day(self) -> Iterator[int]:
        """Whole entries that are not the first of their day."""
        days = set()
        for moment in self.past.timeline.moments:
            day = day_of(moment.entry.at_ms)
            if moment.entry.is_whole and day in days:
                yield moment.entry.entry
            days.add(day)

    @cached_property
    def _kinds(self) -> Mapping[str, set[str]]:
        return kinds_by_name(self.past)

    @property
    def _unreadable(self) -> Iterator[tuple[str, int, int]]:
        """Groups that were unreadable as a whole, with the numbers of the first and the last moment
        of that time."""
        of_groups = f"kind = {quoted(RowKind.GROUP.value)} AND {{within}}"
        is_unreadable = "state = 'unreadable' AND complete IS NOT TRUE"
        rows = self.past.query(
            f'SELECT "group", entry, {is_unreadable} AS is_unreadable FROM history '
            f'WHERE {of_groups} AND "group" IN '
            f'(SELECT "group" FROM history WHERE {of_groups} AND {is_unreadable}) '
            'ORDER BY "group", entry'
        ).to_pylist()
        ends = self.past.timeline.next_whole
        for group, group_rows in groupby(rows, key=lambda row: str(row["group"])):
            changes = [(self._numbers[row["entry"]], row["is_unreadable"]) for row in group_rows]
            for (first, is_bad), (after, _) in pairwise([*changes, (len(ends), False)]):
                if is_bad:
                    yield group, first, min(after, ends[first]) - 1

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {moment.entry.entry: moment.number for moment in self.past.timeline.moments}

    @property
    def _unknown(self) -> Iterator[tuple[int, int]]:
        """Moments at which some commits and readers are not known: those before the first whole
        entry, and those from a missing entry to the next whole one. Consecutive ones as the numbers
        of the first and the last."""
        is_known, before, unknown = False, 0, []
        for moment in self.past.timeline.moments:
            entry = moment.entry
            is_known = entry.is_whole or (is_known and entry.entry == before + 1)
            before = entry.entry
            if not is_known:
                unknown.append(moment.number)
        # The difference of number and position is the same for consecutive numbers.
        for _, run in groupby(enumerate(unknown), key=lambda pair: pair[1] - pair[0]):
            numbers = [number for _, number in run]
            yield numbers[0], numbers[-1]


def kinds_by_name(past: Past) -> Mapping[str, set[str]]:
    """All kinds that the readers of a name had."""
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for row in past.query(
        'SELECT DISTINCT "group", group_kind FROM history '
        f"WHERE kind = {quoted(RowKind.GROUP.value)} AND {{within}}"
    ).to_pylist():
        kinds[row["group"]].add(row["group_kind"])
    return kinds


NUMBERED_TRACES = pa.schema(
    {
        "topic": pa.int64(),
        "group": pa.int32(),
        "first": pa.int32(),
        "last": pa.int32(),
        "committed": pa.bool_(),
        "required": pa.bool_(),
        "failed": pa.bool_(),
        "foreign": pa.bool_(),
    }
)
"""`Trace` with numbers for groups."""

NUMBERED_PAIRS = pa.schema(
    {"topic": pa.string(), "group": pa.string(), "id": pa.int32(), "number": pa.int64()}
)
"""A topic and a group that commits there, by names and by numbers."""


def counted(recorded: DataFrame, readers: RecordedReaders) -> DataFrame:
    """``recorded`` with the groups that count under the tried policies, and with their commits.

    ``recorded`` has topic, partition and moment; same grain. Columns: its own; counted_groups?:
    long, own_groups?: long, failed_group_id?, missing_group_id? of `groups_by_topic`; commits?,
    readable_commits?: long, min_offset?, max_offset?: long, unreadable_group_id?: int of
    `commits_by_partition`.
    """
    session = recorded.sparkSession
    ids = {group: group_id for group_id, group in enumerate(readers.groups)}
    groups = groups_by_topic(_relevant(session, readers, ids), ("topic", "moment"))
    commits = commits_by_partition(
        _commits(session, readers, ids), max(1, len(ids)), ("topic", "partition", "moment")
    ).selectExpr(
        "topic",
        "partition",
        "moment",
        "commits",
        "readable_commits",
        "min_offset",
        "max_offset",
        "unreadable_group_id",
    )
    return (
        recorded.repartition("topic")
        .join(groups.withColumnRenamed("groups", "counted_groups"), ["topic", "moment"], "left")
        .join(commits, ["topic", "partition", "moment"], "left")
    )


def _relevant(session: SparkSession, readers: RecordedReaders, ids: Mapping[str, int]) -> DataFrame:
    """The groups that count. Grain: topic, moment, group_id. Columns: the grain and `KINDS`."""
    numbered = ((trace.topic, ids[trace.group], *trace[2:]) for trace in readers.traces)
    return (
        session.createDataFrame(table_of(numbered, NUMBERED_TRACES))
        .repartition("topic")
        .selectExpr(
            "topic",
            "group AS group_id",
            *KINDS,
            "explode(sequence(first, last)) AS moment",
        )
        .groupBy("topic", "moment", "group_id")
        .agg(*(F.expr(f"bool_or({kind}) AS {kind}") for kind in KINDS))
    )


def _commits(session: SparkSession, readers: RecordedReaders, ids: Mapping[str, int]) -> DataFrame:
    """The commits of groups that count. Grain: topic, partition, moment, group_id. Columns: the
    grain; offset?: long, null if the commit proves nothing."""
    pairs = {(trace.topic, trace.group) for trace in readers.traces if trace.committed}
    rows = [(readers.questions[number].topic, group, ids[group], number) for number, group in pairs]
    numbered = session.createDataFrame(table_of(rows, NUMBERED_PAIRS))
    commits = recorded_rows(
        readers.past,
        session,
        RowKind.COMMIT,
        ["group", "topic", "partition", "committed_offset", "state"],
    ).join(F.broadcast(numbered), ["topic", "group"], "inner")
    return in_force(
        commits.selectExpr(
            "entry",
            "number AS topic",
            "id AS group",
            "partition",
            "state IS NOT NULL AS is_there",
            f"IF(state = '{CommitState.READ.value}', committed_offset, NULL) AS committed_offset",
        ),
        readers.past,
    ).selectExpr(
        "topic",
        "partition",
        "group AS group_id",
        "committed_offset AS offset",
        "explode(sequence(first, last)) AS moment",
    )


def in_force(commits: DataFrame, past: Past) -> DataFrame:
    """When each recorded commit was in force. ``commits`` has entry, topic (its number), partition,
    group, committed_offset?, and is_there: whether there is a commit.

    Grain: group, topic, partition, first. Columns: the grain; committed_offset?: long; first, last:
    int, the numbers of the moments between which it was the last recorded commit.
    """
    of_partition = Window.partitionBy("topic", "partition", "group").orderBy("first")
    return (
        commits.join(F.broadcast(moments_of(past, commits.sparkSession)), "entry", "inner")
        .repartition("topic")
        .selectExpr(
            "topic",
            "partition",
            "group",
            "committed_offset",
            "is_there",
            "moment AS first",
            "next_whole",
        )
        .withColumn("next", F.lead("first").over(of_partition))
        .where("is_there")
        .selectExpr(
            "group",
            "topic",
            "partition",
            "committed_offset",
            "first",
            "least(next, next_whole) - 1 AS last",
        )
    )
