"""A simulation of random histories: Spark and the oracle agree on every figure.

A run of Spark takes a second whatever its size, so many histories are tried at a time, as topics
of one table, under the same entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from retentiond.config import ExternalReader, PolicyConflict, TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.history.ask.past import Past, history_at, open_past
from retentiond.history.ask.question import TopicQuestion, questions
from retentiond.history.ask.recommend import NeedKind, Recommendation, recommend, without_retention
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.report import report, without_retentiond
from retentiond.history.ask.rows import LARGE_JOBS
from retentiond.history.ask.simulate import SimulatedTopic, simulate
from retentiond.history.schema import RowKind
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
    reader_row,
)
from tests.support.shared_spark import SharedSpark
from tests.support.tiers import runs

pytestmark = [pytest.mark.spark, pytest.mark.long]

TABLES = runs(5, quick=1)
RECOMMENDED = 2
AT_ONCE = 100
ENTRIES = 12
DAY_MS = 1440 * MINUTE_MS
BEGIN_MS = int(BEGIN.timestamp() * 1000)

MINUTES = [0, 0, 1, 2, 5]
"""Of consumed retentions, tried and recorded."""

REASONS = ["consumed", "too_young", "not_consumed", "empty"] * 4 + [
    "group_without_commit",
    "group_unreadable",
    "commit_beyond_end",
    "group_vanished",
    "limit_reached",
    "paused",
    "evidence_changed",
    "commit_rewound",
    "open_transaction",
    "group_list_incomplete",
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
        step += draw(seldom(20)) * DAY_MS
        at_ms = max(0, at_ms + step)
        observed = draw(st.sampled_from([step, step, None]))
        made.append(
            PastEntry(
                at_ms,
                None if observed is None or not number else max(0, observed),
                complete=not draw(seldom(8)),
                is_whole=draw(st.integers(0, 9)) > 0 if number == 0 else draw(seldom(8)),
                left_out=number and draw(seldom(30)),
                read_ms=read_ms,
            )
        )
    return made


@dataclass
class Topic:
    """A topic as the daemon of one history sees it. ``last``: what was recorded of a group's commit
    on a partition, and what that proves; ``readers``: known to read it without a commit."""

    random: Random
    name: str
    groups: dict[str, str]  # and their kinds
    partitions: Sequence[int]
    topic_id: str = "one"
    high: int = 0
    start: int = 0
    last: dict[tuple[str, int], tuple[int | None, str]] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)

    def seldom(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def rows(self, entry: PastEntry) -> Iterator[dict[str, Any]]:
        if self.seldom(20):
            self.topic_id, self.high, self.start = "two", 0, 0
            yield from (commit_row(group, self.name, at, None) for group, at in self.last)
            self.last = {}
        self.high = max(0, self.high + self.random.randint(0, 4))
        if self.seldom(6):
            self.start = min(self.high, self.start + self.random.randint(0, 3))
        if entry.is_whole:
            yield from (group_row(group, "live", kind) for group, kind in self.groups.items())
            yield from (reader_row(group, self.name) for group in sorted(self.readers))
        for group in self.groups:
            if any(each == group for each, _ in self.last) and self.seldom(10):
                yield from self.gone(group)
                continue
            if group in self.readers and self.seldom(4):
                self.readers.remove(group)
                yield reader_row(group, self.name, None)
            for at in self.partitions:
                if self.moves(group, at) or (entry.is_whole and (group, at) in self.last):
                    yield commit_row(group, self.name, at, *self.last[group, at])
        has_row = not self.seldom(12)
        for at in self.partitions:
            yield from self.rows_of(at, has_row=has_row)

    def gone(self, group: str) -> Iterator[dict[str, Any]]:
        """It is forgotten, or its offsets have expired."""
        yield from (commit_row(group, self.name, at, None) for at in self.partitions)
        self.last = {key: each for key, each in self.last.items() if key[0] != group}
        if self.seldom(2):
            yield group_row(group, None, self.groups[group])
        else:
            self.readers.add(group)
            yield reader_row(group, self.name)

    def moves(self, group: str, at: int) -> bool:
        is_new = (group, at) not in self.last
        if not (is_new or self.seldom(2)) or (is_new and self.seldom(3)):
            return False
        is_rewound = self.seldom(6)
        end = self.high
        offset = self.random.randint(0 if is_rewound else end - 2, end)
        state = self.random.choice(["read"] * 18 + ["beyond", "replaced", "unreadable"])
        if state == "beyond":
            state, offset = "read", end + 1
        self.last[group, at] = (None if state == "unreadable" else max(0, offset), state)
        return True

    def rows_of(self, partition: int, *, has_row: bool) -> Iterator[dict[str, Any]]:
        random, high, start = self.random, self.high, self.start
        counted = [
            offset
            for (group, at), (offset, _) in self.last.items()
            if at == partition and offset is not None and not group.endswith("x")
        ]
        if self.seldom(5):
            cutoff = random.randint(0, high)
            outcome = random.choice(["deleted", "failed", "unknown"])
            yield deletion_row(self.name, partition, cutoff, outcome)
            start = max(start, random.choice([cutoff, start]))
        if has_row:
            reason = random.choice(REASONS) if counted else "group_without_commit"
            yield partition_row(
                self.name,
                partition,
                high_watermark=None if self.seldom(15) else high,
                topic_id=self.topic_id,
                log_start_offset=None if self.seldom(15) else start,
                last_stable_offset=max(start, high - random.choice([0, 0, 0, 2])),
                size_bytes=None if self.seldom(12) else random.randint(0, 1000),
                reason=reason,
                groups=len(counted),
                min_committed_offset=None if self.seldom(10) else min(counted, default=None),
                forced_retention_ms=random.choice([None, None, 3 * MINUTE_MS]),
                consumed_retention_ms=random.choice(MINUTES) * MINUTE_MS,
                retention_offset=random.choice([None, random.randint(0, high + 1)]),
            )


def topic_rows(seed: int, name: str, timeline: list[PastEntry]) -> list[list[dict[str, Any]]]:
    """One history, as the rows of a topic in each entry. The daemon's part is played roughly: the
    record's smallest commit is the one of the groups that have commits, as in the live rule."""
    random = Random(seed)
    kinds = {
        "a": "consumer",
        "b": random.choice(["consumer", "external"]),
        "x": random.choice(["consumer", "consumer", "streams"]),
    }
    topic = Topic(
        random,
        name,
        {f"{name}-{group}": kinds[group] for group in random.choice(["a", "ab", "abx"])},
        range(random.choice([1, 1, 2])),
        high=random.randint(0, 3),
    )
    return [list(topic.rows(entry)) for entry in timeline]


