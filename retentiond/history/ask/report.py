"""Reports what retentiond has deleted and saved over a time, and which groups keep records.

The saved bytes are the difference to the past replayed under a policy that deletes nothing, where
only Kafka itself moves the log start.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from retentiond.decide.kept_records import KeptRecords, kept_of
from retentiond.fields import total
from retentiond.formatting import DAY_MS
from retentiond.history.ask.past import EntrySelection, Past, Timeline
from retentiond.history.ask.question import TopicQuestion
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.report_figures import (
    POINTS,
    KeepingGroup,
    Line,
    Report,
    StoppedGroup,
    TopicSaving,
    log_dirs_of,
)
from retentiond.history.ask.simulate import (
    MEASURED_COLUMNS,
    of_all_topics,
    of_each_topic,
    over_time,
    rounded,
)
from retentiond.history.schema import RowKind
from retentiond.model import VERDICT_OF, Outcome, PlanRow, Reason, Verdict

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]


def without_retentiond(question: TopicQuestion) -> TopicQuestion:
    """The question with a policy that deletes nothing."""
    return replace(question, policy=None)


def report(replay: Replay) -> Report:
    """``replay``: the past under `without_retentiond`. Raises Spark's errors."""
    past, names = replay.past, list(replay.numbers)
    by_topic_and_moment = of_each_topic(replay.starts().selectExpr(*MEASURED_COLUMNS)).persist()
    try:
        means = over_time(by_topic_and_moment, ["topic"]).toArrow().to_pylist()
        (of_all,) = over_time(of_all_topics(by_topic_and_moment), []).toArrow().to_pylist()
        stretches = _stretches(by_topic_and_moment, past).toArrow().to_pylist()
    finally:
        by_topic_and_moment.unpersist()
    deleted, newest = (rows.toArrow().to_pylist() for rows in (_deletions(replay), _newest(replay)))
    moved = _last_moves(replay)
    at_ms = [moment.entry.at_ms for moment in past.timeline.moments]
    begins: dict[int, int] = {}  # of all topics together, of which some may come later in it
    for row in stretches:
        begin = past.timeline.number(row["begin"])
        begins[row["stretch"]] = min(begin, begins.get(row["stretch"], begin))

    def lines_of(figure: str) -> dict[str, Line]:
        lines: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for row in stretches:
            if row[figure] is not None:
                lines[names[row["topic"]]][at_ms[begins[row["stretch"]]]] = row[figure]
        return {**lines}

    log_dirs = [*log_dirs_of(replay)]
    return Report(
        past,
        tuple(_savings(names, means, deleted, newest, past.timeline)),
        _saving("total", None, of_all, deleted, past.timeline),
        keeping_groups(newest, moved),
        _unread(newest),
        _stopped(newest, moved, past.timeline),
        tuple(log_dir for log_dir, _ in log_dirs),
        lines_of("bytes"),
        lines_of("without"),
        deleted_by_day(deleted, past.timeline.period[0].entry.at_ms, at_ms[-1]),
        {f"{log_dir.broker} {log_dir.log_dir}": used for log_dir, used in log_dirs},
    )


def _savings(
    names: Sequence[str], means: Iterable[Row], deleted: Rows, newest: Rows, timeline: Timeline
) -> Iterator[TopicSaving]:
    owners = {row["topic"]: row["owner"] for row in newest}
    by_topic: defaultdict[str, list[Row]] = defaultdict(list)
    for row in deleted:
        by_topic[row["topic"]].append(row)
    for row in sorted(means, key=lambda row: int(row["topic"])):
        name = names[row["topic"]]
        yield _saving(name, owners.get(name), row, by_topic[name], timeline)


def _saving(
    name: str, owner: str | None, row: Row, deleted: Rows, timeline: Timeline
) -> TopicSaving:
    figures = rounded(row)
    return TopicSaving(
        name,
        owner,
        figures["mean_bytes"],
        figures["simulated_mean_bytes"],
        sum(day["records"] or 0 for day in deleted),
        sum(day["deletions"] for day in deleted),
        int(row["known_ms"] or 0) if timeline.usual_ms else 0,
    )


