"""Simulates a policy on the past: what it would have deleted, and which records readers would have
missed.

Bytes are on the disks of all replicas. A partition's bytes are taken to be spread evenly over the
offsets on disk. A topic's bytes are known at a moment if those of all its partitions are. A mean is
over the time for which these moments stand.

It also says which entries of a policy the past can't judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.config.policy import PolicyEntry
from retentiond.fields import (
    API,
    BYTES,
    FLAG,
    MILLISECONDS,
    RECORDS,
    TEXT,
    TOTAL,
    FiguresOf,
    described,
    figure,
    row_of,
    rows_of,
    said,
)
from retentiond.history.ask.missed import MAY_HAVE_MISSED, Missed, doubts_of, missed
from retentiond.history.ask.observed import (
    judged_ms,
    observed_ms,
    recorded_ms,
    seen_from_birth,
    seen_stretches,
)
from retentiond.history.ask.past import Past
from retentiond.history.ask.question import TriedPolicy
from retentiond.history.ask.replay import Replay

SIMULATED_BYTES = """
    CASE WHEN high_watermark > log_start_offset AND start >= log_start_offset
         THEN size_bytes * (CAST(greatest(high_watermark - start, 0L) AS DOUBLE)
                            / (high_watermark - log_start_offset))
         WHEN high_watermark IS NOT NULL AND log_start_offset IS NOT NULL AND start IS NOT NULL
         THEN size_bytes + coalesce(bytes_per_offset * greatest(bytes_from - start, 0L), 0D)
         END