@st.composite
def broken_group(draw: st.DrawFn, timeline: list[PastEntry]) -> None:
    """One that can't be read for some entries, as a whole or in part."""
    first, last = sorted(draw(st.integers(0, ENTRIES)) for _ in range(2))
    complete = draw(st.sampled_from([False, False, True, None]))
    for at, entry in enumerate(timeline):
        is_broken = first <= at < last
        if entry.is_whole or at in (first, last):
            state = "unreadable" if is_broken else "live"
            entry.rows.append(group_row("broken", state, complete=complete if is_broken else True))


Tried: TypeAlias = TopicPolicy | PolicyConflict | None


def policy(minutes: int, *excluded: str, **settings: Any) -> TopicPolicy:
    return TopicPolicy(
        enabled=True,
        consumed_retention_ms=minutes * MINUTE_MS,
        excluded=tuple(map(Pattern, excluded)),
        **settings,
    )


@st.composite
def policies(draw: st.DrawFn, name: str) -> tuple[Tried, TopicPolicy | None]:
    """One to try, and the one of the record."""
    minutes = draw(st.sampled_from(MINUTES))
    assumed = draw(seldom(3))
    in_force = policy(minutes, ".*-x", assumes_visible_groups=assumed)
    if draw(st.booleans()):
        return draw(
            st.sampled_from(
                [(in_force, in_force)] * 6 + [(PolicyConflict(("topics[0]",)), None), (None, None)]
            )
        )
    reader = ExternalReader(name=f"{name}-b", offsets="/positions.json")
    pairs: list[tuple[TopicPolicy, TopicPolicy | None]] = [
        (policy(minutes), in_force),
        (policy(minutes, "broken"), in_force),
        (policy(minutes, ".*-a", "broken"), in_force),
        (policy(minutes, only=(Pattern(".*-[bx]"),)), in_force),
        (in_force, policy(minutes, only=(Pattern(".*-a"),))),
        (policy(minutes, ".*-[ax]", "broken"), in_force),
        (policy(minutes, ".*-x", required_groups=(f"{name}-a",)), in_force),
        (policy(minutes, ".*-x", required_groups=("nobody",)), in_force),
        (policy(minutes, "broken", ".*-x", min_groups=2), in_force),
        (policy(minutes, "broken", ".*-x"), None),
        *[(in_force, replace(in_force, forget_vanished_after_ms=1))] * 3,
        (in_force, replace(in_force, external_readers=(reader,))),
        (replace(in_force, external_readers=(reader,)), in_force),
    ]
    tried, then = draw(st.sampled_from(pairs))
    return replace(tried, assumes_visible_groups=assumed), then


