"""The past, played again under another policy: where the log start offset would have been.

    cutoff  = min(min committed offset, retention offset, end)       as at the time, or held
    start   = the largest of the log start as Kafka itself has moved it, and all earlier cutoffs

The retention offset of a moment is the high watermark of the latest entry that surely lies the
retention or more before it: those records were there, so they are that old. While a log directory
with a replica is under pressure, it is that of the pressure retention, where that lies further up.

A *log* is a partition of a topic while it had one id. Its number holds the topic's in its upper
bits, see `TOPIC_BITS`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from retentiond.decide.rule import least_of_all
from retentiond.history.ask.judge import judged_by_commits, judged_by_record
from retentiond.history.ask.past import EntrySelection, Past
from retentiond.history.ask.question import POLICY_COLUMNS, TopicQuestion
from retentiond.history.ask.readers import MomentRange, RecordedReaders, counted
from retentiond.history.ask.rows import recorded_rows, table_of
from retentiond.history.schema import RowKind
from retentiond.model import Outcome

PARTITION_BITS = 31
TOPIC_BITS = 43
"""Bits of a log's number: the partition below, then which of the topic's ids, then the topic."""

RETENTIONS_PER_PASS = 12
"""How many retentions are looked up in one pass over the rows."""

REPLAYED_COLUMNS = (
    "log_start_offset",
    "high_watermark",
    "last_stable_offset",
    "size_bytes",
    "log_dirs",
    "reason",
    "groups",
    "min_committed_offset",
    "forced_retention_ms",
)

HAS_SHRUNK = "size_bytes IS NOT NULL AND (size_before IS NULL OR size_bytes < size_before)"
"""When Kafka has freed bytes, as far as sizes tell: it does so a segment at a time, and not while
the segment is being written. Until then what lies below the log start is on disk."""

LOG_BYTES_PER_OFFSET = """
    IF(high_watermark > bytes_from AND size_bytes > 0,
       ln(size_bytes / (high_watermark - bytes_from)), NULL)
"""
"""One moment's figure. Few odd moments don't move the mean of these logarithms: where segments
end is not known, so a log that has just shrunk to few offsets may still have many more on disk."""


PRESSURE_IS_ON = "coalesce(arrays_overlap(from_json(log_dirs, 'ARRAY<STRING>'), pressed), true)"
"""Whether one of a partition's log directories is among those under pressure. It counts as one
where the record doesn't tell which it has."""


class LogDirTimes(NamedTuple):
    """When a log directory would have been under pressure, in order."""

    broker: int
    log_dir: str
    times: tuple[MomentRange, ...]

    @property
    def name(self) -> str:
        """As a partition's row writes it."""
        return f"{self.broker}:{self.log_dir}"


