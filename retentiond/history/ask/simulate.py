"""Simulates a policy on the past: what it would have deleted, and which records readers would have
missed.

Bytes are on the disks of all replicas. A partition's bytes are taken to be spread evenly over the
offsets on disk. A topic's bytes are known at a moment if those of all its partitions are. A mean is
over the time for which these moments stand.

It also says which entries of a policy the past can't judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.config.policy import PolicyEntry
from retentiond.history.ask.missed import MAY_HAVE_MISSED, Missed, doubts_of, missed
from retentiond.history.ask.past import GAP_INTERVALS, Moment, Past, Timeline
from retentiond.history.ask.question import TriedPolicy
from retentiond.history.ask.replay import Replay
from retentiond.history.schema import RowKind
from retentiond.history.table import quoted
from retentiond.model import Reason

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

FIGURES = ("mean_bytes", "peak_bytes", "simulated_mean_bytes", "simulated_peak_bytes")


@dataclass(frozen=True, slots=True)
class SimulatedTopic:
    """The simulation of a topic. Bytes are None if they were never known. ``retention_ms``: the
    tried retention; None if the policy deletes nothing from the topic. ``observed_ms``: see the
    function of that name. ``recorded_ms``: for how much of the first R of it, R being the tried
    retention, the record has the retention offsets of that very retention. ``whole_life``: see
    `seen_from_birth`."""

    topic: str
    retention_ms: int | None
    mean_bytes: int | None
    peak_bytes: int | None
    simulated_mean_bytes: int | None
    simulated_peak_bytes: int | None
    simulated_records_deleted: int
    missed: tuple[Missed, ...]
    observed_ms: int = 0
    recorded_ms: int = 0
    whole_life: bool = False

    @property
    def judged_ms(self) -> int:
        """Of how much time the past can tell. Of a topic that was seen from its birth on it tells
        all."""
        unknown_ms = 0 if self.whole_life else self.retention_ms or 0
        return judged_ms(self.observed_ms, unknown_ms, self.recorded_ms)


def judged_ms(observed_ms: int, retention_ms: int, recorded_ms: int) -> int:
    """Of how much of the time the past can tell. ``recorded_ms``: see `SimulatedTopic`.

    The first records that can be old enough are those of its beginning, so the first R of a past
    says nothing about a retention of R, but where the daemon itself asked for that retention.
    """
    return min(observed_ms, max(0, observed_ms - retention_ms) + recorded_ms)


NOTHING = SimulatedTopic("total", None, None, None, None, None, 0, ())
"""The total of no topic."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """The simulation of all topics. ``total``: all topics together; its peaks are those of the sum,
    at moments when all topics are known."""

    past: Past
    topics: tuple[SimulatedTopic, ...]
    total: SimulatedTopic


def simulate(replay: Replay, least_ms: int = 0) -> Simulation:
    """``least_ms``: a topic younger than this is judged for its whole life. Raises Spark's
    errors."""
    if not replay.questions:
        return Simulation(replay.past, (), NOTHING)
    by_doubt = doubts_apart(replay.starts()).persist()
    try:
        of_topics = over_time(of_each_topic(by_doubt), ["topic"]).toArrow().to_pylist()
        of_all = over_time(of_all_topics(by_doubt), []).toArrow().to_pylist()
        losses = missed(replay, doubts_of(of_topics), by_doubt.where("log IS NOT NULL"))
    finally:
        by_doubt.unpersist()
    stretches = seen_stretches(replay.past)
    observed = observed_ms(stretches)
    young = seen_from_birth(replay, observed, least_ms)
    topics = [
        replace(
            _topic(question.topic, question.retention_ms, row, losses.get(question.topic, ())),
            observed_ms=observed.get(question.topic, 0),
            recorded_ms=recorded_ms(stretches.get(question.topic, ()), question.retention_ms),
            whole_life=question.topic in young,
        )
        for row in sorted(of_topics, key=lambda row: row["topic"])
        for question in (replay.questions[row["topic"]],)
    ]
    all_losses = [loss for topic in topics for loss in topic.missed]
    total = _topic("total", None, of_all[0], all_losses)
    return Simulation(replay.past, tuple(topics), total)


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
        "records": "sum(records)",
        "since": "min(IF(doubtful, order, NULL))",
        "until": "max(IF(doubtful, order, NULL))",
    }
    return by_moment.groupBy(*grain).agg(
        *(F.expr(f"{value} AS {name}") for name, value in figures.items())
    )


def _topic(
    name: str, retention_ms: int | None, row: dict[str, Any], losses: Sequence[Missed]
) -> SimulatedTopic:
    mean, peak, simulated_mean, simulated_peak = (
        None if row[figure] is None else round(row[figure]) for figure in FIGURES
    )
    return SimulatedTopic(
        name,
        retention_ms,
        mean,
        peak,
        simulated_mean,
        simulated_peak,
        row["records"] or 0,
        tuple(losses),
    )


class Stretch(NamedTuple):
    """Entries in a row that have a topic. ``retention_ms``: the consumed retention whose retention
    offset all of its rows have; None if there is none. ``observed_ms``: from the first entry to the
    last one, ``until_next_ms``: from there to the topic's next entry, without gaps."""

    retention_ms: int | None
    observed_ms: int
    until_next_ms: int