"""
"""A partition's simulated bytes. If the log is empty, the rest of its segments stays. Records that
the simulation keeps longer take more space only if their bytes have been freed."""

MEASURED_COLUMNS = (
    "topic",
    "order",
    "weight",
    "CAST(size_bytes AS DOUBLE) AS bytes",
    f"{SIMULATED_BYTES} AS simulated_bytes",
    "greatest(cutoff - start, 0L) AS records",
    f"coalesce({MAY_HAVE_MISSED}, false) AS doubtful",
)

MISSED_COLUMNS = ("log", "place", "start", "kafka_start")
"""What `missed` needs of the doubtful moments, so that the past is replayed once."""

FIGURES = (
    *("mean_bytes", "peak_bytes", "simulated_mean_bytes", "simulated_peak_bytes"),
    "simulated_records_deleted",
)


@described
class SimulatedTopic:
    """The simulation of a topic, or of all together. Bytes are None if they were never known.
    ``recorded_ms``: for how much of the first R of the observed time, R being the tried retention,
    the record has the retention offsets of that very retention."""

    topic: str = said(TEXT, "the topic", (API,), column="TOPIC")
    retention_ms: int | None = said(
        MILLISECONDS, "what is tried; null: none", (API,), column="RETENTION"
    )
    observed_ms: int = said(MILLISECONDS, "for how long it was observed without gaps", (API,))
    recorded_ms: int

    @figure(MILLISECONDS, "of how much of that the past can tell", (API,))
    def judged_ms(self) -> int:
        """Of a topic that was seen from its birth on it tells all."""
        unknown_ms = 0 if self.whole_life else self.retention_ms or 0
        return judged_ms(self.observed_ms, unknown_ms, self.recorded_ms)

    whole_life: bool = said(FLAG, "whether it is young, and was seen for its whole life", (API,))
    mean_bytes: int | None = said(BYTES, "its mean", column="MEAN")
    peak_bytes: int | None = said(BYTES, "its peak", column="PEAK", spare=True)
    simulated_mean_bytes: int | None = said(BYTES, "its simulated mean", column="SIMULATED MEAN")
    simulated_peak_bytes: int | None = said(
        BYTES, "its simulated peak", column="SIMULATED PEAK", spare=True
    )
    simulated_records_deleted: int = said(
        RECORDS, "how many would have gone", column="RECORDS DELETED", spare=True
    )
    missed: tuple[Missed, ...] = said(rows_of(Missed), "what readers would have missed", (API,))
    missed_records = FiguresOf("missed").sum(
        RECORDS, "how many that are", (), of="records", column="MISSED", is_dash=True
    )


NOTHING = SimulatedTopic("total", None, 0, 0, False, None, None, None, None, 0, ())
"""The total of no topic."""


@described
class Simulation:
    """The simulation of all topics. ``recorded``: the topics of which the time has entries."""

    past: Past
    topics: tuple[SimulatedTopic, ...] = said(rows_of(SimulatedTopic), "by name")
    total: SimulatedTopic = said(
        row_of(SimulatedTopic, TOTAL), "of all topics together, at moments when all are known"
    )
    recorded: frozenset[str]


def simulate(replay: Replay, least_ms: int = 0) -> Simulation:
    """``least_ms``: a topic younger than this is judged for its whole life. Raises Spark's
    errors."""
    stretches = seen_stretches(replay.past)
    if not replay.questions:
        return Simulation(replay.past, (), NOTHING, frozenset(stretches))
    by_doubt = doubts_apart(replay.starts()).persist()
    try:
        of_topics = over_time(of_each_topic(by_doubt), ["topic"]).toArrow().to_pylist()
        of_all = over_time(of_all_topics(by_doubt), []).toArrow().to_pylist()
        losses = missed(replay, doubts_of(of_topics), by_doubt.where("log IS NOT NULL"))
    finally:
        by_doubt.unpersist()
    observed = observed_ms(stretches)
    young = seen_from_birth(replay, observed, least_ms)
    topics = tuple(
        SimulatedTopic(
            question.topic,
            question.retention_ms,
            observed.get(question.topic, 0),
            recorded_ms(stretches.get(question.topic, ()), question.retention_ms),
            question.topic in young,
            **rounded(row),
            missed=tuple(losses.get(question.topic, ())),
        )
        for row in sorted(of_topics, key=lambda row: row["topic"])
        for question in (replay.questions[row["topic"]],)
    )
    all_losses = tuple(loss for topic in topics for loss in topic.missed)
    total = replace(NOTHING, **rounded(of_all[0]), missed=all_losses)
    return Simulation(replay.past, topics, total, frozenset(stretches))


def doubts_apart(starts: DataFrame) -> DataFrame:
    """As `of_each_topic`, but with a row for each log where a reader may have missed something, and
    one row for all other logs of the topic together. ``starts`` is the result of `Replay.starts`.

    Grain: topic, order, log. Columns: those of `of_each_topic`; log?, place?, start?, kafka_start?:
    long, as in `Replay.starts`, null in the row for the other logs.
    """
    apart = (f"IF({MAY_HAVE_MISSED}, {name}, NULL) AS {name}" for name in MISSED_COLUMNS)
    return _summed(
        starts.selectExpr(*MEASURED_COLUMNS, *apart), ["topic", "order", "weight", *MISSED_COLUMNS]
    )


def of_each_topic(parts: DataFrame) -> DataFrame:
    """Sums up the ``parts`` of topics. Grain: topic (its number), order.

    Columns: the grain, weight: long; bytes?, simulated_bytes?: double, null if a partition's are
    null; records: long, deleted by the simulation; doubtful: boolean, whether a reader may have
    missed something.
    """
    return _summed(parts, ["topic", "order", "weight"])


def of_all_topics(parts: DataFrame) -> DataFrame:
    """Grain: order."""
    return _summed(parts, ["order", "weight"])


def _summed(parts: DataFrame, grain: Sequence[str]) -> DataFrame:
    sums = {
        "known": "count(simulated_bytes)",
        "parts": "count(*)",
        "bytes": "sum(bytes)",
        "simulated_bytes": "sum(simulated_bytes)",
        "records": "sum(records)",
        "doubtful": "bool_or(doubtful)",
    }
    return (
        parts.groupBy(*grain)
        .agg(*(F.expr(f"{value} AS {name}") for name, value in sums.items()))
        .selectExpr(
            *grain,
            "IF(known = parts, bytes, NULL) AS bytes",
            "IF(known = parts, simulated_bytes, NULL) AS simulated_bytes",
            "records",
            "doubtful",
        )
    )


def over_time(by_moment: DataFrame, grain: Sequence[str]) -> DataFrame:
    """Means and peaks, the time for which they are known, and the orders between which a reader may
    have missed something. ``by_moment`` has the columns of `of_each_topic`."""
    time = "nullif(sum(IF(bytes IS NULL, 0L, weight)), 0L)"
    figures = {
        "mean_bytes": f"sum(weight * bytes) / {time}",
        "peak_bytes": "max(bytes)",
        "simulated_mean_bytes": f"sum(weight * simulated_bytes) / {time}",
        "simulated_peak_bytes": "max(simulated_bytes)",
        "known_ms": "sum(IF(bytes IS NULL, 0L, weight))",
        "simulated_records_deleted": "coalesce(sum(records), 0L)",
        "since": "min(IF(doubtful, order, NULL))",
        "until": "max(IF(doubtful, order, NULL))",
    }
    return by_moment.groupBy(*grain).agg(
        *(F.expr(f"{value} AS {name}") for name, value in figures.items())
    )


def rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """The `FIGURES` of a row of `over_time`."""
    return {name: None if row[name] is None else round(row[name]) for name in FIGURES}


def not_judged(
    tried: TriedPolicy, recorded: Iterable[str], asked: Sequence[str] = ()
) -> tuple[PolicyEntry, ...]:
    """The entries that enable a topic of which the past has nothing. A pattern is one of them if no
    ``recorded`` topic follows it, or would but for a trial of its own. ``asked``: the patterns of
    topics that the question is about, all where there is none; a pattern of the policy is asked
    about if it matches one of these texts."""
    judged: set[str] = set()
    on_trial = []
    for topic in recorded:
        policy = tried.config.policy_for(topic)
        if isinstance(policy, TopicPolicy | PolicyConflict):
            judged.update(policy.sources)
            if policy.dry_run:
                on_trial.append(topic)
    patterns = [Pattern(text) for text in asked]

    def is_asked(entry: PolicyEntry) -> bool:
        name, is_pattern = entry.about
        if is_pattern:
            return not asked or name in asked or any(map(entry.matches, asked))
        return not asked or any(pattern.fullmatch(name) for pattern in patterns)

    return tuple(
        entry
        for entry in tried.config.entries
        if entry.policy.enabled
        and entry.source not in judged
        and not any(map(entry.matches, on_trial))
        and is_asked(entry)
    )