class Replay:
    """The rows of some topics. A topic's number is its place among the ``questions``. ``pressed``:
    when log directories are under pressure."""

    def __init__(
        self,
        past: Past,
        session: SparkSession,
        questions: Sequence[TopicQuestion],
        pressed: Sequence[LogDirTimes] = (),
    ) -> None:
        self.past = past
        self.session = session
        self.questions = questions
        self.pressed = [each for each in pressed if each.times]
        self.numbers = {each.topic: number for number, each in enumerate(questions)}
        self.logs = _logs(past.topic_ids, self.numbers)

    def under_pressure(self, pressed: Sequence[LogDirTimes]) -> Replay:
        """The same with those directories under pressure."""
        return Replay(self.past, self.session, self.questions, pressed)

    def rows(
        self,
        kind: RowKind,
        columns: Sequence[str],
        selections: Sequence[EntrySelection] | None = None,
    ) -> DataFrame:
        """As `recorded_rows`."""
        return recorded_rows(self.past, self.session, kind, columns, selections)

    def starts(self, only: Sequence[TopicQuestion] | None = None) -> DataFrame:
        """Grain: log, order; the moments of the period.

        Columns: topic (its number), log, order, weight: long; size_bytes?, log_start_offset?,
        high_watermark?: long, log_dirs?: string, as recorded; kafka_start?: long, where Kafka
        itself has moved the log start to; start?: long, where it would have been; cutoff?: long, up
        to where this moment would have deleted; usual_cutoff?: long, the same without pressure;
        bound?, lowest?: as in `judged_by_record`; place: long, how many
        moments of the log have told where readers stood, this one included; bytes_from?: long, the
        first offset whose bytes are on disk, see `HAS_SHRUNK`; bytes_per_offset?: double.
        """
        asked = self.questions if only is None else only
        together = sorted({found for each in asked if (found := self._retentions(each))})
        step = RETENTIONS_PER_PASS // (2 if self.pressed else 1)
        parts = [together[at : at + step] for at in range(0, len(together), step)] or [[]]
        return reduce(
            DataFrame.unionAll,
            [
                self._starts(
                    [
                        each
                        for each in asked
                        if (found := self._retentions(each)) in part
                        or (part is parts[0] and not found)
                    ],
                    sorted({*chain.from_iterable(part)}),
                )
                for part in parts
            ],
        )

    def _retentions(self, asked: TopicQuestion) -> tuple[int, ...]:
        """Those that are in force on the topic at one moment or another."""
        every = (asked.retention_ms, asked.pressure_ms if self.pressed else None)
        return tuple(each for each in every if each is not None)

    def _starts(self, asked: Sequence[TopicQuestion], retentions: Sequence[int]) -> DataFrame:
        others = [each for each in asked if each.is_known and each.has_other_groups]
        as_then = [each for each in asked if each not in others]
        judged = []
        if as_then or not others:
            judged.append(judged_by_record(self.recorded(as_then, retentions)))
        if others:
            recorded = self.recorded(others, retentions)
            judged.append(judged_by_commits(counted(recorded, self._readers(others))))
        return with_start(
            reduce(DataFrame.unionAll, judged).unionByName(
                self._deletions(asked), allowMissingColumns=True
            ),
            [self._distance(each) for each in retentions],
        )

    def _readers(self, asked: Sequence[TopicQuestion]) -> RecordedReaders:
        return RecordedReaders(self.past, {self.numbers[each.topic]: each for each in asked})

    def _distance(self, retention_ms: int) -> int:
        """How far apart two orders are that lie the retention apart; see `Timeline.order`."""
        timeline = self.past.timeline
        longest = timeline.moments[-1].elapsed_ms + 1
        age_ms = retention_ms and retention_ms + timeline.longest_read_ms  # 0 looks at no age
        return min(age_ms, longest) * timeline.scale

    def recorded(self, asked: Sequence[TopicQuestion], retentions: Sequence[int]) -> DataFrame:
        """Grain: log, order. Columns: those; topic: long, its number; partition: int; moment: int,
        its number; weight?: long, null outside the period; complete: boolean; `REPLAYED_COLUMNS`,
        those of rows outside the period null but for the high watermark and the reason; of each
        topic: retention?: int, its place among the ``retentions``; and `POLICY_COLUMNS`; and
        pressure_retention?: int, likewise, null where the partition is not under pressure."""
        rows = self.rows(RowKind.PARTITION, ["topic", "topic_id", "partition", *REPLAYED_COLUMNS])
        if len(asked) < len(self.questions):
            rows = rows.where(F.col("topic").isin([each.topic for each in asked]))
        of_logs = self.logs.join(_of_topics(asked, retentions), "topic", join_type="inner")
        logs = F.broadcast(self.session.createDataFrame(of_logs))
        within = rows.withColumn("topic_id", F.expr("coalesce(topic_id, '')")).join(
            F.broadcast(self.moments()), "entry", "inner"
        )
        under_pressure = f"pressed IS NOT NULL AND {PRESSURE_IS_ON}" if self.pressed else "false"
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
            "retention",
            *POLICY_COLUMNS,
            f"IF({under_pressure}, pressure_retention, NULL) AS pressure_retention",
        )

    def _deletions(self, asked: Sequence[TopicQuestion]) -> DataFrame:
        """What retentiond itself has deleted. Grain: log, order, cutoff, not unique. Columns: log,
        order, deleted: long."""
        rows = self.rows(RowKind.DELETION, ["topic", "partition", "cutoff", "outcome"]).where(
            (F.col("outcome") == Outcome.DELETED.value)
            & F.col("topic").isin([each.topic for each in asked])
        )
        logs = F.broadcast(self.session.createDataFrame(self.logs))
        moments = F.broadcast(self.moments().where("weight IS NOT NULL"))
        return (
            rows.join(logs, "topic", "inner")
            .where("entry >= first_entry AND entry < next_entry")
            .join(moments, "entry", "inner")
            .selectExpr("base + partition AS log", "order", "cutoff AS deleted")
        )

    def moments(self) -> DataFrame:
        """Grain: entry. Columns: entry, order: long; moment: int, its number; weight?: long, null
        outside the period; complete: boolean; pressed?: list of string, the log directories that
        are under pressure, null where none is."""
        timeline = self.past.timeline
        moments = timeline.moments
        return self.session.createDataFrame(
            pa.table(
                {
                    "entry": pa.array([each.entry.entry for each in moments], pa.int64()),
                    "order": pa.array(map(timeline.order, moments), pa.int64()),
                    "moment": pa.array([each.number for each in moments], pa.int32()),
                    "weight": pa.array([each.weight_ms for each in moments], pa.int64()),
                    "complete": pa.array([each.entry.complete for each in moments], pa.bool_()),
                    "pressed": pa.array(self._pressed_at(), pa.list_(pa.string())),
                }
            )
        )

    def _pressed_at(self) -> list[list[str] | None]:
        """By the moment's number."""
        found: list[list[str] | None] = [None for _ in self.past.timeline.moments]
        for log_dir in self.pressed:
            for first, last in log_dir.times:
                for number in range(first, last + 1):
                    found[number] = [*(found[number] or ()), log_dir.name]
        return found


