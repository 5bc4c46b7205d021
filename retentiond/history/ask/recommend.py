"""Recommends the shortest consumed retention under which every reader of the past would have found
its records.

Without a retention, records go as soon as they are consumed. A reader that stands below the log
start then has come for records that are gone. The first of these records was first seen in one
entry, and was deleted in another one at the latest. A retention longer than the time between the
two entries would have kept it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.config import TopicPolicy
from retentiond.fields import (
    BYTES,
    FLAG,
    MILLISECONDS,
    TEXT,
    TIME,
    WORD,
    described,
    figure,
    row_of,
    said,
)
from retentiond.formatting import DAY_MS, MINUTE_MS
from retentiond.history.ask.missed import MAY_HAVE_MISSED, Doubt, asked_by, doubts_of, readers_below
from retentiond.history.ask.observed import judged_ms
from retentiond.history.ask.past import EntrySelection, Past
from retentiond.history.ask.question import TopicQuestion
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.simulate import SimulatedTopic, simulate
from retentiond.history.schema import RowKind
from retentiond.history.table import quoted
from retentiond.model import Reason

ENOUGH_MS = 7 * DAY_MS
"""A week shows readers that come back daily, and most of those that come back weekly."""

ENOUGH_TIMES = 3
"""A topic must have been observed for at least this many times a recommended retention."""


class NeedKind(StrEnum):
    REWIND = "rewind"
    """A commit went back."""

    LATE_READER = "late_reader"
    """A group's first commit lay below records that others had read."""

    NONE_SEEN = "none_seen"


@described
class LongestNeed:
    """The reader that came for the oldest records."""

    why: NeedKind = said(WORD, "rewind, late_reader or none_seen", name="kind")
    group: str | None = said(TEXT, "who came for the oldest records", default=None)
    at_ms: int | None = said(TIME, "when", default=None)
    ms: int | None = said(MILLISECONDS, "how old its first record was at most", default=None)