@dataclass
class Batch:
    """``tried`` and ``in_force``: by topic."""

    cluster: PastCluster
    tried: dict[str, Tried] = field(default_factory=dict)
    in_force: dict[str, TopicPolicy | None] = field(default_factory=dict)
    since_ms: int = 0

    def for_oracle(self) -> dict[str, past_oracle.Tried]:
        return {
            topic: for_oracle(policy, self.in_force[topic]) for topic, policy in self.tried.items()
        }


def for_oracle(tried: Tried, in_force: TopicPolicy | None) -> past_oracle.Tried:
    if not isinstance(tried, TopicPolicy):
        return past_oracle.Tried(None)

    def counts(group: str, is_external: bool) -> bool:
        policies = [tried, in_force] if in_force else [tried]
        return any(not leaves_out(each, group, is_external) for each in policies)

    external = set(tried.external_readers)
    known = set(in_force.external_readers) if in_force else set()
    same = (
        tried.excluded,
        tried.only,
        tried.required_groups,
        tried.min_groups,
        tried.external_readers,
    )
    if not external <= known:
        return past_oracle.Tried(None, 1, counts)
    waits_longer = bool(in_force and in_force.forget_vanished_after_ms)
    if (
        in_force
        and not waits_longer
        and same
        == (
            in_force.excluded,
            in_force.only,
            in_force.required_groups,
            in_force.min_groups,
            in_force.external_readers,
        )
    ):
        return past_oracle.Tried(
            tried.consumed_retention_ms,
            tried.min_groups,
            counts,
            assumes_visible=tried.assumes_visible_groups,
        )
    dropped = {each.name for each in known - external}
    return past_oracle.Tried(
        tried.consumed_retention_ms,
        tried.min_groups,
        counts,
        past_oracle.Others(
            counts=lambda group, is_external: not leaves_out(tried, group, is_external),
            was_counted=lambda group: bool(in_force and not in_force.excludes(group)),
            required=tried.required_groups,
            waits_longer=waits_longer,
            dropped=dropped,
            own={each.name for each in tried.external_readers},
        ),
        tried.assumes_visible_groups,
    )


def leaves_out(policy: TopicPolicy, group: str, is_external: bool) -> bool:
    """No policy leaves out an external reader that another one names."""
    own = {each.name for each in policy.external_readers}
    return (group in own or not is_external) and policy.excludes(group)


