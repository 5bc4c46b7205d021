"""The guard: each single objection turns a deletion into a hold, in either reading.

`OBJECTIONS` is a table so that a check that is removed from the guard fails its line.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from retentiond.act.approved import GroupEvidence
from retentiond.act.evidence import Evidence
from retentiond.act.guard import verify
from retentiond.act.rule import Objection, TopicGroups, check_partition
from retentiond.config import PolicyConflict, PolicyUnreadable
from retentiond.config.pattern import Pattern
from retentiond.kafka.interface import EpochEnd
from retentiond.model import Failure, GroupKind, PlanRow, Reason, TopicPartition, Verdict
from retentiond.snapshot import ABSENT, VANISHED, GroupReading, commit_table
from tests.support.builders.guard_readings import (
    CLICKS_0,
    ORDERS_0,
    ORDERS_1,
    POLICY,
    Change,
    Reading,
    changed,
    deletion,
    deletions,
    epoch,
    healthy,
    no_commit,
    offsets,
    orders,
    policy,
)

LOST = Failure("LEADER_NOT_AVAILABLE", "no leader")
HIDDEN = ("Kafka hides groups from this principal: grant it DESCRIBE on the cluster", "and more")


def commits(group: str, offset: int | None) -> Change:
    return lambda reading: reading.commits.update({(group, ORDERS_0): offset})


def pressure(policy_ms: int, reading_ms: int) -> Change:
    """The partition was read by a pressure retention, and its policy has one."""

    def change(reading: Reading) -> None:
        reading.change_topic("orders", policy=replace(POLICY, pressure_retention_ms=policy_ms))
        reading.change_partition(ORDERS_0, pressure_retention_ms=reading_ms)

    return change


def excluding(pattern: str) -> Change:
    return policy(excluded=(Pattern(pattern),))


def counting_only(*patterns: str) -> Change:
    return policy(only=tuple(Pattern(each) for each in patterns))


def unreadable(reading: Reading) -> None:
    reading.add_group("audit")
    reading.groups["audit"] = replace(reading.groups["audit"], failure=LOST)


def reader(reading: Reading) -> None:
    reading.add_group("audit")
    reading.readers.add(("audit", "orders"))


def remembered(reading: Reading) -> None:
    reading.add_group("audit")
    reading.remembered["audit", ORDERS_0] = 130


def seen(reading: Reading) -> None:
    reading.add_group("audit")
    reading.remembered_readers.add(("audit", "orders"))


def crashed(reading: Reading) -> None:
    seen(reading)
    reading.groups["audit"] = replace(reading.groups["audit"], state=VANISHED)


def remembered_elsewhere(reading: Reading) -> None:
    reading.add_group("audit")
    reading.remembered["audit", ORDERS_1] = 130


def commit_elsewhere(reading: Reading) -> None:
    reading.add_group("audit")
    reading.commits["audit", ORDERS_1] = 130


def hiding(reading: Reading) -> None:
    reading.hidden = HIDDEN


def everybody(reading: Reading) -> None:
    """Whoever the table names has read enough, so that the second reading objects to nothing."""
    for group in ("audit", "payments"):
        reading.add_group(group)
        reading.commits.update({(group, at): 130 for at in reading.partitions})


def everybody_on_clicks(reading: Reading) -> None:
    reading.add_group("audit")
    reading.commits["audit", CLICKS_0] = 150


def nobody(reading: Reading) -> None:
    reading.commits.clear()


def no_topic(reading: Reading) -> None:
    del reading.topics["orders"]
    del reading.partitions[ORDERS_0], reading.partitions[ORDERS_1]
    for group in ("billing", "search"):
        del reading.commits[group, ORDERS_0], reading.commits[group, ORDERS_1]


def no_partition(reading: Reading) -> None:
    del reading.partitions[ORDERS_0]
    for group in ("billing", "search"):
        del reading.commits[group, ORDERS_0]


OBJECTIONS: dict[str, tuple[Change, str]] = {
    "listing incomplete": (
        lambda reading: setattr(reading, "problems", ("broker 2 is down", "and 3")),
        "the listing of groups is not complete: broker 2 is down",
    ),
    "groups hidden": (hiding, HIDDEN[0]),
    "topic missing": (no_topic, "the topic is not there"),
    "topic unreadable": (
        orders(failure=LOST),
        "the topic could not be read (LEADER_NOT_AVAILABLE:",
    ),
    "topic without id": (orders(topic_id=None), "the topic's id is None"),
    "topic of another id": (orders(topic_id="id-2"), "the topic's id is id-2"),
    "topic recreated": (orders(recreated=True), "the topic was recreated"),
    "topic internal": (orders(is_internal=True), "the topic is internal"),
    "topic compacted": (
        orders(cleanup_policy=frozenset({"compact"})),
        "the topic's cleanup.policy lacks delete",
    ),
    "topic compacted and its policy allows it": (
        lambda reading: reading.change_topic(
            "orders",
            cleanup_policy=frozenset({"compact"}),
            policy=replace(POLICY, allow_compacted=True),
        ),
        "the topic's cleanup.policy lacks delete",
    ),
    "topic compacted and deleted from": (
        orders(cleanup_policy=frozenset({"compact", "delete"})),
        "its policy does not say allow_compacted",
    ),
    "topic without cleanup policy": (
        orders(cleanup_policy=frozenset()),
        "the topic's cleanup.policy lacks delete",
    ),
    "policies in conflict": (
        orders(policy=PolicyConflict(("topics[0]", "topics[1]"))),
        "the topic has no policy: topics[0] and topics[1] treat the topic differently",
    ),
    "policy unreadable": (
        orders(policy=PolicyUnreadable("a.yaml", "a.yaml: line 2")),
        "the topic has no policy: the policy file of the topic's fence can't be used: a.yaml: line",
    ),
    "policy does not enable": (policy(enabled=False), "the policy does not enable the topic"),
    "consumed beyond forced retention": (
        orders(forced_retention_ms=59_999),
        "the consumed retention (60000 ms) exceeds the topic's retention.ms (59999)",
    ),
    "partition missing": (no_partition, "the partition is not there"),
    "partition unreadable": (offsets(failure=LOST), "the partition's offsets could not be read"),
    "log start offset unreadable": (
        offsets(log_start_offset=None),
        "log start offset is unreadable",
    ),
    "log start offset negative": (offsets(log_start_offset=-1), "log start offset is unreadable"),
    "high watermark unreadable": (offsets(high_watermark=None), "the high watermark is unreadable"),
    "last stable offset unreadable": (
        offsets(last_stable_offset=None),
        "the last stable offset is unreadable",
    ),
    "retention offset unreadable": (
        offsets(retention_offset=None),
        "retention offset is unreadable",
    ),
    "cutoff above the last stable offset": (
        offsets(last_stable_offset=99),
        "the end is 99, below the cutoff 100",
    ),
    "cutoff above the high watermark": (
        offsets(high_watermark=99),
        "the end is 99, below the cutoff 100",
    ),
    "cutoff above the retention offset": (
        offsets(retention_offset=99),
        "records from offset 99 on are younger than the consumed retention",
    ),
    "cutoff at the log start offset": (
        offsets(log_start_offset=100),
        "the log start offset is already 100",
    ),
    "cutoff below the log start offset": (
        offsets(log_start_offset=101),
        "the log start offset is already 101",
    ),
    "group below the cutoff": (commits("search", 99), "group search"),
    "group below the cutoff beside one at the high watermark": (
        lambda reading: reading.commits.update(
            {("billing", ORDERS_0): 200, ("search", ORDERS_0): 99}
        ),
        "group search",
    ),
    "pressure retention that the policy lacks": (
        offsets(pressure_retention_ms=30_000),
        "the policy has no pressure retention of 30000 ms",
    ),
    "pressure retention shorter than the policy's": (
        pressure(policy_ms=30_001, reading_ms=30_000),
        "the policy has no pressure retention of 30000 ms",
    ),
    "pressure retention longer than the policy's": (
        pressure(policy_ms=29_999, reading_ms=30_000),
        "the policy has no pressure retention of 30000 ms",
    ),
    "pressure retention that the plan does not go by": (
        pressure(policy_ms=30_000, reading_ms=30_000),
        "the plan goes by a consumed retention of 60000 ms, and the reading by 30000 ms",
    ),
    "group beyond the high watermark": (
        commits("search", 201),
        "group search has committed 201, beyond the high watermark 200",
    ),
    "group whose epoch ended below its commit": (
        epoch("search", 3, 119),
        "group search has committed 120 in leader epoch 3, and the log knows it up to 119 only",
    ),
    "group whose epoch the log does not know": (
        epoch("search", None, None),
        "group search has committed 120 in leader epoch 3, which the log does not know",
    ),
    "group whose epoch the log does not know, though it tells an end": (
        epoch("search", None, 120),
        "group search has committed 120 in leader epoch 3, which the log does not know",
    ),
    "group of an epoch in whose place the log has a later one": (
        epoch("search", 4, 121),
        "in leader epoch 3, and the log was written in epoch 4 there",
    ),
    "group of an epoch in whose place the log has another": (
        epoch("search", 2, 121),
        "in leader epoch 3, and the log was written in epoch 2 there",
    ),
    "group that has not moved since before the log": (
        lambda reading: reading.stale.add(("search", ORDERS_0)),
        "group search has not committed since its commit was beyond the end, or the topic was "
        "recreated",
    ),
    "share group whose epoch ended below its start": (
        epoch("search", 3, 119, GroupKind.SHARE),
        "group search has committed 120 in leader epoch 3, and the log knows it up to 119 only",
    ),
    "commit unreadable": (
        commits("search", None),
        "the commit of group search could not be read",
    ),
    "group without a commit here": (
        no_commit("search"),
        "group search has no commit on the partition",
    ),
    "group unreadable": (
        unreadable,
        "group audit could not be read (LEADER_NOT_AVAILABLE: no leader)",
    ),
    "topic restored from": (
        lambda reading: reading.changelogs.add(("search", "orders")),
        "the topic is a changelog of group search, which restores its state from it",
    ),
    "reader without a commit": (reader, "group audit has no commit on the partition"),
    "group with a commit on another partition": (
        commit_elsewhere,
        "group audit has no commit on the partition",
    ),
    "required group without a commit": (
        policy(required_groups=("payments",)),
        "group payments has no commit on the partition",
    ),
    "remembered group without a commit": (
        remembered,
        "group audit had committed 130 and has no commit any more",
    ),
    "group remembered on another partition": (
        remembered_elsewhere,
        "group audit has no commit on the partition",
    ),
    "reader that was seen and has no commit": (seen, "group audit has no commit on the partition"),
    "reader that was seen and is gone": (
        crashed,
        "group audit was seen to read the topic and is not there any more",
    ),
    "nobody reads": (nobody, "no group reads the topic"),
    "all excluded": (excluding(".*"), "no group reads the topic"),
    "only others count": (counting_only("nobody"), "no group reads the topic"),
    "too few of those that alone count": (
        lambda reading: reading.change_topic(
            "orders", policy=replace(POLICY, min_groups=2, only=(Pattern("search"),))
        ),
        "1 group counts, and at least 2 must",
    ),
    "too few groups": (policy(min_groups=3), "2 groups count, and at least 3 must"),
    "too few groups after exclusion": (
        lambda reading: reading.change_topic(
            "orders",
            policy=replace(POLICY, min_groups=2, excluded=(Pattern("search"),)),
        ),
        "1 group counts, and at least 2 must",
    ),
}


def held(rows: tuple[PlanRow, ...], at: TopicPartition) -> PlanRow:
    (row,) = [row for row in rows if (row.topic, row.partition) == at]
    assert row.verdict is Verdict.HOLD
    assert row.reason is Reason.EVIDENCE_CHANGED
    assert row.records == 0
    assert row.cutoff == 100  # figures stay
    return row


def test_when_both_readings_bear_the_plan_out_it_is_approved() -> None:
    verified = verify(deletions(), healthy().snapshot(), healthy().snapshot())

    assert verified.rows == deletions()
    assert [each.topic_partition for each in verified.approved] == [CLICKS_0, ORDERS_0, ORDERS_1]
    approved = verified.approved[1]
    assert (approved.topic_id, approved.cutoff, approved.log_start_offset) == (
        "id-of-orders",
        100,
        10,
    )
    assert tuple(approved.evidence) == (
        GroupEvidence("billing", GroupKind.CLASSIC, 120),
        GroupEvidence("search", GroupKind.CLASSIC, 120),
    )
    assert approved.row == deletion(ORDERS_0)


@pytest.mark.parametrize("name", OBJECTIONS)
def test_an_objection_in_the_second_reading_holds_the_deletion(name: str) -> None:
    change, sentence = OBJECTIONS[name]

    verified = verify(deletions(), healthy().snapshot(), changed(change).snapshot())

    assert ORDERS_0 not in [each.topic_partition for each in verified.approved]
    detail = held(verified.rows, ORDERS_0).detail
    assert detail is not None
    assert sentence in detail
    assert "by the plan's own reading" not in detail


def test_the_reading_that_objects_to_nothing_is_approved() -> None:
    everything_read = changed(everybody).snapshot()

    assert len(verify(deletions(), healthy().snapshot(), everything_read).approved) == 3


@pytest.mark.parametrize("name", OBJECTIONS)
def test_an_objection_in_the_plans_reading_holds_the_deletion(name: str) -> None:
    change, sentence = OBJECTIONS[name]

    verified = verify(deletions(), changed(change).snapshot(), changed(everybody).snapshot())

    assert ORDERS_0 not in [each.topic_partition for each in verified.approved]
    detail = held(verified.rows, ORDERS_0).detail
    assert detail is not None
    assert detail.startswith("by the plan's own reading, ")
    assert sentence in detail


EXACTLY_ENOUGH: dict[str, tuple[Change, ...]] = {
    "last stable offset at the cutoff": (offsets(last_stable_offset=100),),
    "high watermark at the cutoff and the commits": (
        offsets(high_watermark=100),
        commits("billing", 100),
        commits("search", 100),
    ),
    "retention offset at the cutoff": (offsets(retention_offset=100),),
    "log start offset right below the cutoff": (offsets(log_start_offset=99),),
    "log start offset went back": (offsets(log_start_offset=0),),
    "group at the cutoff": (commits("search", 100),),
    "group at the high watermark": (commits("search", 200),),
    "consumed retention as long as the forced one": (orders(forced_retention_ms=60_000),),
    "forced retention unlimited": (orders(forced_retention_ms=None),),
    "as many groups as must be": (policy(min_groups=2),),
    "required groups that have committed": (policy(required_groups=("billing", "search")),),
    "compaction allowed": (
        orders(cleanup_policy=frozenset({"compact", "delete"})),
        policy(allow_compacted=True),
    ),
    "unreadable group excluded": (unreadable, excluding("aud.*")),
    "reader excluded": (reader, excluding("aud.*")),
    "reader that is none of those that alone count": (reader, counting_only("b.*", "search")),
    "unreadable group that does not count": (unreadable, counting_only("b.*", "search")),
    "remembered group that does not count": (remembered, counting_only("b.*", "search")),
    "remembered group excluded": (remembered, excluding("aud.*")),
    "group that reads another topic": (everybody_on_clicks,),
    "hidden groups that the policy assumes visible": (hiding, policy(assumes_visible_groups=True)),
    "epoch that the log knows up to the commit": (epoch("search", 3, 120),),
    "epoch that the log knows beyond the commit": (epoch("search", 3, 121),),
    "epoch of which the group has read nothing": (epoch("search", 2, 120),),
    "epoch before that of a share group": (epoch("search", 2, 121, GroupKind.SHARE),),
}


@pytest.mark.parametrize("name", EXACTLY_ENOUGH)
def test_evidence_that_just_suffices_is_approved(name: str) -> None:
    reading = changed(*EXACTLY_ENOUGH[name])

    verified = verify([deletion(ORDERS_0)], reading.snapshot(), reading.snapshot())

    assert [each.cutoff for each in verified.approved] == [100]


@pytest.mark.parametrize(
    ("planned_ms", "change", "is_approved"),
    [
        (60_000, [], True),
        (59_999, [], False),
        (60_001, [], False),
        (None, [], False),
        (60_000, [policy(pressure_retention_ms=30_000)], True),
        (30_000, [policy(pressure_retention_ms=30_000)], False),
        (30_000, [pressure(30_000, 30_000)], True),
        (29_999, [pressure(30_000, 30_000)], False),
        (30_001, [pressure(30_000, 30_000)], False),
        (60_000, [pressure(60_000, 60_000)], True),
        (60_001, [pressure(60_001, 60_001)], False),
    ],
)
def test_plan_reading_and_policy_must_go_by_the_same_retention(
    planned_ms: int | None, change: list[Change], is_approved: bool
) -> None:
    """And a pressure retention never makes the consumed one longer."""
    planned = replace(deletion(ORDERS_0), consumed_retention_ms=planned_ms)
    reading = changed(*change)

    verified = verify([planned], reading.snapshot(), reading.snapshot())

    assert bool(verified.approved) is is_approved


def test_without_a_group_no_cutoff_is_allowed() -> None:
    evidence = Evidence(healthy().snapshot(), {"orders"})

    with pytest.raises(Objection) as raised:
        check_partition(evidence, deletion(ORDERS_0), 100, TopicGroups((), {}))

    assert raised.value.sentence == "no group reads the topic"


SINCE = "2023-11-14T22:13:20.000Z"


def newcomer(offset: int) -> Change:
    def join(reading: Reading) -> None:
        reading.add_group("audit")
        reading.commits["audit", ORDERS_0] = offset

    return join


def without(*groups: str) -> Change:
    def drop(reading: Reading) -> None:
        for each in groups:
            reading.drop_group(each)

    return drop


def listed(reading: Reading) -> None:
    reading.add_group("audit")


def named(state: str, kind: GroupKind = GroupKind.UNKNOWN) -> Change:
    return lambda reading: reading.groups.update(audit=GroupReading("audit", kind, state))


def unread(problem: Failure | None) -> Change:
    def change(reading: Reading) -> None:
        reading.commits["search", ORDERS_0] = None
        reading.groups["search"] = replace(reading.groups["search"], problem=problem)

    return change


def of_external_reader(reading: Reading) -> None:
    """The id that was a group's is that of an external reader of the same name."""
    reading.groups["billing"] = replace(reading.groups["billing"], kind=GroupKind.EXTERNAL)


