"""Finds readers that stood below the simulated log start, came back there or were rewound to there.

A reader is checked at every entry whose record tells the readers' positions. Its commit is the last
recorded one, until the next entry that has all commits again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from retentiond.fields import NUMBER, OFFSET, RECORDS, TEXT, TIME, described, said
from retentiond.history.ask.question import TopicQuestion
from retentiond.history.ask.readers import in_force, kinds_by_name
from retentiond.history.ask.replay import PARTITION_MASK, Replay
from retentiond.history.ask.rows import table_of
from retentiond.history.schema import RowKind
from retentiond.model import GroupKind

MOMENTS_PER_BUCKET = 16
"""Moments are joined to the spans of commits in buckets of so many moments."""


@described
class Missed:
    """Records that a group would not have found, until it was seen above the simulated log start
    again."""

    group: str = said(TEXT, "the group, or the external reader")
    topic: str
    partition: int = said(NUMBER, "the partition's number")
    at_ms: int = said(TIME, "the entry at which it was first seen below the simulated log start")
    committed_offset: int = said(OFFSET, "its commit when it missed the most")
    log_start_offset: int = said(OFFSET, "the simulated log start of that moment")
    records: int = said(RECORDS, "how many records it missed then")


class Doubt(NamedTuple):
    """A topic (its number) where a reader may have stood below the simulated log start, and the
    orders of the first and the last such moment."""

    topic: int
    since: int
    until: int


MAY_HAVE_MISSED = "lowest < start AND start > kafka_start"
"""Whether a reader may have stood below the simulated log start, on the columns of
`Replay.starts`."""


def doubts_of(rows: Iterable[Mapping[str, Any]]) -> list[Doubt]:
    """The doubts in ``rows`` of topics, where ``since`` and ``until`` are None without a doubt."""
    return [
        Doubt(row["topic"], row["since"], row["until"]) for row in rows if row["since"] is not None
    ]


def missed(
    replay: Replay, doubts: Sequence[Doubt], doubtful: DataFrame
) -> Mapping[str, list[Missed]]:
    """The missed records of the topics in doubt, sorted by time, group and partition. ``doubtful``:
    see `readers_below`."""
    if not doubts:
        return {}
    rows = occurrences(readers_below(replay, doubts, doubtful)).toArrow().to_pylist()
    timeline = replay.past.timeline
    by_topic: dict[str, list[Missed]] = {}
    for row in sorted(rows, key=lambda row: (row["moment"], row["group"], row["log"])):
        at = replay.partition(row["log"])
        by_topic.setdefault(at.topic, []).append(
            Missed(
                row["group"],
                *at,
                timeline.moments[row["moment"]].entry.at_ms,
                row["committed_offset"],
                row["start"],
                row["records"],
            )
        )
    return by_topic


def asked_by(replay: Replay, doubts: Sequence[Doubt]) -> list[TopicQuestion]:
    return [replay.questions[doubt.topic] for doubt in doubts]


def readers_below(replay: Replay, doubts: Sequence[Doubt], doubtful: DataFrame) -> DataFrame:
    """Commits that lay below the simulated log start because of simulated deletions. ``doubtful``:
    the rows of `Replay.starts` of the topics in doubt for which `MAY_HAVE_MISSED` holds.

    Grain: group, log, moment (its number). Columns: the grain; order: long; place: see
    `Replay.starts`; committed_offset, start, records: long.
    """
    moments = doubtful.selectExpr(
        "log",
        "order",
        "topic",
        f"CAST(log & {PARTITION_MASK} AS INT) AS partition",
        f"CAST(order % {replay.past.timeline.scale} AS INT) AS moment",
        "place",
        "start",
        "kafka_start",
    ).selectExpr("*", f"moment DIV {MOMENTS_PER_BUCKET} AS bucket")
    commits = commits_in_force(replay, doubts).selectExpr(
        "topic",
        "partition",
        "group",
        "committed_offset",
        "first",
        "last",
        f"explode(sequence(first DIV {MOMENTS_PER_BUCKET}, last DIV {MOMENTS_PER_BUCKET}))"
        " AS bucket",
    )
    return (
        moments.join(commits, ["topic", "partition", "bucket"], "inner")
        .where("moment BETWEEN first AND last AND greatest(committed_offset, kafka_start) < start")
        .selectExpr(
            "group",
            "log",
            "order",
            "moment",
            "place",
            "committed_offset",
            "start",
            "start - greatest(committed_offset, kafka_start) AS records",
        )
    )


def occurrences(below: DataFrame) -> DataFrame:
    """Joins consecutive rows of a reader until it was seen above the log start. ``below`` is the
    result of `readers_below`.

    Grain: group, log, moment (the first one). Columns: the grain; committed_offset, start, records:
    long.
    """
    in_order = Window.partitionBy("group", "log").orderBy("place")
    return (
        below.withColumn("run", F.col("place") - F.row_number().over(in_order))
        .groupBy("group", "log", "run")
        .agg(
            F.min("moment").alias("moment"),
            F.expr("max(struct(records, -place, committed_offset, start)) AS worst"),
        )
        .selectExpr(
            "group", "log", "moment", "worst.committed_offset", "worst.start", "worst.records"
        )
    )


def commits_in_force(replay: Replay, doubts: Sequence[Doubt]) -> DataFrame:
    """The commits of groups that count, at the moments in doubt and some before, as in
    `retentiond.history.ask.readers.in_force`."""
    past, questions = replay.past, asked_by(replay, doubts)
    moments, number = past.timeline.moments, past.timeline.number
    selections = [
        past.commits_at(
            replay.questions[doubt.topic].topic,
            moments[number(doubt.since)],
            moments[number(doubt.until)],
        )
        for doubt in doubts
    ]
    topics = [question.topic for question in questions]
    ids = pa.array([replay.numbers[topic] for topic in topics], pa.int64())
    numbers = replay.session.createDataFrame(pa.table({"topic": topics, "number": ids}))
    columns = ["group", "topic", "partition", "committed_offset"]
    rows = replay.rows(RowKind.COMMIT, columns, selections).join(
        F.broadcast(numbers), "topic", "inner"
    )
    return in_force(
        _without_uncounted(rows, replay, questions).selectExpr(
            "entry",
            "number AS topic",
            "partition",
            "group",
            "committed_offset",
            "committed_offset IS NOT NULL AS is_there",
        ),
        past,
    )


def _without_uncounted(
    commits: DataFrame, replay: Replay, questions: Sequence[TopicQuestion]
) -> DataFrame:
    """The commits without those of groups that count under neither policy."""
    if not any(question.policy and not question.policy.counts_everybody for question in questions):
        return commits
    groups = commits.select("group").distinct().toArrow()["group"].to_pylist()
    kinds = kinds_by_name(replay.past)
    uncounted = [
        (question.topic, group)
        for question in questions
        for group in groups
        if not question.counts(group, was_external=GroupKind.EXTERNAL.value in kinds.get(group, ()))
    ]
    if not uncounted:
        return commits
    pairs = table_of(uncounted, pa.schema({"topic": pa.string(), "group": pa.string()}))
    return commits.join(
        F.broadcast(replay.session.createDataFrame(pairs)), ["topic", "group"], "left_anti"
    )
