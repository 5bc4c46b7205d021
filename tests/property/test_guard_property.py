"""The guard on random pairs of readings, judged by brute force from the snapshots' tables.

Nothing here uses the guard's own view of the evidence: who is relevant and what bounds a cutoff
is read from the tables once more, in the plainest way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentiond.act.guard import Verified, verify
from retentiond.config import Limits, NoPolicy, PolicyConflict
from retentiond.config.pattern import Pattern
from retentiond.decide.limits import within_limits
from retentiond.model import Failure, PlanRow, Reason, TopicPartition, Verdict
from retentiond.snapshot import Snapshot
from tests.support.builders.guard_readings import POLICY, Reading, deletion, group, partition, topic
from tests.support.oracle import counts

TOPICS = ("clicks", "orders")
PARTITIONS = [TopicPartition(name, number) for name in TOPICS for number in (0, 1)]
GROUPS = ("audit", "billing", "search")
LOST = Failure("TIMED_OUT", "no answer")

# Mostly well, so that approvals are common; each trouble on its own is rare.
offset = st.integers(0, 12)
end = st.just(12) | st.just(12) | offset
seldom = st.integers(0, 39).map(lambda number: number == 17)  # the ends of a range are tried more


TOPIC_TROUBLES: list[dict[str, object]] = [
    {"topic_id": "id-of-another"},
    {"is_internal": True},
    {"recreated": True},
    {"failure": LOST},
    {"cleanup_policy": frozenset({"compact"})},
    {"forced_retention_ms": 1},
    {"policy": PolicyConflict(("topics[0]",))},
]


@st.composite
def readings(draw: st.DrawFn) -> Reading:  # noqa: PLR0912 - one branch for each trouble
    policies = st.sampled_from(
        [POLICY] * 12
        + [
            replace(POLICY, min_groups=2),
            replace(POLICY, required_groups=("search",)),
            replace(POLICY, excluded=(Pattern("aud.*"),)),
            replace(POLICY, only=(Pattern("b.*"), Pattern("search"))),
            replace(POLICY, enabled=False),
        ]
    )
    reading = Reading(
        topics={name: replace(topic(name), policy=draw(policies)) for name in TOPICS},
        groups={name: group(name) for name in GROUPS},
    )
    for name in TOPICS:
        if draw(seldom):
            reading.change_topic(name, **draw(st.sampled_from(TOPIC_TROUBLES)))
    for at in PARTITIONS:
        start = draw(st.integers(0, 3))
        unread = draw(seldom)
        reading.partitions[at] = replace(
            partition(at.partition),
            log_start_offset=start,
            high_watermark=draw(end),
            last_stable_offset=draw(end),
            retention_offset=None if unread else draw(end),
            failure=LOST if unread else None,
        )
        for name in GROUPS:
            if not draw(seldom):
                reading.commits[name, at] = draw(st.integers(5, 12))
            if draw(seldom):
                reading.commits[name, at] = None
            if draw(seldom):
                reading.remembered[name, at] = draw(offset)
    for name in GROUPS:
        if draw(seldom):
            reading.drop_group(name)
            reading.remembered = {
                key: value for key, value in reading.remembered.items() if key[0] != name
            }
        elif draw(seldom):
            pairs_of_groups = draw(st.sampled_from([reading.readers, reading.changelogs]))
            pairs_of_groups.add((name, draw(st.sampled_from(TOPICS))))
        elif draw(seldom):
            reading.remembered_readers.add((name, draw(st.sampled_from(TOPICS))))
        elif draw(seldom):
            reading.groups[name] = replace(reading.groups[name], failure=LOST)
    if draw(seldom):
        reading.problems = ("broker 1 is down",)
    return reading


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Snapshot, Snapshot]:
    """Two readings; often the second is the first with little changed, as in life."""
    first = draw(readings())
    if draw(st.booleans()):
        return first.snapshot(), draw(readings()).snapshot()
    before = first.snapshot()
    for key in (
        draw(st.lists(st.sampled_from(sorted(first.commits)), max_size=2))
        if (first.commits)
        else ()
    ):
        first.commits[key] = draw(offset)
    return before, first.snapshot()


plans = st.lists(
    st.builds(deletion, st.sampled_from(PARTITIONS), st.integers(1, 8)),
    unique_by=lambda row: (row.topic, row.partition),
    min_size=1,
).map(lambda rows: sorted(rows, key=lambda row: (row.topic, row.partition)))


def bounds(snapshot: Snapshot, at: TopicPartition) -> Iterator[int | None]:
    """Everything that a cutoff may not exceed; None where the bound is not known."""
    for each in snapshot.partitions:
        if (snapshot.topics[each.topic].name, each.partition) == at:
            yield from (each.retention_offset, each.last_stable_offset, each.high_watermark)
    committed = {
        snapshot.groups[row["group_id"]].group_id: row["offset"]
        for row in snapshot.commits.to_pylist()
        if partition_of(snapshot, row["partition_id"]) == at
    }
    for group_id in relevant(snapshot, at.topic):
        yield committed.get(group_id)


def partition_of(snapshot: Snapshot, position: int) -> TopicPartition:
    found = snapshot.partitions[position]
    return TopicPartition(snapshot.topics[found.topic].name, found.partition)


def relevant(snapshot: Snapshot, name: str) -> set[str]:
    (found,) = [each for each in snapshot.topics if each.name == name]
    assert not isinstance(found.policy, NoPolicy)
    policy = found.policy
    groups = set(policy.required_groups)
    for row in snapshot.commits.to_pylist():
        if partition_of(snapshot, row["partition_id"]).topic == name:
            groups.add(snapshot.groups[row["group_id"]].group_id)
    for reader in snapshot.readers | snapshot.remembered_readers:
        if snapshot.topics[reader.topic].name == name:
            groups.add(snapshot.groups[reader.group].group_id)
    groups.update(each.group_id for each in snapshot.groups if each.failure is not None)
    return {each for each in groups if counts(policy, each)}


def forbidden(snapshot: Snapshot, name: str) -> bool:
    (found,) = [each for each in snapshot.topics if each.name == name]
    return (
        isinstance(found.policy, NoPolicy)
        or not found.policy.enabled
        or found.topic_id != f"id-of-{name}"
        or found.is_internal
        or found.recreated
        or found.failure is not None
        or "compact" in found.cleanup_policy
        or found.forced_retention_ms == 1
        or bool(snapshot.problems)
        or any(
            snapshot.topics[each.topic] is found
            and counts(found.policy, snapshot.groups[each.group].group_id)
            for each in snapshot.changelogs
        )
    )


def check(verified: Verified, first: Snapshot, second: Snapshot) -> None:
    for approved in verified.approved:
        at = approved.topic_partition
        for snapshot in (first, second):
            assert not forbidden(snapshot, at.topic)
            known = list(bounds(snapshot, at))
            assert None not in known
            assert approved.cutoff <= min(bound for bound in known if bound is not None)
        groups = relevant(second, at.topic)
        assert groups
        assert relevant(first, at.topic) <= groups
        assert {each.group_id for each in approved.evidence} == groups
        assert 0 <= approved.log_start_offset < approved.cutoff


def check_rows(rows: list[PlanRow], verified: Verified) -> None:
    assert [(row.topic, row.partition, row.cutoff) for row in verified.rows] == [
        (row.topic, row.partition, row.cutoff) for row in rows
    ]
    deleted = [row for row in verified.rows if row.verdict is Verdict.DELETE]
    assert deleted == [approved.row for approved in verified.approved]
    for row in verified.rows:
        if row.verdict is Verdict.HOLD:
            assert row.reason is Reason.EVIDENCE_CHANGED
            assert row.detail
            assert row.records == 0


@pytest.mark.long
def test_a_deletion_is_held_or_its_approved_cutoff_is_above_no_bound_of_either_reading() -> None:
    """A property over holds alone would prove nothing, so both are to come up."""
    verdicts: Counter[Verdict] = Counter()

    @settings(max_examples=1000)
    @given(plans, pairs())
    def judge(rows: list[PlanRow], pair: tuple[Snapshot, Snapshot]) -> None:
        verified = verify(rows, *pair)
        verdicts.update(row.verdict for row in verified.rows)
        check(verified, *pair)
        check_rows(rows, verified)

    judge()
    assert min(verdicts[Verdict.DELETE], verdicts[Verdict.HOLD]) >= verdicts.total() / 10


planned_rows = st.lists(
    st.tuples(st.integers(1, 50), st.booleans()).map(
        lambda drawn: (
            deletion(TopicPartition("orders", 0), 10 + drawn[0])
            if drawn[1]
            else replace(deletion(TopicPartition("orders", 0)), verdict=Verdict.NOTHING, records=0)
        )
    ),
    max_size=8,
)
limit = st.none() | st.integers(1, 60)


@given(planned_rows, limit, limit)
def test_limits_are_never_exceeded_and_something_always_goes(
    rows: list[PlanRow], records: int | None, partitions: int | None
) -> None:
    limited = within_limits(
        rows, Limits(records_per_cycle=records, partitions_per_cycle=partitions)
    )

    planned = [row for row in rows if row.verdict is Verdict.DELETE]
    going = [row for row in limited if row.verdict is Verdict.DELETE]
    assert bool(going) == bool(planned)
    assert records is None or sum(row.records for row in going) <= records
    assert partitions is None or len(going) <= partitions
    assert len(limited) == len(rows)
    for before, after in zip(rows, limited, strict=True):
        assert after.cutoff is not None
        assert before.cutoff is not None
        assert after.cutoff <= before.cutoff
        if after.verdict is Verdict.DELETE:
            assert after.records == after.cutoff - (after.log_start_offset or 0)
        if before.verdict is not Verdict.DELETE:
            assert after == before
