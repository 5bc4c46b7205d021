"""The plan on random evidence: Spark and the oracle agree on every row and every figure.

A run of Spark costs a third of a second whatever its size, so worlds are planned many at a
time, side by side in one snapshot. What reaches across worlds (a failed group without an
exclusion, an incomplete listing) is also tried on worlds of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from retentiond.config import NoPolicy
from retentiond.decide.plan import decide
from retentiond.model import PlanRow, Reason, Verdict
from retentiond.snapshot import Snapshot
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.builders.guard_readings import Reading
from tests.support.strategies import (
    HIDDEN,
    patterns_before,
    prefix,
    simpler,
    together,
    worlds,
    worse,
)
from tests.support.tiers import runs

pytestmark = pytest.mark.spark

WORLDS = runs(800, quick=20)  # other ones in each run
FIXED = runs(400, quick=280)  # the same in each run, so that no reason is missing by chance
SEED = 10  # of those that are the same: with it every reason comes up, in both tiers
AT_ONCE = runs(200, quick=80)
SPLITS_EVERY_BATCH = bool(runs(1, quick=0))  # into several tasks, or the first one alone
ALONE = 20


@dataclass
class Planned:
    """A world, and what was said of it among others; names and rows are the world's own."""

    world: Reading
    rows: list[PlanRow]  # Spark's
    expected: list[PlanRow]  # the oracle's
    hidden: tuple[str, ...]  # why groups may be hidden from all worlds of the run

    def alone(self) -> Snapshot:
        return seen_with(self.hidden, self.world)


def seen_with(hidden: tuple[str, ...], world: Reading) -> Snapshot:
    return replace(world.snapshot(), hidden=hidden)


def made_up(count: int, *, same: bool) -> list[Reading]:
    """That many worlds, the same in each run or others."""
    made: list[Reading] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds())
    def collect(world: Reading) -> None:
        made.append(world)

    (seed(SEED)(collect) if same else collect)()
    return made


def planned(spark: SparkSessions, snapshot: Snapshot) -> list[PlanRow]:
    """Spark's rows without their sentences and times: these worlds know none."""
    return [replace(row, detail=None, binding_since=None) for row in decide(spark, snapshot)]


def apart(number: int, rows: Sequence[PlanRow]) -> list[PlanRow]:
    """The rows of one world of many, under its own names."""
    mine = prefix(number)
    return [
        replace(
            row,
            topic=row.topic.removeprefix(mine),
            binding_group=row.binding_group and row.binding_group.removeprefix(mine),
            only_groups=row.only_groups and patterns_before(mine, row.only_groups),
        )
        for row in rows
        if row.topic.startswith(mine)
    ]


def smallest_difference(spark: SparkSessions, each: Planned) -> str:
    """The smallest world about which the two differ, and how, for a human to read."""
    world = each.world
    differs = True
    while differs:
        for less in simpler(world):
            snapshot = seen_with(each.hidden, less)
            if planned(spark, snapshot) != oracle.plan(snapshot):
                world = less
                break
        else:
            differs = False
    snapshot = seen_with(each.hidden, world)
    found, expected = planned(spark, snapshot), oracle.plan(snapshot)
    both = zip(found, expected, strict=True)
    pairs = [f"{one}\nnot\n{other}" for one, other in both if one != other]
    return "\n\n".join([f"In {world}\nSpark says", *pairs])


@pytest.fixture(scope="module")
def all_planned(spark: SparkSessions) -> list[Planned]:
    """Every world with Spark's rows. Those of a run are all complete, or all not."""
    made = made_up(WORLDS, same=False) + made_up(FIXED, same=True)
    made.sort(key=lambda world: bool(world.problems))
    first_incomplete = sum(not world.problems for world in made)
    found: list[Planned] = []
    for same in (made[:first_incomplete], made[first_incomplete:]):
        for start in range(0, len(same), AT_ONCE):
            batch = same[start : start + AT_ONCE]
            hidden = HIDDEN if start == AT_ONCE else ()  # the second run of those that are complete
            snapshot = seen_with(hidden, together(batch))
            rows, expected = planned(spark, snapshot), oracle.plan(snapshot)
            assert len(rows) == len(expected)
            if not start or SPLITS_EVERY_BATCH:
                with mock.patch("retentiond.decide.star_schema.FEW_COMMITS", 0):  # several tasks
                    assert planned(spark, snapshot) == rows
            found += [
                Planned(world, apart(number, rows), apart(number, expected), hidden)
                for number, world in enumerate(batch)
            ]
    return found


