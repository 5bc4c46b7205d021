"""Whose the memory is, what time does to it, and who joins it late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.clock import Uptime, elapsed_ms, uptime
from retentiond.errors import StateOfOtherCluster
from retentiond.memory.changes import changes
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import Failure
from retentiond.snapshot import Snapshot
from retentiond.state.audit import Audit
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_lookup import recall
from retentiond.state.state import open_state
from tests.support.builders.gather_worlds import CLICKS_0, ORDERS_0, healthy, second_snapshot
from tests.support.builders.group_memories import BILLING, cycle, remember, taken
from tests.support.fakes import FakeCluster
from tests.unit.state.test_state_audit import CYCLE

HOUR_MS = 3_600_000


@pytest.fixture
def kafka() -> FakeCluster:
    return healthy()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[GroupMemory]:
    with closing(GroupMemory.open(tmp_path)) as memory:
        yield memory


# Whose it is


def another(kafka: FakeCluster) -> FakeCluster:
    kafka.id = "another-cluster"
    return kafka


def test_the_memory_is_of_the_first_cluster_that_it_sees(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    assert memory.recall().cluster_id is None
    cycle(memory, kafka)
    assert memory.recall().cluster_id == kafka.id
    with pytest.raises(StateOfOtherCluster, match=f"to cluster {kafka.id}, .* another-cluster"):
        cycle(memory, another(healthy()))


def test_another_clusters_snapshot_is_not_remembered(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    cycle(memory, kafka)
    before = memory.recall()
    elsewhere = another(healthy())
    elsewhere.delete_group("billing")
    snapshot = taken(elsewhere)
    with pytest.raises(StateOfOtherCluster, match="give each cluster a state_dir of its own"):
        remember(memory, snapshot, before)
    assert memory.recall() == before


@pytest.mark.parametrize(
    ("clusters", "whose"), [([], None), (["a"], "a"), (["a", "a"], "a"), (["a", "b"], None)]
)
def test_a_memory_that_no_cycle_has_filled_is_of_the_one_cluster_that_the_audit_log_names(
    tmp_path: Path, kafka: FakeCluster, clusters: list[str], whose: str | None
) -> None:
    GroupMemory.open(tmp_path).close()
    with closing(Audit.open(tmp_path)) as audit:
        for number, cluster in enumerate(clusters):
            record = replace(CYCLE, cycle_id=f"cycle-{number}", cluster_id=cluster)
            audit.record_cycle(record)
    assert recall(tmp_path).cluster_id == whose
    with open_state(tmp_path) as state:
        assert state.memory.recall().cluster_id == whose
        if whose is None:  # then of the first that it sees
            cycle(state.memory, kafka)
            assert state.memory.recall().cluster_id == kafka.id


# What time does


class Clock:
    def __init__(self, memory: GroupMemory) -> None:
        self.at = Uptime("a-boot", 0)
        memory.uptime = lambda: self.at

    def later(self, ms: int, boot_id: str = "a-boot") -> None:
        self.at = Uptime(boot_id, self.at.ms + ms)


def observe(memory: GroupMemory, kafka: FakeCluster, interval_ms: int = HOUR_MS) -> Snapshot:
    before = memory.recall()
    snapshot = taken(kafka, before)
    remember(memory, snapshot, before, interval_ms)
    return snapshot


def test_an_absence_lasts_as_long_as_it_was_observed_and_no_cycle_observes_more_than_its_interval(
    memory: GroupMemory, kafka: FakeCluster, tmp_path: Path
) -> None:
    clock = Clock(memory)
    observe(memory, kafka)
    kafka.delete_group("billing")

    def absent_ms() -> int:
        return memory.recall().commits[BILLING].absent_ms

    clock.later(HOUR_MS)
    observe(memory, kafka)
    assert absent_ms() == 0  # when it went, nobody saw
    clock.later(HOUR_MS // 2)
    observe(memory, kafka)
    assert absent_ms() == HOUR_MS // 2
    clock.later(99 * HOUR_MS)  # not_at_work, or stopped
    observe(memory, kafka)
    assert absent_ms() == HOUR_MS // 2 + HOUR_MS
    clock.later(HOUR_MS // 2, "another-boot")
    observe(memory, kafka)
    assert absent_ms() == HOUR_MS // 2 + HOUR_MS
    clock.later(HOUR_MS // 4, "another-boot")
    with closing(GroupMemory.open(tmp_path, shared=True)) as restarted:
        restarted.uptime = memory.uptime
        observe(restarted, kafka)
    assert absent_ms() == HOUR_MS // 2 + HOUR_MS + HOUR_MS // 4

    kafka.commit("billing", {ORDERS_0: 4})
    observe(memory, kafka)
    assert absent_ms() == 0


def test_an_incomplete_cycle_observes_nothing_and_adds_readers(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    clock = Clock(memory)
    observe(memory, kafka)
    kafka.delete_group("billing")
    observe(memory, kafka)
    kafka.join("late", ["orders"])
    kafka.may_describe_cluster = False
    clock.later(HOUR_MS)
    assert not observe(memory, kafka).complete
    known = memory.recall().commits
    assert known[BILLING].absent_ms == 0
    assert known[GroupOnTopic("late", "orders")].offsets == {}


def test_a_topic_that_is_gone_leaves_the_memory_after_a_day_and_not_before(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    """And what is back in time finds its readers waited for."""
    clock = Clock(memory)
    kafka.leave("search")  # a live member would wait for the topic
    observe(memory, kafka)

    def is_remembered_after(hours: int) -> bool:
        for _ in range(hours):
            clock.later(HOUR_MS)
            observe(memory, kafka)
        return BILLING in memory.recall().commits

    kafka.delete_topic("orders")
    assert is_remembered_after(23)
    kafka.create_topic("orders", 2)
    assert is_remembered_after(2)
    kafka.delete_topic("orders")
    assert is_remembered_after(24)
    assert not is_remembered_after(2)


def test_a_topic_that_can_not_be_seen_is_not_gone(memory: GroupMemory, kafka: FakeCluster) -> None:
    clock = Clock(memory)
    observe(memory, kafka)
    orders = kafka.topics.pop("orders")
    kafka.fail("describe_topics", "orders", Failure("TOPIC_AUTHORIZATION_FAILED", "not for you"))
    for _ in range(30):
        clock.later(HOUR_MS)
        assert observe(memory, kafka).gone_topics == frozenset()
    assert BILLING in memory.recall().commits
    kafka.topics["orders"] = orders


def test_the_clock_of_this_host_goes_on_and_names_its_boot() -> None:
    first, second = uptime(), uptime()
    assert first.boot_id == second.boot_id
    assert 0 <= elapsed_ms(first, second) < HOUR_MS
    assert elapsed_ms(second._replace(ms=second.ms + 1), second) == 0
    assert elapsed_ms(None, second) == elapsed_ms(Uptime("another", 0), second) == 0


# Who joins late


def test_who_is_new_in_the_second_reading_is_remembered_unless_somebody_let_go_of_him(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    observe(memory, kafka)
    before = memory.recall()
    kafka.join("early", ["orders"])
    first = taken(kafka, before)
    remember(memory, first, before)
    for group in ("early", "newcomer"):
        memory.forget(group)
    kafka.join("late", ["orders"])
    shown = changes(first, before, 1).new
    memory.remember_newcomers(taken(kafka, before), shown, before)
    groups = {at.group_id for at in memory.recall().commits}
    assert "late" in groups
    assert groups.isdisjoint({"early", "newcomer"})


def test_a_reading_that_is_about_another_topic_leaves_what_was_seen_of_this_one(
    memory: GroupMemory, kafka: FakeCluster
) -> None:
    """A cycle reads a part of its deletions at a time."""
    before = memory.recall()
    first = taken(kafka, before)
    remember(memory, first, before)
    known = memory.recall().commits
    shown = changes(first, before, 1).new
    kafka.commit("late", {ORDERS_0: 3, CLICKS_0: 1})
    for at in (ORDERS_0, CLICKS_0, ORDERS_0):
        second = second_snapshot(kafka, first, [at])
        before = memory.remember_newcomers(second, shown, before)

    found = memory.recall().commits
    late = {at: last for at, last in found.items() if at.group_id == "late"}
    assert {at.topic: last.offsets for at, last in late.items()} == {
        "orders": {0: 3},
        "clicks": {},  # that it reads it; the next cycle sees how far
    }
    assert found == {**known, **late}
