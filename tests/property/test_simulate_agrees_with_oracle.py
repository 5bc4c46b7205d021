"""A simulation of random histories: Spark and the oracle agree on every figure.

A run of Spark takes a second whatever its size, so many histories are tried at a time, as topics
of one table, under the same entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from retentiond.config import PolicyConflict, TopicPolicy
from retentiond.config.values import Pattern
from retentiond.history.past import Past, open_past
from retentiond.history.question import TopicQuestion, questions
from retentiond.history.recommend import Recommendation, Why, recommend, without_retention
from retentiond.history.replay import Replay
from retentiond.history.session import LARGE_JOBS
from retentiond.history.simulate import SimulatedTopic, simulate
from retentiond.spark.session import SparkSessions
from tests.support import past_oracle
from tests.support.builders.past_clusters import (
    BEGIN,
    MINUTE_MS,
    PastCluster,
    PastEntry,
    commit_row,
    deletion_row,
    group_row,
    partition_row,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

TABLES = 10
AT_ONCE = 50
ENTRIES = 12
BEGIN_MS = int(BEGIN.timestamp() * 1000)

REASONS = ["consumed", "too_young", "not_consumed", "empty"] * 4 + [
    "group_without_commit",
    "group_unreadable",
    "limit_reached",
    "paused",
    "evidence_changed",
    "commit_rewound",
    "open_transaction",
    "retention_exceeds_forced",
    "topic_recreated",
]


def seldom(one_in: int) -> st.SearchStrategy[bool]:
    return st.integers(1, one_in).map(lambda drawn: drawn == one_in)


@st.composite
def entries(draw: st.DrawFn) -> list[PastEntry]:
    at_ms, made = 0, []
    read_ms = draw(st.sampled_from([0, 500, MINUTE_MS]))
    for number in range(ENTRIES):
        step = draw(st.sampled_from([1, 1, 1, 1, 2, 0, 9, -5])) * MINUTE_MS
        at_ms = max(0, at_ms + step)
        observed = draw(st.sampled_from([step, step, None]))
        made.append(
            PastEntry(
                at_ms,
                None if observed is None or not number else max(0, observed),
                complete=not draw(seldom(8)),
                is_whole=number == 0 or draw(seldom(8)),
                read_ms=read_ms,
            )
        )
    return made


@st.composite
def topic_rows(draw: st.DrawFn, name: str, timeline: list[PastEntry]) -> list[list[dict[str, Any]]]:
    """One history, as the rows of a topic in each entry. The daemon's part is played roughly: the
    record's smallest commit is the one of the groups that have commits, as in the live rule."""
    groups = [f"{name}-{group}" for group in draw(st.sampled_from(["a", "ab", "abx"]))]
    topic_id, rows = "one", []
    high, start = draw(st.integers(0, 3)), 0
    last: dict[str, int] = {}
    for entry in timeline:
        here: list[dict[str, Any]] = []
        if draw(seldom(20)):
            topic_id, high, start = "two", 0, 0
            last = {}
        high = max(0, high + draw(st.integers(0, 4)))
        if draw(seldom(6)):
            start = min(high, start + draw(st.integers(0, 3)))
        for group in groups:
            if group in last and draw(seldom(15)):
                here.append(group_row(group, None))
                del last[group]
                continue
            moves = group not in last or draw(st.booleans())
            if moves and not (group not in last and draw(seldom(3))):
                rewound = draw(seldom(6))
                offset = draw(st.integers(0, high)) if rewound else high - draw(st.integers(0, 2))
                last[group] = max(0, offset)
                here.append(commit_row(group, name, 0, last[group]))
            elif entry.is_whole and group in last:
                here.append(commit_row(group, name, 0, last[group]))
        counted = [last[group] for group in groups if group in last and not group.endswith("x")]
        if draw(seldom(5)):
            cutoff = draw(st.integers(0, high))
            here.append(deletion_row(name, 0, cutoff, draw(st.sampled_from(["deleted", "failed"]))))
            start = max(start, draw(st.sampled_from([cutoff, start])))
        if not draw(seldom(12)):
            reason = draw(st.sampled_from(REASONS)) if counted else "group_without_commit"
            here.append(
                partition_row(
                    name,
                    high_watermark=None if draw(seldom(15)) else high,
                    topic_id=topic_id,
                    log_start_offset=None if draw(seldom(15)) else start,
                    last_stable_offset=max(start, high - draw(st.sampled_from([0, 0, 0, 2]))),
                    size_bytes=None if draw(seldom(12)) else draw(st.integers(0, 1000)),
                    reason=reason,
                    groups=len(counted),
                    min_committed_offset=None if draw(seldom(10)) else min(counted, default=None),
                    forced_retention_ms=draw(st.sampled_from([None, None, 3 * MINUTE_MS])),
                )
            )
        rows.append(here)
    return rows


POLICIES: list[TopicPolicy | PolicyConflict | None] = [
    TopicPolicy(
        enabled=True, consumed_retention_ms=minutes * MINUTE_MS, excluded=(Pattern(".*-x"),)
    )
    for minutes in (0, 0, 1, 2, 5)
]


