"""Replays the past under another policy: where would the log start offset have been?

    cutoff  = min(min committed offset, retention offset, end)       as at the time, or held
    start   = the largest of the log start as Kafka itself has moved it, and all earlier cutoffs

The retention offset of a moment is the one that is recorded, if it is that of the tried retention:
the daemon asked for it then, by the records' own timestamps and the clocks of then. If not, it is
the high watermark of the latest entry that certainly lies the retention or more before: the records
below it existed then, so they are that old.

A *log* is a partition of a topic with one topic id. The upper bits of its number are the topic's
number, see `TOPIC_BITS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from retentiond.decide.rule import least_of_all
from retentiond.history.ask.judge import judged_by_commits, judged_by_record
from retentiond.history.ask.past import EntrySelection, Past
from retentiond.history.ask.question import POLICY_COLUMNS, TopicQuestion
from retentiond.history.ask.readers import RecordedReaders, counted
from retentiond.history.ask.rows import moments_of, recorded_rows, table_of
from retentiond.history.schema import RowKind
from retentiond.model import Outcome, TopicPartition

PARTITION_BITS = 31
TOPIC_BITS = 43
"""Bits of a log's number: the lowest are the partition, then the number of the topic id, then the
topic's number."""

PARTITION_MASK = (1 << PARTITION_BITS) - 1

RETENTIONS_PER_PASS = 12
"""How many retentions one pass over the rows can look up."""

REPLAYED_COLUMNS = (
    "log_start_offset",
    "high_watermark",
    "last_stable_offset",
    "size_bytes",
    "reason",
    "groups",
    "min_committed_offset",
    "forced_retention_ms",
)

HAS_SHRUNK = "size_bytes IS NOT NULL AND (size_before IS NULL OR size_bytes < size_before)"
"""Whether Kafka has freed bytes, as far as sizes tell. It frees whole segments, and never the
active one. Until then, records below the log start are still on disk."""

LOG_BYTES_PER_OFFSET = """
    IF(high_watermark > bytes_from AND size_bytes > 0,
       ln(size_bytes / (high_watermark - bytes_from)), NULL)
"""
"""The logarithm of a moment's bytes per offset. Where segments end is not known, so a log that has
just shrunk to few offsets may still have many more on disk. A few such moments hardly move the mean
of the logarithms."""