def external(group_id: str) -> Change:
    """External reader audit, which goes by that id."""

    def add(reading: Reading) -> None:
        namesake_of = None if group_id == "audit" else "audit"
        reading.groups[group_id] = GroupReading(
            group_id, GroupKind.EXTERNAL, "External", namesake_of=namesake_of
        )
        reading.commits[group_id, ORDERS_0] = 110

    return add


def of_cluster(name: str) -> Change:
    return lambda reading: setattr(reading, "cluster_id", name)


Changes = tuple[Change, ...]
PLANNED = ("billing", 120)
CAUSES: dict[str, tuple[Changes, Changes, str, tuple[str, int | None], list[TopicPartition]]] = {
    "moved back": (
        (),
        (commits("billing", 80),),
        "group billing moved back from 120 to 80",
        ("billing", 80),
        [CLICKS_0, ORDERS_1],
    ),
    "counts only now, and has moved": (
        (commits("search", 50), excluding("search")),
        (commits("search", 80),),
        "group search has committed 80, below the cutoff 100",
        ("search", 80),
        [CLICKS_0, ORDERS_1],
    ),
    "counts only now, and has not moved": (
        (commits("search", 80), excluding("search")),
        (commits("search", 80),),
        "group search has committed 80, below the cutoff 100",
        ("search", 80),
        [CLICKS_0, ORDERS_1],
    ),
    "is new": (
        (),
        (newcomer(60),),
        "group audit has committed 60, below the cutoff 100",
        ("audit", 60),
        [CLICKS_0],
    ),
    "can't be read, nobody knows why": (
        (),
        (unread(None),),
        "the commit of group search could not be read",
        ("search", None),
        [CLICKS_0, ORDERS_1],
    ),
    "can't be read": (
        (),
        (unread(LOST),),
        "the commit of group search could not be read (LEADER_NOT_AVAILABLE: no leader)",
        ("search", None),
        [CLICKS_0, ORDERS_1],
    ),
    "is gone": (
        (),
        (without("billing"), everybody),
        "group billing was there for the plan and is gone",
        ("billing", None),
        [],
    ),
    "is gone, as is the next by name": (
        (),
        (without("billing", "search"), everybody),
        "group billing was there for the plan and is gone",
        ("billing", None),
        [],
    ),
    "is gone, and an external reader has its id": (
        (),
        (of_external_reader,),
        "external reader billing was there for the plan and is gone",
        ("billing", None),
        [],
    ),
    # it may be hidden, or come back: of whatever topics it was
    "is not listed any more": (
        (listed,),
        (),
        "group audit was listed for the plan and is no longer listed",
        ("audit", None),
        [],
    ),
    "is remembered, which does not make it listed": (
        (listed,),
        (named(VANISHED),),
        "group audit was listed for the plan and is no longer listed",
        ("audit", None),
        [],
    ),
    "no group": (
        (),
        (offsets(failure=LOST),),
        "the partition's offsets could not be read (LEADER_NOT_AVAILABLE: no leader)",
        PLANNED,
        [CLICKS_0, ORDERS_1],
    ),
    **{
        f"no group, but {another}": (
            (),
            (of_cluster(another),),
            f"the cluster is {another}, and the plan was made on cluster-a",
            PLANNED,
            [],
        )
        for another in ("cluster-0", "cluster-b")
    },
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_hold_names_the_group_that_is_its_cause_and_leaves_what_it_is_not_about(
    name: str,
) -> None:
    before, now, detail, group, others = CAUSES[name]
    planned = [replace(each, binding_since=SINCE) for each in deletions()]

    verified = verify(planned, changed(*before).snapshot(), changed(*now).snapshot())

    row = held(verified.rows, ORDERS_0)
    assert row.detail == detail
    assert (row.binding_group, row.binding_committed_offset) == group
    # what was planned says nothing of another commit
    assert row.binding_since == (SINCE if group == PLANNED else None)
    assert [each.topic_partition for each in verified.approved] == others


@pytest.mark.parametrize(
    ("before", "now", "evidence"),
    [
        ([], [newcomer(110)], ["audit", "billing", "search"]),
        *(
            # it was not listed for the plan either, or is in no listing
            ([named(*each)], [], ["billing", "search"])
            for each in ((ABSENT,), (VANISHED,), ("External", GroupKind.EXTERNAL))
        ),
        ([excluding("aud.*"), listed], [excluding("aud.*")], ["billing", "search"]),
    ],
)
def test_who_counts_now_is_evidence_and_who_never_counted_may_come_and_go(
    before: list[Change], now: list[Change], evidence: list[str]
) -> None:
    verified = verify([deletion(ORDERS_0)], changed(*before).snapshot(), changed(*now).snapshot())

    assert [group.group_id for group in verified.approved[0].evidence] == evidence


def test_an_external_reader_that_goes_by_another_id_is_still_there() -> None:
    before, now = changed(external("audit")), changed(external("audit (external)"))
    (approved,) = verify([deletion(ORDERS_0)], before.snapshot(), now.snapshot()).approved
    assert [each.group_id for each in approved.evidence] == [
        "audit (external)",
        "billing",
        "search",
    ]


def test_topics_of_the_same_groups_share_the_list_of_them() -> None:
    """The audit log writes it once for all of them; another topic has a list of its own."""
    same = verify(deletions(), changed().snapshot(), changed().snapshot()).approved
    assert len({id(each.evidence.groups) for each in same}) == 1
    told = verify(deletions(), changed().snapshot(), changed(newcomer(110)).snapshot()).approved
    groups = {each.topic: [name for name, _ in each.evidence.groups] for each in told}
    assert groups == {"clicks": ["billing", "search"], "orders": ["audit", "billing", "search"]}


@pytest.mark.parametrize("problems", [(), ("broker 2 is down",)])
def test_rows_that_are_no_deletions_pass_untouched_and_in_order(problems: tuple[str, ...]) -> None:
    nothing = replace(
        deletion(CLICKS_0), verdict=Verdict.NOTHING, reason=Reason.NOT_CONSUMED, records=0
    )
    reading = changed(lambda reading: setattr(reading, "problems", problems)).snapshot()

    verified = verify((nothing, deletion(ORDERS_0)), reading, changed().snapshot())

    assert [(row.topic, row.verdict is Verdict.DELETE) for row in verified.rows] == [
        ("clicks", False),
        ("orders", not problems),
    ]
    assert verified.rows[0] == nothing
    assert [each.topic for each in verified.approved] == ([] if problems else ["orders"])


@pytest.mark.parametrize("is_gone", [False, True], ids=["by the second", "by the first alone"])
def test_of_the_group_that_is_named_the_kind_is_known_by_either_reading(is_gone: bool) -> None:
    def of_kind(reading: Reading) -> None:
        reading.groups["billing"] = replace(reading.groups["billing"], kind=GroupKind.CONSUMER)

    def and_then(reading: Reading) -> None:
        of_kind(reading)
        reading.drop_group("billing") if is_gone else commits("billing", 80)(reading)

    verified = verify(
        [deletion(ORDERS_0)], changed(of_kind).snapshot(), changed(and_then).snapshot()
    )

    row = held(verified.rows, ORDERS_0)
    assert (row.binding_group, row.binding_kind) == ("billing", GroupKind.CONSUMER)


@pytest.mark.parametrize(
    "row",
    [
        deletion(ORDERS_0, cutoff=None),
        replace(deletion(ORDERS_0), topic_id=None),
    ],
    ids=["no cutoff", "no topic id"],
)
def test_a_deletion_that_lacks_its_figures_is_held(row: PlanRow) -> None:
    reading = changed(orders(topic_id=row.topic_id))

    verified = verify([row], reading.snapshot(), reading.snapshot())

    assert not verified.approved
    assert verified.rows[0].detail == "the plan gives no cutoff or no topic id"


@pytest.mark.parametrize("what", ["group", "commit"])
def test_what_is_in_a_reading_twice_holds_everything(what: str) -> None:
    snapshot = healthy().snapshot()
    commits = snapshot.commits.take([0, *range(snapshot.commits.num_rows)])
    twice = (
        replace(snapshot, groups=(*snapshot.groups, snapshot.groups[0]))
        if what == "group"
        else replace(snapshot, commits=commits)
    )

    verified = verify(deletions(), snapshot, twice)

    assert not verified.approved
    assert "a group or a commit is in it twice" in (held(verified.rows, CLICKS_0).detail or "")


def test_partitions_that_were_not_asked_for_still_show_who_reads_the_topic() -> None:
    def not_asked(reading: Reading) -> None:
        reading.add_group("audit")
        reading.commits["audit", ORDERS_1] = 130
        reading.change_partition(
            ORDERS_1,
            log_start_offset=None,
            high_watermark=None,
            last_stable_offset=None,
            retention_offset=None,
            failure=Failure("NOT_ASKED", ""),
        )

    verified = verify([deletion(ORDERS_0)], healthy().snapshot(), changed(not_asked).snapshot())

    assert held(verified.rows, ORDERS_0).binding_group == "audit"


@pytest.mark.parametrize(("log_start", "records"), [(40, 60), (4, 96)])  # it may go back
def test_the_figures_of_the_second_reading_are_the_ones_that_go_on(
    log_start: int, records: int
) -> None:
    moved = changed(offsets(log_start_offset=log_start), commits("search", 140))

    verified = verify([deletion(ORDERS_0)], healthy().snapshot(), moved.snapshot())

    (approved,) = verified.approved
    assert approved.log_start_offset == log_start
    assert approved.evidence.committed_offsets[1] == 140
    assert (approved.row.log_start_offset, approved.row.records) == (log_start, records)
    assert verified.rows == (approved.row,)


def test_on_one_reading_rows_are_judged_and_nothing_is_approved() -> None:
    reading = healthy().snapshot()
    verified = verify([deletion(ORDERS_0)], reading, reading)
    assert verified.rows == (deletion(ORDERS_0),)
    assert verified.approved == ()

    moved = changed(commits("search", 99)).snapshot()
    held(verify([deletion(ORDERS_0)], moved, moved).rows, ORDERS_0)


def test_a_row_on_trial_is_judged_and_never_approved() -> None:
    on_trial = replace(deletion(ORDERS_0), dry_run=True)
    for reading in (healthy(), changed(policy(dry_run=True))):
        verified = verify([on_trial], reading.snapshot(), reading.snapshot())
        assert verified.approved == ()
        assert [row.verdict for row in verified.rows] == [Verdict.DELETE]
    verified = verify([on_trial], healthy().snapshot(), changed(commits("search", 99)).snapshot())
    assert [row.reason for row in verified.rows] == [Reason.EVIDENCE_CHANGED]


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_plan_that_takes_a_trial_for_real_is_turned_down(which: str) -> None:
    on_trial = changed(policy(dry_run=True)).snapshot()
    first, second = (
        on_trial if each == which else healthy().snapshot() for each in ("first", "second")
    )
    verified = verify([deletion(ORDERS_0)], first, second)
    assert verified.approved == ()
    assert [row.detail for row in verified.rows] == ["the policy has the topic on trial (dry_run)"]


def test_past_epochs_of_other_topics_cost_the_guard_nothing() -> None:
    """After brokers were restarted one by one, nearly every commit is of a past epoch."""
    reading = healthy().snapshot()
    other = next(at for at, each in enumerate(reading.partitions) if each.topic == 0)
    count = 1_500_000
    many = commit_table(
        group_id=pa.array(np.zeros(count, np.int32)),
        partition_id=pa.array(np.full(count, other, np.int32)),
        is_committed=pa.array(np.ones(count, np.bool_)),
        offset=pa.array(np.ones(count, np.int64)),
        leader_epoch=pa.array(np.ones(count, np.int32)),
    )
    second = replace(
        reading,
        commits=pa.concat_tables([reading.commits, many]),
        epoch_ends={(other, 1): EpochEnd(1, 9)},
    )
    began = time.process_time()
    verified = verify([deletion(ORDERS_0)], reading, second)
    assert time.process_time() - began < 0.5
    assert len(verified.approved) == 1