def test_spark_and_the_oracle_agree_on_many_worlds(
    spark: SparkSessions, all_planned: list[Planned]
) -> None:
    for each in all_planned:
        assert each.rows == each.expected, smallest_difference(spark, each)
    assert len(all_planned) == WORLDS + FIXED


def test_a_world_among_others_is_planned_as_if_it_were_alone(all_planned: list[Planned]) -> None:
    """Otherwise they would not be many snapshots, but a few.

    A topic without a policy is left out: it excludes nobody, so the failed groups of other worlds
    count there.
    """
    for each in all_planned:
        for among_others, alone in zip(each.expected, oracle.plan(each.alone()), strict=True):
            if among_others.reason not in {Reason.POLICY_CONFLICT, Reason.POLICY_UNREADABLE}:
                assert among_others == alone


def test_the_worlds_made_up_here_meet_every_reason(all_planned: list[Planned]) -> None:
    reasons = Counter(row.reason for each in all_planned for row in each.rows)

    print(f"{len(all_planned)} snapshots,", {str(key): n for key, n in reasons.most_common()})
    assert reasons.keys() == set(oracle.REASONS)
    assert len(oracle.REASONS) == 20
    assert reasons[Reason.CONSUMED] >= reasons.total() / 30  # it is a fifteenth, a bit more or less


def test_a_deletion_stays_below_every_bound_and_above_the_log_start(
    all_planned: list[Planned],
) -> None:
    deletions = 0
    for each in all_planned:
        at = {(key.topic, key.partition): key for key in each.world.partitions}
        for row in each.rows:
            if row.verdict is not Verdict.DELETE:
                assert row.records == 0
                continue
            deletions += 1
            here = at[row.topic, row.partition]
            reading = each.world.partitions[here]
            policy = each.world.topics[row.topic].policy
            assert not isinstance(policy, NoPolicy)
            own = {reader.name for reader in policy.external_readers}
            is_foreign = {
                group: reading.is_external and group not in own
                for group, reading in each.world.groups.items()
            }
            commits = {
                group: offset
                for (group, key), offset in each.world.commits.items()
                if key == here and (is_foreign[group] or oracle.counts(policy, group))
            }
            assert row.groups == len(commits)
            assert sum(not is_foreign[group] for group in commits) >= policy.min_groups
            for bound in (
                *commits.values(),
                reading.retention_offset,
                reading.last_stable_offset,
                reading.high_watermark,
            ):
                assert bound is not None
                assert row.cutoff is not None
                assert row.cutoff <= bound
            assert reading.log_start_offset is not None
            assert row.cutoff is not None
            assert row.cutoff > reading.log_start_offset
            assert row.records == row.cutoff - reading.log_start_offset
    assert deletions >= len(all_planned) / 24


@pytest.mark.thorough("a Spark job for each world")
def test_spark_and_the_oracle_agree_on_a_world_of_its_own(spark: SparkSessions) -> None:
    @settings(max_examples=ALONE, deadline=None, database=None)
    @given(worlds(), st.sampled_from([(), (), HIDDEN]))
    def compare(world: Reading, hidden: tuple[str, ...]) -> None:
        snapshot = seen_with(hidden, world)
        assert planned(spark, snapshot) == oracle.plan(snapshot)

    compare()


def test_an_empty_cluster_has_an_empty_plan(spark: SparkSessions) -> None:
    assert decide(spark, Reading().snapshot()) == ()


@settings(max_examples=runs(1000, quick=200), deadline=None)  # it runs none of the product
@given(st.data())
def test_less_evidence_never_deletes_more(data: st.DataObject) -> None:
    """Of the oracle, which Spark agrees with. Newcomers may lift a hold that wants more groups."""
    world = data.draw(worlds())
    poorer = seen_with(data.draw(st.sampled_from([(), HIDDEN])), data.draw(worse(world)))

    lifted = (Reason.NO_GROUP, Reason.TOO_FEW_GROUPS)
    for before, after in zip(oracle.plan(world.snapshot()), oracle.plan(poorer), strict=True):
        assert after.groups >= before.groups
        if after.verdict is not Verdict.DELETE or before.reason in lifted:
            continue
        assert before.verdict is Verdict.DELETE
        assert before.cutoff is not None
        assert after.cutoff is not None
        assert after.cutoff <= before.cutoff