@described
class Recommendation:
    """A recommended retention.

    - ``shortest_ms``: the shortest retention that would have been enough.
    - ``limited_by_ms``: the topic's retention.ms, if more would have been recommended; else None. A
      topic whose consumed retention exceeds it is held.
    - ``is_short``: whether it was observed for too short a time to rely on, so that nothing shorter
      than the time since the topic was first seen is recommended.
    - ``simulated``: the past under the recommended retention.
    """

    topic: str = said(TEXT, "the topic", column="TOPIC")
    retention_ms: int = said(MILLISECONDS, "the recommended retention")
    shortest_ms: int

    @figure(FLAG, "whether it is the topic's retention.ms, because more would be held")
    def limited_by_retention_ms(self) -> bool:
        return self.limited_by_ms is not None

    because: LongestNeed = said(row_of(LongestNeed), "the reader that needs it")
    observed_ms: int = said(MILLISECONDS, "for how long it was observed, and not held")

    @figure(MILLISECONDS, "of how much of that the past can tell")
    def judged_ms(self) -> int:
        """As of `SimulatedTopic`."""
        return judged_ms(self.observed_ms, self.retention_ms, self.simulated.recorded_ms)

    is_short: bool

    @figure(FLAG, "whether that is enough to rely on")
    def observed_enough(self) -> bool:
        return not self.is_short

    limited_by_ms: int | None

    @figure(MILLISECONDS, "as --write-config has it", (), column="RETENTION")
    def written_ms(self) -> int:
        """In whole minutes: rounded up, but not beyond retention.ms."""
        if self.limited_by_ms is not None:
            return self.limited_by_ms // MINUTE_MS * MINUTE_MS
        return -(-self.retention_ms // MINUTE_MS) * MINUTE_MS

    simulated: SimulatedTopic

    @figure(BYTES, "its mean", column="MEAN")
    def mean_bytes(self) -> int | None:
        return self.simulated.mean_bytes

    @figure(BYTES, "its simulated mean", column="SIMULATED MEAN")
    def simulated_mean_bytes(self) -> int | None:
        return self.simulated.simulated_mean_bytes


class _Return(NamedTuple):
    """A reader that came back for records that the others had read. The largest needs the longest
    retention. ``ms``: how old its first record was at most; that of the past if it ``is_older``.
    ``needed_ms``: the retention must be longer than this."""

    is_older: bool
    ms: int
    needed_ms: int
    group: str
    partition: int
    committed_offset: int
    moment: int


def recommend(
    replay: Replay, safety: float, again: Callable[[Sequence[TopicQuestion]], Replay]
) -> tuple[Recommendation, ...]:
    """Recommends a retention for each topic that was seen at more than one moment. ``replay``: the
    past under `without_retention`. ``again`` returns the same past under other questions.
    """
    orders = (
        replay.starts()
        .groupBy("topic", "order")
        .agg(
            F.expr("max(weight) AS weight"),
            F.expr("bool_or(bound IS NOT NULL) AS is_unheld"),
            F.expr(f"bool_or({MAY_HAVE_MISSED}) AS is_doubtful"),
        )
        .groupBy("topic")
        .agg(
            F.expr("min(order) AS first"),
            F.expr("max(order) AS last"),
            F.expr("sum(IF(is_unheld, weight, 0L)) AS unheld_ms"),
            F.expr("min(IF(is_doubtful, order, NULL)) AS since"),
            F.expr("max(IF(is_doubtful, order, NULL)) AS until"),
        )
    )
    rows = sorted(orders.toArrow().to_pylist(), key=lambda row: int(row["topic"]))
    returns = _returns(replay, doubts_of(rows))
    needs = _needs(replay, returns)
    forced_ms = _forced_retentions(replay.past)
    timeline, recommended = replay.past.timeline, []
    for row in rows:
        topic = replay.questions[row["topic"]].topic
        observed_ms = (row["last"] - row["first"]) // timeline.scale
        if not observed_ms:  # a single moment: no reader had the time to come back
            continue
        at_least = [timeline.usual_ms]
        if worst := returns.get(topic):
            at_least += [worst.needed_ms + 1, observed_ms if worst.is_older else worst.ms]
        retention_ms = math.ceil(max(at_least) * safety)
        # While the topic was held nobody would have missed anything, whoever came back.
        unheld_ms = min(observed_ms, row["unheld_ms"])
        is_short = unheld_ms < max(ENOUGH_MS, ENOUGH_TIMES * retention_ms)
        if is_short:
            retention_ms = max(retention_ms, observed_ms)
        limit_ms = forced_ms.get(topic)
        if limit_ms is not None and limit_ms < retention_ms:
            retention_ms = limit_ms
        else:
            limit_ms = None
        need = needs.get(topic, NOBODY_CAME_BACK)
        recommended.append(
            (topic, retention_ms, max(at_least), need, unheld_ms, is_short, limit_ms)
        )
    retentions = {topic: retention_ms for topic, retention_ms, *_ in recommended}
    simulated = simulate(again(with_retentions(replay.questions, retentions)))
    by_topic = {topic.topic: topic for topic in simulated.topics}
    return tuple(Recommendation(*fields, by_topic[fields[0]]) for fields in recommended)


RETURN_COLUMNS = ("topic", "log", "order", "start", "kafka_start", "lowest", "place", "cutoff")
"""The columns that are needed to find returning readers."""

NOBODY_CAME_BACK = LongestNeed(NeedKind.NONE_SEEN)


def without_retention(question: TopicQuestion) -> TopicQuestion:
    return _with(question, 0)


def with_retentions(
    questions: Sequence[TopicQuestion], retentions: Mapping[str, int]
) -> list[TopicQuestion]:
    """``retentions``: of the topics that have another one."""
    return [_with(question, retentions.get(question.topic)) for question in questions]


def _with(question: TopicQuestion, retention_ms: int | None) -> TopicQuestion:
    if question.policy is None or retention_ms is None:
        return question
    policy: TopicPolicy = replace(question.policy, consumed_retention_ms=retention_ms)
    return replace(question, policy=policy)


def _forced_retentions(past: Past) -> dict[str, int]:
    """The retention.ms of each topic, as last recorded; only where it is limited."""
    rows = past.query(
        "SELECT topic, last_value(forced_retention_ms ORDER BY entry) AS limit_ms FROM history "
        f"WHERE kind = {quoted(RowKind.PARTITION.value)} AND {{within}} GROUP BY topic"
    )
    limits = zip(rows["topic"].to_pylist(), rows["limit_ms"].to_pylist(), strict=True)
    return {topic: limit_ms for topic, limit_ms in limits if limit_ms is not None}


def never_deletable(past: Past) -> frozenset[str]:
    """Topics whose rows all say `Reason.NOT_DELETABLE`, except those where the topic could not be
    read."""
    held, unreadable = quoted(Reason.NOT_DELETABLE.value), quoted(Reason.OFFSET_UNREADABLE.value)
    rows = past.query(
        "SELECT topic FROM history "
        f"WHERE kind = {quoted(RowKind.PARTITION.value)} AND {{within}} GROUP BY topic "
        f"HAVING bool_or(coalesce(reason, '') = {held}) "
        f"AND bool_and(coalesce(reason, '') IN ({held}, {unreadable}))"
    )
    return frozenset(rows["topic"].to_pylist())


def _returns(replay: Replay, doubts: Sequence[Doubt]) -> dict[str, _Return]:
    """For each topic, the return that needs the longest retention."""
    if not doubts:
        return {}
    starts = replay.starts(asked_by(replay, doubts)).select(*RETURN_COLUMNS).persist()  # used twice
    try:
        rows = _returning_readers(replay, doubts, starts).toArrow().to_pylist()
    finally:
        starts.unpersist()
    by_topic: dict[str, _Return] = {}
    for row in rows:
        at = replay.partition(row["log"])
        came_back = _return(replay.past, row, at.partition)
        by_topic[at.topic] = max(came_back, by_topic.get(at.topic, came_back))
    return by_topic


def _returning_readers(replay: Replay, doubts: Sequence[Doubt], starts: DataFrame) -> DataFrame:
    """``starts`` is the result of `Replay.starts`, for the topics in doubt.

    Grain: group, log, committed_offset. Columns: the grain; moment: int, the number of the first
    moment at which the reader stood there; and orders, long: first, the log's first one; appeared?,
    of the first moment that has the record; deleted?, of the last moment, while the reader stood
    there, that would have deleted the record.
    """
    below = (
        readers_below(replay, doubts, starts.where(MAY_HAVE_MISSED))
        .groupBy("group", "log", "committed_offset")
        .agg(F.min("moment").alias("moment"), F.max("order").alias("until"))
    )
    # Entries before the period also tell how old a record is.
    appearances = replay.recorded(asked_by(replay, doubts), [0]).selectExpr(
        "log", "order", "high_watermark", "CAST(NULL AS BIGINT) AS cutoff"
    )
    deletions = starts.selectExpr(
        "log", "order", "CAST(NULL AS BIGINT) AS high_watermark", "cutoff"
    )
    return (
        appearances.unionAll(deletions)
        .join(below, "log", "inner")
        .groupBy("group", "log", "committed_offset", "moment")
        .agg(
            F.expr("min(IF(high_watermark > committed_offset, order, NULL)) AS appeared"),
            F.expr("max(IF(cutoff > committed_offset AND order < until, order, NULL)) AS deleted"),
            F.expr("min(order) AS first"),
        )
    )


def _return(past: Past, row: dict[str, Any], partition: int) -> _Return:
    timeline = past.timeline
    appeared, deleted = timeline.number(row["appeared"]), timeline.number(row["deleted"])
    came = max(row["moment"], deleted + 1)
    moments = timeline.moments
    is_older = row["appeared"] == row["first"]
    return _Return(
        is_older,
        timeline.observed_ms
        if is_older
        else moments[came].elapsed_ms - moments[appeared - 1].elapsed_ms,
        moments[deleted].elapsed_ms - moments[appeared].elapsed_ms,
        row["group"],
        partition,
        row["committed_offset"],
        row["moment"],
    )


def _needs(replay: Replay, returns: dict[str, _Return]) -> dict[str, LongestNeed]:
    """The returns, with the reason: a rewind if the reader had been further before."""
    if not returns:
        return {}
    rewound = set(_rewound(replay, returns).toArrow()["topic"].to_pylist())
    moments = replay.past.timeline.moments
    return {
        topic: LongestNeed(
            NeedKind.REWIND if topic in rewound else NeedKind.LATE_READER,
            latest.group,
            moments[latest.moment].entry.at_ms,
            latest.ms,
        )
        for topic, latest in returns.items()
    }


def _rewound(replay: Replay, returns: dict[str, _Return]) -> DataFrame:
    """The topics whose reader in ``returns`` had been further before. Grain: topic."""
    moments = replay.past.timeline.moments
    first = moments[0].entry.entry
    before = [
        EntrySelection(topic, first, moments[latest.moment].entry.entry - 1)
        for topic, latest in returns.items()
    ]
    columns = ["group", "topic", "partition", "committed_offset"]
    commits = replay.rows(RowKind.COMMIT, columns, before)
    readers = pa.table(
        {
            "topic": list(returns),
            "group": [latest.group for latest in returns.values()],
            "partition": pa.array([latest.partition for latest in returns.values()], pa.int32()),
            "came_for": pa.array(
                [latest.committed_offset for latest in returns.values()], pa.int64()
            ),
        }
    )
    return (
        commits.where(F.col("topic").isin(list(returns)))
        .join(
            F.broadcast(replay.session.createDataFrame(readers)),
            ["topic", "group", "partition"],
            "inner",
        )
        .where("committed_offset > came_for")
        .select("topic")
        .distinct()
    )