class Replay:
    """Replays the past of some topics. A topic's number is its position in ``questions``."""

    def __init__(
        self, past: Past, session: SparkSession, questions: Sequence[TopicQuestion]
    ) -> None:
        self.past = past
        self.session = session
        self.questions = questions
        self.numbers = {question.topic: number for number, question in enumerate(questions)}
        self.logs = _logs(past.topic_ids, self.numbers)

    def partition(self, log: int) -> TopicPartition:
        return TopicPartition(self.questions[log >> TOPIC_BITS].topic, log & PARTITION_MASK)

    def rows(
        self,
        kind: RowKind,
        columns: Sequence[str],
        selections: Sequence[EntrySelection] | None = None,
    ) -> DataFrame:
        return recorded_rows(self.past, self.session, kind, columns, selections)

    def starts(self, only: Sequence[TopicQuestion] | None = None) -> DataFrame:
        """The simulated log starts. Grain: log, order; for the moments of the period.

        Columns: topic (its number), log, order, weight: long; size_bytes?, log_start_offset?,
        high_watermark?: long, as recorded; kafka_start?: long, to where Kafka itself has moved the
        log start; start?: long, the simulated log start before this moment's deletion; cutoff?:
        long, the cutoff of this moment's deletion; bound?, lowest?: as in `judged_by_record`;
        place: long, how many moments of the log, up to this one, tell the readers' positions;
        bytes_from?: long, the first offset whose bytes are on disk, see `HAS_SHRUNK`;
        bytes_per_offset?: double.
        """
        asked = self.questions if only is None else only
        every = sorted(
            {question.retention_ms for question in asked if question.retention_ms is not None}
        )
        step = RETENTIONS_PER_PASS
        passes = [every[at : at + step] for at in range(0, len(every), step)] or [[]]
        return reduce(
            DataFrame.unionAll,
            [
                self._starts(
                    [
                        question
                        for question in asked
                        if question.retention_ms in of_pass
                        or (of_pass is passes[0] and question.retention_ms is None)
                    ],
                    of_pass,
                )
                for of_pass in passes
            ],
        )

    def _starts(self, asked: Sequence[TopicQuestion], retentions: Sequence[int]) -> DataFrame:
        with_other_groups = [
            question for question in asked if question.is_known and question.has_other_groups
        ]
        with_same_groups = [question for question in asked if question not in with_other_groups]
        judged = []
        if with_same_groups or not with_other_groups:
            judged.append(judged_by_record(self.recorded(with_same_groups, retentions)))
        if with_other_groups:
            recorded = self.recorded(with_other_groups, retentions)
            readers = RecordedReaders(
                self.past,
                {self.numbers[question.topic]: question for question in with_other_groups},
            )
            judged.append(judged_by_commits(counted(recorded, readers)))
        return with_start(
            reduce(DataFrame.unionAll, judged).unionByName(
                self._deletions(asked), allowMissingColumns=True
            ),
            [self._distance(retention_ms) for retention_ms in retentions],
        )

    def _distance(self, retention_ms: int) -> int:
        """The difference of two orders whose moments lie the retention apart; see
        `Timeline.order`."""
        timeline = self.past.timeline
        longest = timeline.moments[-1].elapsed_ms + 1
        age_ms = retention_ms and retention_ms + timeline.longest_read_ms  # 0 needs no age
        return min(age_ms, longest) * timeline.scale

    def recorded(self, asked: Sequence[TopicQuestion], retentions: Sequence[int]) -> DataFrame:
        """The recorded partitions. Grain: log, order.

        Columns: the grain; topic: long, its number; partition: int; moment: int, its number;
        weight?: long, null outside the period; complete: boolean; `REPLAYED_COLUMNS`, which are
        null outside the period, except the high watermark and the reason; retention?: int, the
        position of the topic's retention in ``retentions``; `POLICY_COLUMNS` of the topic;
        recorded_retention_offset?: long, only if it is that of the topic's retention.
        """
        columns = ["topic", "topic_id", "partition", *REPLAYED_COLUMNS]
        columns += ["retention_offset", "consumed_retention_ms"]
        rows = self.rows(RowKind.PARTITION, columns).withColumnRenamed(
            "consumed_retention_ms", "recorded_retention_ms"
        )
        if len(asked) < len(self.questions):
            rows = rows.where(F.col("topic").isin([question.topic for question in asked]))
        with_policies = self.logs.join(_policies(asked, retentions), "topic", join_type="inner")
        logs = F.broadcast(self.session.createDataFrame(with_policies))
        within = rows.withColumn("topic_id", F.expr("coalesce(topic_id, '')")).join(
            F.broadcast(moments_of(self.past, self.session)), "entry", "inner"
        )
        return within.join(logs, ["topic", "topic_id"], "inner").selectExpr(
            "base + partition AS log",
            "order",
            f"shiftright(base, {TOPIC_BITS}) AS topic",
            "partition",
            "moment",
            "weight",
            "complete",
            *(
                name
                if name in ("high_watermark", "reason")
                else f"IF(weight IS NULL, NULL, {name}) AS {name}"
                for name in REPLAYED_COLUMNS
            ),
            "IF(weight IS NOT NULL AND recorded_retention_ms = consumed_retention_ms,"
            " retention_offset, NULL) AS recorded_retention_offset",
            "retention",
            *POLICY_COLUMNS,
        )

    def _deletions(self, asked: Sequence[TopicQuestion]) -> DataFrame:
        """The deletions of retentiond itself. Grain: log, order, cutoff, not unique. Columns: log,
        order; deleted?: long, the cutoff; unclear?: long, the cutoff of one whose outcome is
        unknown. It was carried out if the log starts right there."""
        rows = self.rows(RowKind.DELETION, ["topic", "partition", "cutoff", "outcome"]).where(
            F.col("outcome").isin(Outcome.DELETED.value, Outcome.UNKNOWN.value)
            & F.col("topic").isin([question.topic for question in asked])
        )
        logs = F.broadcast(self.session.createDataFrame(self.logs))
        of_period = moments_of(self.past, self.session).where("weight IS NOT NULL")
        return (
            rows.join(logs, "topic", "inner")
            .where("entry >= first_entry AND entry < next_entry")
            .join(F.broadcast(of_period), "entry", "inner")
            .selectExpr(
                "base + partition AS log",
                "order",
                f"IF(outcome = '{Outcome.DELETED.value}', cutoff, NULL) AS deleted",
                f"IF(outcome = '{Outcome.UNKNOWN.value}', cutoff, NULL) AS unclear",
            )
        )


def _policies(asked: Sequence[TopicQuestion], retentions: Sequence[int]) -> pa.Table:
    """The tried policies. Grain: topic. Columns: topic, and retention? and `POLICY_COLUMNS` as in
    `Replay.recorded`."""
    positions: dict[int | None, int] = {retention: at for at, retention in enumerate(retentions)}
    return pa.table(
        {
            "topic": pa.array([question.topic for question in asked], pa.string()),
            "retention": pa.array(
                [positions.get(question.retention_ms) for question in asked], pa.int32()
            ),
            **{
                name: pa.array(map(value_of, asked), kind)
                for name, (kind, value_of) in POLICY_COLUMNS.items()
            },
        }
    )