@dataclass
class Batch:
    cluster: PastCluster
    policies: dict[str, TopicPolicy | PolicyConflict | None] = field(default_factory=dict)
    since_ms: int = 0

    def tried(self) -> dict[str, past_oracle.Tried]:
        return {
            topic: past_oracle.Tried(
                policy.consumed_retention_ms if isinstance(policy, TopicPolicy) else None,
                policy.min_groups if isinstance(policy, TopicPolicy) else 1,
                lambda group, policy=policy: (
                    not (  # type: ignore[misc] # a default binds it now
                        isinstance(policy, TopicPolicy) and group.endswith("-x")
                    )
                ),
            )
            for topic, policy in self.policies.items()
        }


def batches(count: int) -> list[Batch]:
    made: list[Batch] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(entries(), st.sampled_from([0, 0, 3 * MINUTE_MS]), st.data())
    def collect(timeline: list[PastEntry], since_ms: int, data: st.DataObject) -> None:
        if not any(each.at_ms >= since_ms for each in timeline):
            since_ms = 0
        made.append(Batch(PastCluster(timeline), since_ms=since_ms))

    @settings(
        max_examples=AT_ONCE,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def fill(data: st.DataObject) -> None:
        batch = made[-1]
        name = f"t{len(batch.policies):03d}"
        batch.policies[name] = data.draw(
            st.sampled_from([*POLICIES, PolicyConflict(("topics[0]", "topics[1]")), None])
        )
        for entry, rows in zip(
            batch.cluster.entries, data.draw(topic_rows(name, batch.cluster.entries)), strict=True
        ):
            entry.rows += rows

    every: list[Batch] = []
    for _ in range(count):
        made.clear()
        collect()
        del made[:-1]
        fill()
        every.append(made[0])
    return every


@pytest.fixture(scope="module")
def large_jobs() -> Iterator[SparkSessions]:
    sessions = SparkSessions("local[2]", {**LARGE_JOBS, "spark.sql.shuffle.partitions": "2"})
    yield sessions
    sessions.stop()


def past_of(batch: Batch, place: Path) -> Past:
    batch.cluster.write(place)
    since_ms = BEGIN_MS + batch.since_ms
    return open_past(place, "local[2]", since_ms, since_ms + 10**9, 10 * MINUTE_MS)


def test_spark_and_the_oracle_agree_on_500_histories(
    large_jobs: SparkSessions, tmp_path: Path
) -> None:
    losses = records = 0
    with large_jobs.use() as session:
        for number, batch in enumerate(batches(TABLES)):
            past = past_of(batch, tmp_path / str(number))
            asked = questions(batch.policies, batch.policies.get, batch.policies.get)
            found = simulate(Replay(past, session, asked))
            expected = past_oracle.simulated(
                batch.cluster, batch.tried(), batch.since_ms, batch.since_ms + 10**9
            )
            assert [each.topic for each in found.topics] == list(expected)
            for topic in found.topics:
                compare(topic, expected[topic.topic], batch)
            losses += len(found.total.missed)
            records += found.total.simulated_records_deleted
    assert losses > 100
    assert records > 1000


def compare(found: SimulatedTopic, expected: past_oracle.TopicResult, batch: Batch) -> None:
    figures = (
        (found.mean_bytes, expected.mean),
        (found.peak_bytes, expected.peak),
        (found.simulated_mean_bytes, expected.simulated_mean),
        (found.simulated_peak_bytes, expected.simulated_peak),
    )
    shown = f"{found}\nnot\n{expected}\nof {batch.policies[found.topic]}"
    for one, other in figures:
        assert (one is None) == (other is None), shown
        assert one is None or one == pytest.approx(other, abs=0.6), shown
    assert found.simulated_records_deleted == expected.records, shown
    assert sorted(
        (
            each.group,
            each.partition,
            each.at_ms,
            each.committed_offset,
            each.log_start_offset,
            each.records,
        )
        for each in found.missed
    ) == sorted(
        (
            loss.group,
            loss.partition,
            BEGIN_MS + batch.cluster.entries[loss.at].at_ms,
            loss.committed,
            loss.start,
            loss.records,
        )
        for loss in expected.missed
    ), shown


def test_under_what_is_recommended_nobody_would_have_missed_anything(
    large_jobs: SparkSessions, tmp_path: Path
) -> None:
    came_back = 0
    with large_jobs.use() as session:
        for number, batch in enumerate(batches(2)):
            past = past_of(batch, tmp_path / f"recommend-{number}")
            policies = {name: each for name, each in batch.policies.items() if each is not None}
            asked = [
                without_retention(each) for each in questions(policies, policies.get, policies.get)
            ]
            found = recommend(Replay(past, session, asked), 1, partial(Replay, past, session))
            assert {each.topic for each in found} <= policies.keys()
            for each in found:
                assert each.simulated.missed == ()
                assert each.is_short
                assert each.retention_ms >= each.observed_ms
                came_back += each.because.why is not Why.NONE_SEEN
            again = [at_least(each, found) for each in asked]
            assert simulate(Replay(past, session, again)).total.missed == ()
    assert came_back > 10


def at_least(question: TopicQuestion, found: Sequence[Recommendation]) -> TopicQuestion:
    """The shortest retention that was seen to do, and not what is recommended for caution."""
    needed = {each.topic: each.shortest_ms for each in found}
    ms = needed.get(question.topic)
    if ms is None or question.policy is None:
        return question
    policy = replace(question.policy, consumed_retention_ms=ms)
    return replace(question, retention_ms=ms, policy=policy)
