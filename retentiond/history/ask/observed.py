"""For how long topics were observed, and of how much of that time the past can tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from retentiond.history.ask.past import GAP_INTERVALS, Moment, Past, Timeline
from retentiond.history.schema import RowKind
from retentiond.history.table import quoted
from retentiond.model import Reason

if TYPE_CHECKING:
    from retentiond.history.ask.replay import Replay


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


def judged_ms(observed_ms: int, retention_ms: int, recorded_ms: int) -> int:
    """Of how much of the time the past can tell. ``recorded_ms``: see `SimulatedTopic`.

    The first records that can be old enough are those of its beginning, so the first R of a past
    says nothing about a retention of R, but where the daemon itself asked for that retention.
    """
    return min(observed_ms, max(0, observed_ms - retention_ms) + recorded_ms)
