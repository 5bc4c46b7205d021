"""For how long each topic was observed, and which entries of a policy the past can't judge.

A topic was observed between two entries in a row that both have it, if both are complete and no gap
lies between them. What was not observed counts as kept, so "nobody would have missed
anything" is worth as much as was observed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.config.policy import PolicyEntry
from retentiond.history.ask.past import GAP_INTERVALS, Moment, Past, Timeline
from retentiond.history.ask.question import TriedPolicy
from retentiond.history.schema import RowKind
from retentiond.history.table import quoted


def observed_ms(past: Past) -> Mapping[str, int]:
    """By topic, for how long it was observed within the period."""
    timeline = past.timeline
    moments = timeline.moments[timeline.period[0].number : timeline.period[-1].number + 1]
    steps = (_observed_step(timeline, *pair) for pair in pairwise(moments))
    until_entry = dict(
        zip((each.entry.entry for each in moments), accumulate(steps, initial=0), strict=True)
    )
    entries = sorted(until_entry)
    # Entries in a row have the same difference of their number and their rank.
    runs = past.query(
        f"""
        SELECT topic, min(entry) AS first_entry, max(entry) AS last_entry FROM (
            SELECT topic, entry,
                   entry - row_number() OVER (PARTITION BY topic ORDER BY entry) AS run
            FROM (SELECT DISTINCT topic, entry FROM history
                  WHERE kind = {quoted(RowKind.PARTITION.value)} AND {{within}}
                  AND entry BETWEEN {entries[0]} AND {entries[-1]})
        ) GROUP BY topic, run
        """
    )
    found: Counter[str] = Counter()
    for run in runs.to_pylist():
        found[run["topic"]] += until_entry[run["last_entry"]] - until_entry[run["first_entry"]]
    return found


def _observed_step(timeline: Timeline, sooner: Moment, later: Moment) -> int:
    step_ms = later.elapsed_ms - sooner.elapsed_ms
    is_gap = (
        step_ms > GAP_INTERVALS * timeline.usual_ms or later.entry.entry != sooner.entry.entry + 1
    )
    return 0 if is_gap or not (sooner.entry.complete and later.entry.complete) else step_ms


def not_judged(
    tried: TriedPolicy, recorded: Iterable[str], asked: Sequence[str] = ()
) -> tuple[PolicyEntry, ...]:
    """The entries that enable a topic of which the past has nothing. A pattern is one of them if no
    ``recorded`` topic follows it. ``asked``: the patterns of topics that the question is about, all
    where there is none; a pattern of the policy is asked about if it matches one of these texts."""
    judged: set[str] = set()
    for topic in recorded:
        policy = tried.config.policy_for(topic)
        if isinstance(policy, TopicPolicy | PolicyConflict):
            judged.update(policy.sources)
    patterns = [Pattern(each) for each in asked]

    def is_asked(entry: PolicyEntry) -> bool:
        name, is_pattern = entry.about
        if is_pattern:
            return not asked or name in asked or any(map(entry.matches, asked))
        return not asked or any(each.fullmatch(name) for each in patterns)

    return tuple(
        each
        for each in tried.config.entries
        if each.policy.enabled and each.source not in judged and is_asked(each)
    )