def _of_topics(asked: Sequence[TopicQuestion], retentions: Sequence[int]) -> pa.Table:
    """Grain: topic. Columns: see `Replay.recorded`."""
    places: dict[int | None, int] = {retention: at for at, retention in enumerate(retentions)}
    return pa.table(
        {
            "topic": pa.array([each.topic for each in asked], pa.string()),
            "retention": pa.array([places.get(each.retention_ms) for each in asked], pa.int32()),
            "pressure_retention": pa.array(
                [places.get(each.pressure_ms) for each in asked], pa.int32()
            ),
            **{name: pa.array(map(of, asked), kind) for name, (kind, of) in POLICY_COLUMNS.items()},
        }
    )


def _logs(ids: pa.Table, numbers: Mapping[str, int]) -> pa.Table:
    """``numbers``: of the topics that are asked about. Grain: topic, topic_id. Columns: those;
    base: long, the number of the log of partition 0; first_entry, next_entry: long, within which
    the topic had that id."""
    by_topic: dict[str, list[tuple[int, str]]] = {}
    for row in ids.to_pylist():
        if row["topic"] in numbers:
            by_topic.setdefault(row["topic"], []).append(
                (row["first_entry"], row["topic_id"] or "")
            )
    rows = []
    for topic, found in by_topic.items():
        found.sort()
        known = [first for first, topic_id in found if topic_id] or [found[0][0]]
        for place, (first, topic_id) in enumerate(found):
            base = (numbers[topic] << TOPIC_BITS) + (place << PARTITION_BITS)
            if topic_id or len(found) == 1:
                begin = 0 if first == known[0] else first
                end = next((later for later in known if later > first), 2**63 - 1)
            else:
                begin = end = 0  # its id could not be read meanwhile: no deletion is of that log
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
    """See `Replay.starts`. ``judged`` is of `judged_by_record`, with deletions among its rows;
    ``distances``: of each retention, between two orders."""
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
    # By topic, so that the rows of a topic and a moment need not travel again to be summed up.
    by_topic = judged.withColumn("topic", F.expr(f"shiftright(log, {TOPIC_BITS})")).repartition(
        "topic"
    )
    known = by_topic.withColumns(
        {
            **aged,
            "ours": F.max("deleted").over(so_far.rangeBetween(Window.unboundedPreceding, 0)),
            "size_before": F.last("size_bytes", ignorenulls=True).over(before),
        }
    )
    which = " ".join(f"WHEN {at} THEN aged_{at}" for at in range(len(distances)))
    usual, under_pressure = (
        f"CASE {each} {which} END" if which else "CAST(NULL AS BIGINT)"
        for each in ("retention", "pressure_retention")
    )
    cut = known.selectExpr(
        "*",
        f"{usual} AS usual_offset",
        f"greatest({usual}, {under_pressure}) AS retention_offset",  # it ignores a null
    ).selectExpr(
        "*",
        f"{least_of_all('bound', 'retention_offset')} AS cutoff",
        f"{least_of_all('bound', 'usual_offset')} AS usual_cutoff",
        "IF(log_start_offset > coalesce(ours, -1L), log_start_offset, NULL) AS not_ours",
        f"IF({HAS_SHRUNK}, log_start_offset, NULL) AS freed_to",
    )
    moved = cut.withColumns(
        {
            "first_start": F.first("log_start_offset", ignorenulls=True).over(until_now),
            "moved_by_kafka": F.max("not_ours").over(until_now),
            "deleted_before": F.max("cutoff").over(before),
            "bytes_from": F.last("freed_to", ignorenulls=True).over(until_now),
            "place": F.count("lowest").over(until_now),
        }
    ).withColumn("log_bytes", F.avg(F.expr(LOG_BYTES_PER_OFFSET)).over(of_log))
    return moved.where("weight IS NOT NULL").selectExpr(
        "topic",
        "log",
        "order",
        "weight",
        "size_bytes",
        "log_dirs",
        "log_start_offset",
        "high_watermark",
        "greatest(first_start, moved_by_kafka) AS kafka_start",
        "greatest(first_start, moved_by_kafka, deleted_before) AS start",
        "cutoff",
        "usual_cutoff",
        "bound",
        "lowest",
        "place",
        "bytes_from",
        "exp(log_bytes) AS bytes_per_offset",
    )