def batches(count: int, *, by_age: bool = False) -> list[Batch]:
    """The same in each run, so that how much they show is no matter of luck. Each has its own seed:
    where CI is set, Hypothesis draws the same in each run of a function. ``by_age``: no row has its
    retention offset, which here has nothing to do with when records were first seen."""
    made: list[Batch] = []

    @settings(
        max_examples=max(count, 2),  # the first one is as plain as can be
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(entries(), st.sampled_from([0, 0, 3 * MINUTE_MS]), st.data())
    def collect(timeline: list[PastEntry], since_ms: int, data: st.DataObject) -> None:
        if not any(each.at_ms >= since_ms for each in timeline):
            since_ms = 0
        if data.draw(seldom(2)):
            data.draw(broken_group(timeline))
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
        name = f"t{len(batch.tried):03d}"
        tried = data.draw(policies(name))
        seed = data.draw(st.integers(0, 2**32))
        entries = batch.cluster.entries
        batch.tried[name], batch.in_force[name] = tried
        for entry, rows in zip(entries, topic_rows(seed, name, entries), strict=True):
            entry.rows += [row | {"retention_offset": None} for row in rows] if by_age else rows

    every: list[Batch] = []
    for number in range(count):
        made.clear()
        seed(number)(collect)()
        del made[:-1]
        seed(number)(fill)()
        every.append(made[0])
    return every


@pytest.fixture
def large_jobs() -> SharedSpark:
    return SharedSpark({**LARGE_JOBS, "spark.sql.shuffle.partitions": "2"})


def past_of(batch: Batch, place: Path) -> Past:
    batch.cluster.write(place)
    since_ms = BEGIN_MS + batch.since_ms
    return open_past(history_at(place), "local[2]", since_ms, since_ms + 10**9, 10 * DAY_MS)


def test_spark_and_the_oracle_agree_on_hundreds_of_histories(
    large_jobs: SharedSpark, tmp_path: Path
) -> None:
    losses = records = 0
    of_others = Counter[str]()
    with large_jobs.use() as session:
        for number, batch in enumerate(batches(TABLES)):
            past = past_of(batch, tmp_path / str(number))
            asked = questions(batch.tried, batch.tried.get, batch.in_force.get)
            found = simulate(Replay(past, session, asked))
            expected = past_oracle.simulated(
                batch.cluster, batch.for_oracle(), batch.since_ms, batch.since_ms + 10**9
            )
            assert [each.topic for each in found.topics] == list(expected)
            for topic in found.topics:
                compare(topic, expected[topic.topic], batch)
                if batch.for_oracle()[topic.topic].others:
                    of_others["losses"] += len(topic.missed)
                    of_others["records"] += topic.simulated_records_deleted
            losses += len(found.total.missed)
            records += found.total.simulated_records_deleted
    assert losses > 8 * TABLES
    assert records > 200 * TABLES
    assert of_others["losses"] > 2 * TABLES
    assert of_others["records"] > 60 * TABLES


def compare(found: SimulatedTopic, expected: past_oracle.TopicResult, batch: Batch) -> None:
    figures = (
        (found.mean_bytes, expected.mean),
        (found.peak_bytes, expected.peak),
        (found.simulated_mean_bytes, expected.simulated_mean),
        (found.simulated_peak_bytes, expected.simulated_peak),
    )
    shown = (
        f"{found}\nnot\n{expected}\nof {batch.tried[found.topic]}, {batch.in_force[found.topic]}"
    )
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


def test_records_whose_segment_is_still_there_have_saved_nothing(
    large_jobs: SharedSpark, tmp_path: Path
) -> None:
    """A hundred records of ten bytes an entry, deleted as soon as they are read. Of "young" Kafka
    never frees a byte: all of them are in the segment that is being written. Of "rolled" it frees
    the first 6,000 records at once, two entries after the last of them was deleted."""
    timeline = []
    for at in range(100):
        end, size = 100 * (at + 1), 1000 * (at + 1)
        left = size - (60_000 if at >= 62 else 0)
        rows = [
            partition_row(topic, high_watermark=end, log_start_offset=end - 100, size_bytes=on_disk)
            for topic, on_disk in (("young", size), ("rolled", left))
        ]
        rows += [deletion_row(topic, 0, end) for topic in ("young", "rolled")]
        timeline.append(PastEntry(at * MINUTE_MS, rows=rows))
    PastCluster(timeline).write(tmp_path / "past")
    past = open_past(history_at(tmp_path / "past"), "local[2]", BEGIN_MS, BEGIN_MS + 10**9, DAY_MS)
    disabled = dict.fromkeys(("young", "rolled"))
    with large_jobs.use() as session:
        asked = questions(disabled, disabled.get, disabled.get)
        found = report(Replay(past, session, [without_retentiond(each) for each in asked]))

    rolled, young = found.topics
    saved = 60_000 * 38 / 100
    assert young.without_mean_bytes == young.mean_bytes
    assert saved <= (rolled.saved_bytes or 0) <= 1.25 * saved  # sizes don't tell where segments end


@pytest.mark.thorough("a replay for each of many retentions")
def test_under_what_is_recommended_nobody_would_have_missed_anything(
    large_jobs: SharedSpark, tmp_path: Path
) -> None:
    came_back = limited = 0
    with large_jobs.use() as session:
        for number, batch in enumerate(batches(RECOMMENDED, by_age=True)):
            past = past_of(batch, tmp_path / f"recommend-{number}")
            tried = {name: each for name, each in batch.tried.items() if each is not None}
            asked = [
                without_retention(each) for each in questions(tried, tried.get, batch.in_force.get)
            ]
            found = recommend(Replay(past, session, asked), 1, partial(Replay, past, session))
            assert {each.topic for each in found} <= tried.keys()
            for each in found:
                assert each.is_short
                forced_ms = last_forced_retentions(batch, each.topic)
                if each.limited_by_ms is None:
                    assert each.simulated.missed == ()
                    assert each.retention_ms >= each.observed_ms
                    assert any(limit is None or limit >= each.retention_ms for limit in forced_ms)
                else:
                    assert each.retention_ms == each.limited_by_ms
                    assert each.limited_by_ms in forced_ms
                    limited += 1
                came_back += each.because.why is not NeedKind.NONE_SEEN
            again = [at_least(each, found) for each in asked]
            assert simulate(Replay(past, session, again)).total.missed == ()
    assert came_back > 5 * RECOMMENDED
    assert limited > 5 * RECOMMENDED


def last_forced_retentions(batch: Batch, topic: str) -> list[int | None]:
    """Those of the partitions in the last entry that has any; on a real cluster they are equal."""
    for entry in reversed(batch.cluster.entries):
        found = [
            row["forced_retention_ms"]
            for row in entry.rows
            if row["kind"] == RowKind.PARTITION and row["topic"] == topic
        ]
        if found:
            return found
    return [None]


def at_least(question: TopicQuestion, found: Sequence[Recommendation]) -> TopicQuestion:
    """The shortest retention that was seen to do, and not what is recommended for caution."""
    needed = {each.topic: each.shortest_ms for each in found}
    ms = needed.get(question.topic)
    if ms is None or question.policy is None:
        return question
    policy = replace(question.policy, consumed_retention_ms=ms)
    return replace(question, policy=policy)