def _stretches(by_topic_and_moment: DataFrame, past: Past) -> DataFrame:
    """Means over equal stretches of time. Grain: topic, stretch. Columns: the grain; begin: long,
    an order; bytes?, without?: double."""
    width = max(1, -(-len(past.timeline.moments) // POINTS))
    stretch = f"(order % {past.timeline.scale}) DIV {width} AS stretch"
    return (
        by_topic_and_moment.selectExpr("*", stretch)
        .groupBy("topic", "stretch")
        .agg(
            F.expr("min(order) AS begin"),
            F.expr("avg(bytes) AS bytes"),
            F.expr("avg(simulated_bytes) AS without"),
        )
        .orderBy("topic", "stretch")
    )


def _deletions(replay: Replay) -> DataFrame:
    """The deletions by day. Grain: topic, day_ms. Columns: the grain; records?, deletions: long."""
    return (
        _of_questions(replay, RowKind.DELETION, ["at", "topic", "records", "outcome"])
        .where(
            (F.col("outcome") == Outcome.DELETED.value)
            & (F.col("entry") >= replay.past.timeline.period[0].entry.entry)
        )
        .withColumn("day_ms", F.expr("unix_millis(date_trunc('DAY', at))"))
        .groupBy("topic", "day_ms")
        .agg(F.sum("records").alias("records"), F.count("*").alias("deletions"))
    )


def _of_questions(
    replay: Replay,
    kind: RowKind,
    columns: Sequence[str],
    selections: Sequence[EntrySelection] | None = None,
) -> DataFrame:
    """`recorded_rows` of the topics that are asked about."""
    rows = replay.rows(kind, columns, selections)
    return rows.where(F.col("topic").isin([*replay.numbers]))


def deleted_by_day(deleted: Rows, since_ms: int, until_ms: int) -> Line:
    """The records of each day (UTC) of the time, at its noon: a bar there stands on its day, and is
    as wide. ``deleted``: see `_deletions`."""
    first_ms = since_ms // DAY_MS * DAY_MS
    days: Counter[int] = Counter()
    for row in deleted:
        days[row["day_ms"]] += row["records"] or 0
    if not days:
        return {}
    all_days = range(min(first_ms, *days), max(until_ms, *days) + 1, DAY_MS)
    return {day + DAY_MS // 2: days[day] for day in all_days}


RECORDED_FIELDS = (
    "topic",
    "partition",
    "owner",
    "groups",
    "binding_group",
    "log_start_offset",
    "high_watermark",
    "min_committed_offset",
    "retention_offset",
    "cutoff",
)


def _newest(replay: Replay) -> DataFrame:
    """The partitions at the newest entry. Grain: topic, partition. Columns: entry,
    `RECORDED_FIELDS`, reason, last_stable_offset?, size_bytes?."""
    columns = [*RECORDED_FIELDS, "reason", "last_stable_offset", "size_bytes"]
    return _of_questions(replay, RowKind.PARTITION, columns).where(
        F.col("entry") == replay.past.timeline.period[-1].entry.entry
    )


def _last_moves(replay: Replay) -> list[Row]:
    """When commits last moved. Grain: group, topic, partition?. A group that has moved on a topic
    within the last day has only one row there, without a partition. Columns: the grain;
    committed_offset?: long, the newest; moved_ms?: long, when a commit last changed.

    Most groups have moved within the last day, so the other days need not be searched for them.
    """
    past = replay.past
    last = past.timeline.period[-1]
    day_before = next(
        moment for moment in past.timeline.moments if last.elapsed_ms - moment.elapsed_ms <= DAY_MS
    )
    lately = (
        _moves(replay, [past.commits_at(topic, day_before, last) for topic in replay.numbers])
        .groupBy("group", "topic")
        .agg(F.max("moved_ms").alias("moved_ms"))
        .where(F.col("moved_ms") > last.entry.at_ms - DAY_MS)
        .toArrow()
    )
    pairs = replay.session.createDataFrame(lately.select(["group", "topic"]))
    others = _moves(replay, without=pairs).toArrow().to_pylist()
    without_partition = dict.fromkeys(("partition", "committed_offset"))
    return [*(without_partition | row for row in lately.to_pylist()), *others]


def _moves(
    replay: Replay,
    selections: Sequence[EntrySelection] | None = None,
    without: DataFrame | None = None,
) -> DataFrame:
    """When commits last moved in these rows, without the pairs of group and topic in ``without``.
    Grain: group, topic, partition. Columns: see `_last_moves`."""
    columns = ["at", "group", "topic", "partition", "committed_offset"]
    rows = _of_questions(replay, RowKind.COMMIT, columns, selections)
    if without is not None:
        rows = rows.join(F.broadcast(without), ["group", "topic"], "left_anti")
    of_commit = Window.partitionBy("group", "topic", "partition").orderBy("entry")
    whole = [moment.entry.entry for moment in replay.past.timeline.moments if moment.entry.is_whole]
    # A commit's first row shows a new commit only in an entry that is not whole, and only if all
    # rows before are read.
    is_first = F.lit(selections is None) & ~F.col("entry").isin(whole)
    return (
        rows.withColumn("before", F.lag("committed_offset").over(of_commit))
        .withColumn("is_first", is_first & F.col("before").isNull())
        .groupBy("group", "topic", "partition")
        .agg(
            F.expr("max_by(committed_offset, entry) AS committed_offset"),
            F.expr(
                "max(IF(committed_offset <> before OR is_first, unix_millis(at), NULL)) AS moved_ms"
            ),
        )
    )


def keeping_groups(newest: Rows, moved: Rows) -> tuple[KeepingGroup, ...]:
    """``newest``: see `_newest`; ``moved``: see `_last_moves`."""
    since: dict[tuple[str, str], int] = {}
    for row in moved:
        if row["moved_ms"] is not None:
            key = row["group"], row["topic"]
            since[key] = max(row["moved_ms"], since.get(key, 0))
    kept: dict[tuple[str, str], list[KeptRecords]] = {}
    for row in newest:
        if row["reason"] not in [*Reason]:  # one that only a later version gives
            continue
        for part in kept_of(_plan_row(row), row["size_bytes"]):
            if part.binding_group is not None:
                kept.setdefault((part.binding_group, row["topic"]), []).append(part)
    keepers = [
        KeepingGroup(
            group,
            topic,
            total(part.size_bytes for part in parts),
            sum(part.records for part in parts),
            since.get((group, topic)),
        )
        for (group, topic), parts in kept.items()
    ]
    return tuple(sorted(keepers, key=lambda row: (-(row.bytes or 0), -row.records, row.group)))


def _plan_row(row: Row) -> PlanRow:
    """The plan's row, as far as the history has it. ``row``: see `_newest`."""
    reason = Reason(row["reason"])
    bounds = ("min_committed_offset", "retention_offset", "last_stable_offset", "high_watermark")
    known = [row[name] for name in bounds if row[name] is not None]
    is_deletion = VERDICT_OF[reason] is Verdict.DELETE
    return PlanRow(
        **{name: row[name] for name in RECORDED_FIELDS},
        topic_id=None,
        binding_committed_offset=None,
        verdict=VERDICT_OF[reason],
        reason=reason,
        records=0,
        is_limited=is_deletion and row["cutoff"] is not None and row["cutoff"] < min(known),
    )


def _unread(newest: Rows) -> tuple[str, ...]:
    """The topics that no group reads."""
    read = {
        row["topic"] for row in newest if row["groups"] or row["reason"] != Reason.NO_GROUP.value
    }
    return tuple(sorted({row["topic"] for row in newest} - read))


def _stopped(newest: Rows, moved: Rows, timeline: Timeline) -> tuple[StoppedGroup, ...]:
    """The groups that have stopped. A group that has never moved in this time counts as stopped
    since its beginning."""
    begin_ms, until_ms = (timeline.moments[at].entry.at_ms for at in (0, -1))
    ends = {(row["topic"], row["partition"]): row["high_watermark"] for row in newest}
    groups: dict[str, tuple[set[str], int, int | None]] = {}
    for row in moved:
        topics, records, since = groups.get(row["group"], (set(), 0, None))
        end = ends.get((row["topic"], row["partition"]))
        if row["committed_offset"] is not None and end is not None:
            lag = max(0, end - row["committed_offset"])
            topics = topics | ({row["topic"]} if lag else set())
            records += lag
        since = max((ms for ms in (since, row["moved_ms"]) if ms is not None), default=None)
        groups[row["group"]] = (topics, records, since)
    return tuple(
        StoppedGroup(group, tuple(sorted(topics)), records, since)
        for group, (topics, records, since) in sorted(groups.items())
        if records and until_ms - (begin_ms if since is None else since) >= DAY_MS
    )