def _logs(ids: pa.Table, numbers: Mapping[str, int]) -> pa.Table:
    """The logs of topics. ``numbers``: the topics' numbers. Grain: topic, topic_id. Columns: the
    grain; base: long, the number of partition 0's log; first_entry, next_entry: long, the entries
    from which and before which the topic had this id."""
    by_topic: dict[str, list[tuple[int, str]]] = {}
    for row in ids.to_pylist():
        if row["topic"] in numbers:
            by_topic.setdefault(row["topic"], []).append(
                (row["first_entry"], row["topic_id"] or "")
            )
    rows = []
    for topic, topic_ids in by_topic.items():
        topic_ids.sort()
        known = [first for first, topic_id in topic_ids if topic_id] or [topic_ids[0][0]]
        for number, (first, topic_id) in enumerate(topic_ids):
            base = (numbers[topic] << TOPIC_BITS) + (number << PARTITION_BITS)
            if topic_id or len(topic_ids) == 1:
                begin = 0 if first == known[0] else first
                end = next((later for later in known if later > first), 2**63 - 1)
            else:
                begin = end = 0  # the id could not be read then, so no deletion is in this log
            rows.append((topic, topic_id, base, begin, end))
    return table_of(rows, LOG_SCHEMA)


LOG_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "topic_id": pa.string(),
        "base": pa.int64(),
        "first_entry": pa.int64(),
        "next_entry": pa.int64(),
    }
)


def with_start(judged: DataFrame, distances: Sequence[int]) -> DataFrame:
    """The result of `Replay.starts`. ``judged``: the result of `judged_by_record` with rows for
    deletions added. ``distances``: the difference of orders for each retention."""
    so_far = Window.partitionBy("log", "topic").orderBy("order")
    until_now = so_far.rowsBetween(Window.unboundedPreceding, 0)
    before = so_far.rowsBetween(Window.unboundedPreceding, -1)
    of_log = so_far.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    aged = {
        f"aged_{at}": F.last("high_watermark", ignorenulls=True).over(
            so_far.rangeBetween(Window.unboundedPreceding, -distance)
        )
        for at, distance in enumerate(distances)
    }
    # Partitioned by topic, so that summing up a topic's rows needs no second shuffle.
    by_topic = judged.withColumn("topic", F.expr(f"shiftright(log, {TOPIC_BITS})")).repartition(
        "topic"
    )
    known = by_topic.withColumns(
        {
            **aged,
            "ours": F.max("deleted").over(so_far.rangeBetween(Window.unboundedPreceding, 0)),
            "perhaps_ours": F.max("unclear").over(
                so_far.rangeBetween(Window.unboundedPreceding, 0)
            ),
            "size_before": F.last("size_bytes", ignorenulls=True).over(before),
        }
    )
    which = " ".join(f"WHEN {at} THEN aged_{at}" for at in range(len(distances)))
    aged_offset = f"CASE retention {which} END" if which else "CAST(NULL AS BIGINT)"
    retention_offset = f"coalesce(recorded_retention_offset, {aged_offset}) AS retention_offset"
    cut = known.selectExpr("*", retention_offset).selectExpr(
        "*",
        f"{least_of_all('bound', 'retention_offset')} AS cutoff",
        "IF(log_start_offset > coalesce(ours, -1L) AND NOT log_start_offset <=> perhaps_ours,"
        " log_start_offset, NULL) AS not_ours",
        f"IF({HAS_SHRUNK}, log_start_offset, NULL) AS freed_to",
    )
    moved = cut.withColumns(
        {
            "first_start": F.first("log_start_offset", ignorenulls=True).over(until_now),
            "moved_by_kafka": F.max("not_ours").over(until_now),
            "deleted_before": F.max("cutoff").over(before),
            "bytes_from": F.last("freed_to", ignorenulls=True).over(until_now),
            # Of the period: an entry in its midst may lie outside, where a clock was set back.
            "place": F.count(F.expr("IF(weight IS NULL, NULL, lowest)")).over(until_now),
        }
    ).withColumn("log_bytes", F.avg(F.expr(LOG_BYTES_PER_OFFSET)).over(of_log))
    return moved.where("weight IS NOT NULL").selectExpr(
        "topic",
        "log",
        "order",
        "weight",
        "size_bytes",
        "log_start_offset",
        "high_watermark",
        "greatest(first_start, moved_by_kafka) AS kafka_start",
        "greatest(first_start, moved_by_kafka, deleted_before) AS start",
        "cutoff",
        "bound",
        "lowest",
        "place",
        "bytes_from",
        "exp(log_bytes) AS bytes_per_offset",
    )
