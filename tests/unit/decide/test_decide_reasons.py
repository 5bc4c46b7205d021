"""Each reason, by one change to a healthy cluster; all of them in a single run of Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from retentiond.config import PolicyConflict, PolicyUnreadable
from retentiond.config.pattern import Pattern
from retentiond.decide.plan import decide
from retentiond.model import VERDICT_OF, Failure, GroupKind, PlanRow, Reason
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.builders.guard_readings import (
    ORDERS_0,
    ORDERS_1,
    Change,
    Reading,
    changed,
    epoch,
    no_commit,
    offsets,
    orders,
    policy,
)
from tests.support.strategies import prefix, together, with_everybody_named

pytestmark = pytest.mark.spark

LOST = Failure("TIMED_OUT", "no answer")
BOTH = ("billing", "search")
LARGEST = 2**63 - 1


def commit(offset: int | None, *groups: str) -> Change:
    return lambda world: world.commits.update({(each, ORDERS_0): offset for each in groups})


def remember(offset: int, *groups: str) -> Change:
    return lambda world: world.remembered.update({(each, ORDERS_0): offset for each in groups})


def seen(group: str) -> Change:
    return lambda world: world.remembered_readers.add((group, "orders"))


def restored_by(group: str) -> Change:
    return lambda world: world.changelogs.add((group, "orders"))


def unreadable(world: Reading) -> None:
    world.groups["stranger"] = replace(world.groups["search"], group_id="stranger", failure=LOST)


def incomplete(world: Reading) -> None:
    world.problems = ("broker 1 is down",)


@dataclass(frozen=True)
class Case:
    """What one row of the plan, that of orders-0, must say."""

    reason: Reason
    changes: tuple[Change, ...]
    cutoff: int | None
    group: str | None = "billing"
    committed: int | None = 120
    groups: int = 2
    said: str = ""


CASES = [
    Case(Reason.CONSUMED, (), 120, said="group billing has consumed the least"),
    Case(Reason.CONSUMED, (commit(160, *BOTH),), 150, committed=160, said="from 150 on"),
    Case(Reason.CONSUMED, (commit(150, *BOTH),), 150, committed=150, said="everything older"),
    Case(
        Reason.CONSUMED,
        (commit(190, *BOTH), offsets(retention_offset=200)),
        180,
        committed=190,
        said="a transaction is open since offset 180",
    ),
    Case(  # nothing is young: all that has an end is old
        Reason.CONSUMED,
        (commit(190, *BOTH), offsets(retention_offset=180)),
        180,
        committed=190,
        said="a transaction is open since offset 180",
    ),
    Case(
        Reason.CONSUMED,
        (commit(200, *BOTH), offsets(retention_offset=200, last_stable_offset=200)),
        200,
        committed=200,
        said="everything older",
    ),
    Case(Reason.CONSUMED, (commit(100, "search"),), 100, "search", 100, said="group search"),
    Case(Reason.CONSUMED, (policy(excluded=(Pattern("b.*"),)),), 120, "search", groups=1),
    Case(Reason.CONSUMED, (policy(only=(Pattern("se.*"),)),), 120, "search", groups=1),
    Case(
        Reason.COMMIT_BEYOND_END,
        (epoch("search", 3, 119),),
        120,
        "search",
        said="group search has committed 120 in leader epoch 3, and in this log that epoch ended "
        "at 119: what it has read was lost",
    ),
    Case(Reason.CONSUMED, (epoch("search", 3, 120),), 120),
    Case(Reason.CONSUMED, (epoch("search", 2, 120),), 120),  # it has read nothing in epoch 3
    Case(
        Reason.COMMIT_BEYOND_END,
        (epoch("search", 2, 121),),
        120,
        "search",
        said="this log knows none between epoch 2, which ended at 121, and a later one",
    ),
    Case(
        Reason.COMMIT_BEYOND_END,
        (epoch("search", None, None),),
        120,
        "search",
        said="of which this log knows nothing",
    ),
    Case(
        Reason.COMMIT_BEYOND_END,
        (lambda world: world.stale.add(("search", ORDERS_0)),),
        120,
        "search",
        said="group search has committed 120 before this log had so many records, or on an earlier "
        "topic of that name: it counts when it moves",
    ),
    Case(
        Reason.COMMIT_BEYOND_END,
        (epoch("search", 3, 119), lambda world: world.stale.add(("billing", ORDERS_0))),
        120,
        "billing",
    ),
    Case(
        Reason.CONSUMED,
        (lambda world: world.stale.add(("search", ORDERS_0)), policy(excluded=(Pattern("s.*"),))),
        120,
        "billing",
        groups=1,
    ),
    Case(Reason.CONSUMED, (epoch("search", 2, 121, GroupKind.SHARE),), 120),
    Case(Reason.COMMIT_BEYOND_END, (epoch("search", 2, 119, GroupKind.SHARE),), 120, "search"),
    Case(
        Reason.COMMIT_BEYOND_END,  # which is worse
        (epoch("billing", 3, 50), commit(201, "search")),
        120,
        "search",
        201,
        said="beyond the high watermark",
    ),
    Case(Reason.EMPTY, (offsets(log_start_offset=200),), 120, said="no record"),
    Case(
        Reason.TOO_YOUNG,
        (offsets(retention_offset=10),),
        10,
        said="the oldest record is dated less than 1 minute ago, or in the future",
    ),
    Case(
        Reason.NOT_CONSUMED,
        (commit(10, "search"),),
        10,
        "search",
        10,
        said="group search has consumed nothing",
    ),
    Case(
        Reason.NOT_CONSUMED,  # a tie of group and age is the group's
        (commit(10, "search"), offsets(retention_offset=10)),
        10,
        "search",
        10,
        said="group search has consumed nothing",
    ),
    Case(
        Reason.NOT_CONSUMED,  # below the log start, but no further back than before
        (commit(9, "search"), remember(9, "search")),
        9,
        "search",
        9,
        said="group search has consumed nothing",
    ),
    Case(
        Reason.NOT_CONSUMED,  # went back, but lost nothing
        (commit(10, "search"), remember(120, "search")),
        10,
        "search",
        10,
        said="group search has consumed nothing",
    ),
    Case(
        Reason.NO_GROUP,
        (policy(excluded=(Pattern(".*"),)),),
        None,
        None,
        None,
        groups=0,
        said="no group that counts reads the topic (groups.only and groups.exclude say",
    ),
    Case(
        Reason.NO_GROUP,
        (policy(only=(Pattern("typo"),)),),
        None,
        None,
        None,
        groups=0,
        said="no group that counts reads the topic (groups.only and groups.exclude say",
    ),
    Case(
        Reason.TOO_FEW_GROUPS,
        (policy(min_groups=3),),
        120,
        None,
        None,
        said="s count, and at least 3 must",
    ),
    Case(
        Reason.REQUIRED_GROUP_MISSING,
        (policy(required_groups=("archive",)),),
        None,
        "archive",
        None,
        groups=3,
        said="group archive is required",
    ),
    Case(
        Reason.GROUP_WITHOUT_COMMIT,
        (no_commit("search"),),
        None,
        "search",
        None,
        said="group search counts for the topic",
    ),
    Case(
        Reason.GROUP_VANISHED,
        (remember(100, "audit"),),
        None,
        "audit",
        100,
        groups=3,
        said="group audit once committed",
    ),
    Case(
        Reason.GROUP_VANISHED,  # on the partition that it had read it is no other matter
        (lambda world: world.remembered.update({("audit", ORDERS_1): 100}),),
        None,
        "audit",
        None,
        groups=3,
        said="group audit once committed",
    ),
    Case(
        Reason.GROUP_VANISHED,
        (seen("audit"),),
        None,
        "audit",
        None,
        groups=3,
        said="group audit was seen to read the topic, has no commit on it, and is gone",
    ),
    Case(
        Reason.GROUP_WITHOUT_COMMIT,
        (seen("audit"), lambda world: world.add_group("audit")),
        None,
        "audit",
        None,
        groups=3,
        said="group audit was seen to read the topic and has no commit on it",
    ),
    Case(
        Reason.GROUP_UNREADABLE, (commit(None, "search"),), None, "search", None, said="its commit"
    ),
    Case(Reason.COMMIT_BEYOND_END, (commit(201, "search"),), 120, "search", 201, said="201"),
    Case(
        Reason.COMMIT_REWOUND,
        (commit(9, "search"), remember(120, "search")),
        9,
        "search",
        9,
        said="group search went back to 9",
    ),
    Case(Reason.OFFSET_UNREADABLE, (offsets(failure=LOST),), 120, said="could not be read (TIMED"),
    Case(Reason.OFFSET_UNREADABLE, (offsets(last_stable_offset=None),), None, said="no answer"),
    Case(Reason.OFFSET_UNREADABLE, (orders(failure=LOST),), 120, said="the topic could not be"),
    Case(Reason.TOPIC_RECREATED, (orders(recreated=True),), 120, said="another id"),
    Case(
        Reason.NOT_DELETABLE,
        (orders(cleanup_policy=frozenset({"compact", "delete"})),),
        120,
        said="cleanup.policy is compact,delete",
    ),
    Case(Reason.NOT_DELETABLE, (orders(is_internal=True),), 120, said="internal topics"),
    Case(
        Reason.NOT_DELETABLE,
        (restored_by("search"),),
        120,
        "search",
        None,
        said="the topic is a changelog of group search, which restores its state from it",
    ),
    Case(
        Reason.CONSUMED,  # what the operator has taken out does not hold
        (restored_by("search"), policy(excluded=(Pattern("search"),))),
        120,
        groups=1,
    ),
    Case(
        Reason.NOT_DELETABLE,  # the first by name
        (restored_by("billing"), restored_by("search")),
        120,
        "billing",
        None,
        said="changelog of group billing",
    ),
    Case(
        Reason.NOT_DELETABLE,  # the first by name that counts
        (restored_by("billing"), restored_by("search"), policy(excluded=(Pattern("b.*"),))),
        120,
        "search",
        None,
        groups=1,
        said="changelog of group search",
    ),
    Case(
        Reason.RETENTION_EXCEEDS_FORCED,
        (orders(forced_retention_ms=59_999),),
        120,
        said="60000 ms) is longer",
    ),
    Case(
        Reason.POLICY_CONFLICT,
        (orders(policy=PolicyConflict(("topics[0]", "topics[1]"))),),
        None,
        said="topics[0] and topics[1]",
    ),
    Case(
        Reason.POLICY_CONFLICT,
        (orders(policy=PolicyConflict(("topics[0]", "policies.d/a.yaml: topics[1]"), "a")),),
        None,
        said="the main file's topics[0] and policies.d/a.yaml: topics[1] treat the topic",
    ),
    Case(
        Reason.POLICY_UNREADABLE,
        (orders(policy=PolicyUnreadable("a.yaml", "a.yaml: line 2: expected", "a")),),
        None,
        said="the policy file of the topic's fence can't be used: a.yaml: line 2: expected",
    ),
    Case(Reason.OPEN_TRANSACTION, (offsets(last_stable_offset=10),), 10, said="since offset 10"),
]


@pytest.fixture(scope="module")
def plans(spark: SparkSessions) -> list[PlanRow]:
    """The row of orders-0 of each case, in a world of its own."""
    made = [with_everybody_named(changed(*case.changes)) for case in CASES]
    rows = {(row.topic, row.partition): row for row in decide(spark, together(made).snapshot())}
    return [rows[f"{prefix(number)}orders", 0] for number in range(len(CASES))]


@pytest.mark.parametrize(
    ("number", "case"),
    list(enumerate(CASES)),
    ids=[f"{each.reason}-{number}" for number, each in enumerate(CASES)],
)
def test_a_single_change_has_its_reason_its_figures_and_its_sentence(
    plans: list[PlanRow], number: int, case: Case
) -> None:
    row = plans[number]

    assert row.reason is case.reason
    assert row.verdict is VERDICT_OF[case.reason]
    assert row.cutoff == case.cutoff
    assert row.binding_group == (case.group and prefix(number) + case.group)
    assert row.binding_committed_offset == case.committed
    assert row.groups == case.groups
    deleted = (row.cutoff or 0) - 10 if row.reason is Reason.CONSUMED else 0
    assert row.records == deleted
    assert row.detail is not None
    assert case.said in row.detail.replace(prefix(number), "")


def test_an_incomplete_listing_holds_everything_and_says_why(spark: SparkSessions) -> None:
    for row in decide(spark, changed(incomplete).snapshot()):
        assert row.reason is Reason.GROUP_LIST_INCOMPLETE
        assert row.detail == "not every group may have been seen: broker 1 is down"


def test_a_group_that_is_unreadable_as_a_whole_holds_topics_it_never_touched(
    spark: SparkSessions,
) -> None:
    for row in decide(spark, changed(unreadable).snapshot()):
        assert row.reason is Reason.GROUP_UNREADABLE
        assert (row.binding_group, row.groups) == ("stranger", 3)
        assert row.detail == "group stranger could not be read (TIMED_OUT: no answer)"


def test_of_a_group_that_is_unreadable_as_a_whole_its_own_commit_is_shown_if_there_is_one(
    spark: SparkSessions,
) -> None:
    world = changed(commit(130, "search"))
    world.groups["search"] = replace(world.groups["search"], failure=LOST)
    shown = {
        (row.topic, row.partition): (row.reason, row.binding_group, row.binding_committed_offset)
        for row in decide(spark, world.snapshot())
    }
    assert shown["orders", 0] == (Reason.GROUP_UNREADABLE, "search", 130)
    assert shown["orders", 1] == (Reason.GROUP_UNREADABLE, "search", 120)


@pytest.mark.parametrize(
    ("change", "reason", "group"),
    [
        (epoch("search", None, None), Reason.COMMIT_BEYOND_END, "search"),
        (
            lambda world: world.stale.add(("search", ORDERS_0)),
            Reason.COMMIT_BEYOND_END,
            "search",
        ),
        (no_commit("search"), Reason.GROUP_WITHOUT_COMMIT, "search"),
        *((commit(500, group), Reason.COMMIT_BEYOND_END, group) for group in BOTH),
    ],
    ids=["unknown epoch", "earlier records", "no commit", "first beyond", "last beyond"],
)
def test_a_single_trouble_of_the_whole_cluster_holds(
    spark: SparkSessions, change: Change, reason: Reason, group: str
) -> None:
    """No other world brings a column or a table, and the group is the first or the last of all."""
    rows = decide(spark, changed(change).snapshot())
    (held,) = (row for row in rows if (row.topic, row.partition) == ("orders", 0))
    assert (held.reason, held.binding_group) == (reason, group)


def test_of_a_group_unreadable_here_and_one_unreadable_as_a_whole_the_first_by_name_is_the_cause(
    spark: SparkSessions,
) -> None:
    world = changed(unreadable, commit(None, "billing"))
    bound = {
        (row.topic, row.partition): row.binding_group for row in decide(spark, world.snapshot())
    }

    assert bound == {("clicks", 0): "stranger", ("orders", 0): "billing", ("orders", 1): "stranger"}


def test_of_two_groups_unreadable_as_a_whole_the_first_by_name_is_the_cause(
    spark: SparkSessions,
) -> None:
    def another(world: Reading) -> None:
        world.groups["alien"] = replace(world.groups["search"], group_id="alien", failure=LOST)

    rows = decide(spark, changed(unreadable, another).snapshot())

    assert [row.binding_group for row in rows] == ["alien"] * 3


def test_every_reason_of_a_plan_has_a_case() -> None:
    assert {case.reason for case in CASES} | {Reason.GROUP_LIST_INCOMPLETE} == set(oracle.REASONS)


def test_the_largest_offset_that_there_can_be_breaks_nothing(spark: SparkSessions) -> None:
    """Groups go through the aggregates beside their offset, in one number."""
    world = changed(commit(LARGEST, "billing"), commit(LARGEST, "search"))
    by_partition = {(row.topic, row.partition): row for row in decide(spark, world.snapshot())}

    beyond = by_partition["orders", 0]
    assert (beyond.reason, beyond.min_committed_offset) == (Reason.COMMIT_BEYOND_END, LARGEST)
    assert beyond.binding_committed_offset == LARGEST
    assert beyond.binding_group in ("billing", "search")
    assert by_partition["orders", 1].reason is Reason.CONSUMED