def seen_stretches(past: Past) -> Mapping[str, Sequence[Stretch]]:
    """By topic, when it was observed within the period: between two entries in a row that both have
    it, if both are complete and no gap lies between them."""
    timeline = past.timeline
    moments = timeline.moments[timeline.period[0].number : timeline.period[-1].number + 1]
    steps = (_observed_step(timeline, *pair) for pair in pairwise(moments))
    until_entry = dict(
        zip((moment.entry.entry for moment in moments), accumulate(steps, initial=0), strict=True)
    )
    entries = sorted(until_entry)
    # Entries in a row have the same difference of their number and their rank.
    runs = past.query(
        f"""
        SELECT topic, retention_ms, min(entry) AS first_entry, max(entry) AS last_entry FROM (
            SELECT topic, entry, retention_ms, entry - row_number() OVER
                       (PARTITION BY topic, retention_ms ORDER BY entry) AS run
            FROM (SELECT topic, entry,
                         CASE WHEN min(consumed_retention_ms) = max(consumed_retention_ms)
                              AND count(*) = count(retention_offset)
                              THEN max(consumed_retention_ms) END AS retention_ms
                  FROM history
                  WHERE kind = {quoted(RowKind.PARTITION.value)} AND {{within}}
                  AND entry BETWEEN {entries[0]} AND {entries[-1]} GROUP BY topic, entry)
        ) GROUP BY topic, retention_ms, run ORDER BY topic, first_entry
        """
    ).to_pylist()
    stretches: dict[str, list[Stretch]] = {}
    for run, following in pairwise([*runs, {"topic": None}]):
        first, last = until_entry[run["first_entry"]], until_entry[run["last_entry"]]
        is_next = following["topic"] == run["topic"] and (
            following["first_entry"] == run["last_entry"] + 1
        )
        until_next = until_entry[following["first_entry"]] - last if is_next else 0
        stretches.setdefault(run["topic"], []).append(
            Stretch(run["retention_ms"], last - first, until_next)
        )
    return stretches


def observed_ms(stretches: Mapping[str, Sequence[Stretch]]) -> Mapping[str, int]:
    """By topic, for how long it was observed. What was not observed counts as kept, so "nobody
    would have missed anything" is worth as much as was observed."""
    return {
        topic: sum(part.observed_ms + part.until_next_ms for part in of_topic)
        for topic, of_topic in stretches.items()
    }


def recorded_ms(stretches: Iterable[Stretch], retention_ms: int | None) -> int:
    """`SimulatedTopic.recorded_ms` of a topic."""
    observed = recorded = 0
    for stretch in stretches:
        if retention_ms is not None and stretch.retention_ms == retention_ms:
            recorded += min(stretch.observed_ms, max(0, retention_ms - observed))
        observed += stretch.observed_ms + stretch.until_next_ms
    return recorded


def _observed_step(timeline: Timeline, sooner: Moment, later: Moment) -> int:
    step_ms = later.elapsed_ms - sooner.elapsed_ms
    is_gap = (
        step_ms > GAP_INTERVALS * timeline.usual_ms or later.entry.entry != sooner.entry.entry + 1
    )
    return 0 if is_gap or not (sooner.entry.complete and later.entry.complete) else step_ms


def seen_from_birth(replay: Replay, observed: Mapping[str, int], least_ms: int) -> frozenset[str]:
    """The topics that are younger than ``least_ms``, and were observed for their whole life.

    The past begins without such a topic. When it was first seen, all of its records were there, and
    none was older than the consumed retention of then. It has been observed since, except for a
    tenth of that time at most. A topic that was only enabled later has older records, or may have.
    """
    if not least_ms:
        return frozenset()
    timeline = replay.past.timeline
    elapsed_ms = {moment.entry.entry: moment.elapsed_ms for moment in timeline.moments}
    reasons = quoted(Reason.EMPTY.value), quoted(Reason.TOO_YOUNG.value)
    rows = replay.past.query(
        f"""
        SELECT topic, entry,
               max(CASE WHEN high_watermark = 0 THEN 0 ELSE consumed_retention_ms END) AS oldest_ms
        FROM (SELECT *, min(entry) OVER (PARTITION BY topic) AS first_entry FROM history
              WHERE kind = {quoted(RowKind.PARTITION.value)} AND {{within}})
        WHERE entry = first_entry AND entry > {timeline.moments[0].entry.entry}
        GROUP BY topic, entry
        HAVING bool_and(coalesce(log_start_offset = 0 AND (high_watermark = 0
                                 OR reason IN ({", ".join(reasons)})), false))
        """
    )
    found = set()
    for row in rows.to_pylist():
        topic, number = row["topic"], replay.numbers.get(row["topic"])
        if number is None or row["entry"] not in elapsed_ms:
            continue
        question = replay.questions[number]
        oldest_ms = row["oldest_ms"]
        if oldest_ms is None:  # not recorded
            oldest_ms = question.in_force.consumed_retention_ms if question.in_force else least_ms
        seen_ms = timeline.moments[-1].elapsed_ms - elapsed_ms[row["entry"]]
        is_whole = 0 < seen_ms <= observed.get(topic, 0) + seen_ms // 10
        is_young = oldest_ms + seen_ms < least_ms and (question.retention_ms or 0) < least_ms
        if is_whole and is_young:
            found.add(topic)
    return frozenset(found)


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
