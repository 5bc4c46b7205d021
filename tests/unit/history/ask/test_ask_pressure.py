"""What disk pressure would have deleted in pasts made by hand: an entry an hour, and disks of 1,000
bytes that are under pressure below 200 and until 300."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retentiond.config import TopicPolicy
from retentiond.config.disk_pressure import DiskPressure
from retentiond.history.ask.past import history_at, open_past
from retentiond.history.ask.pressure import times_under_pressure
from retentiond.history.ask.question import questions
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.simulate import Simulation, simulate
from retentiond.spark.session import SparkSessions
from tests.support.builders.filling_disks import (
    HOUR_MS,
    OTHER,
    TOTAL,
    A,
    B,
    by_the_hour,
    growing,
    topics,
)
from tests.support.builders.past_clusters import (
    BEGIN,
    PastCluster,
    PastEntry,
    commit_row,
    deletion_row,
    log_dirs,
    partition_row,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

BEGIN_MS = int(BEGIN.timestamp() * 1000)
RULES = DiskPressure.model_validate({"below_free": "20%", "until_free": "30%"})


def policy(hours: int, pressure_hours: int | None = None) -> TopicPolicy:
    pressure_ms = None if pressure_hours is None else pressure_hours * HOUR_MS
    return TopicPolicy(
        enabled=True, consumed_retention_ms=hours * HOUR_MS, pressure_retention_ms=pressure_ms
    )


class Asked:
    """A question about a past that is written to a folder."""

    def __init__(self, spark: SparkSessions, folder: Path) -> None:
        self.spark = spark
        self.folder = folder

    def __call__(self, entries: list[PastEntry], **policies: TopicPolicy) -> Simulation:
        PastCluster(entries).write(self.folder / "past")
        past = open_past(
            history_at(self.folder / "past"), "local[2]", BEGIN_MS, BEGIN_MS + 10**9, 0
        )
        with self.spark.use() as session:
            asked = questions(policies, policies.get, policies.get)
            replay = Replay(past, session, asked)
            return simulate(replay, times_under_pressure(replay, RULES))


@pytest.fixture
def simulated(spark: SparkSessions, tmp_path: Path) -> Asked:
    return Asked(spark, tmp_path)


def times(found: Simulation) -> dict[tuple[int, str], list[tuple[int, int]]]:
    return {
        (each.broker, each.log_dir): [(first, last) for first, last in each.times]
        for each in found.pressure or ()
    }


def sooner(found: Simulation) -> dict[str, int]:
    return {each.topic: each.simulated_records_sooner for each in found.topics}


def test_while_a_log_directory_fills_records_go_by_the_pressure_retention(
    simulated: Asked,
) -> None:
    entries = by_the_hour({A: [500, 400, 200, 190, 150, 100]}, topics(growing("orders", A)))

    found = simulated(entries, orders=policy(100, 0))

    assert times(found) == {A: [(3, 5)]}
    (orders,) = found.topics
    assert (orders.simulated_records_deleted, orders.simulated_records_sooner) == (600, 600)
    assert found.total.simulated_records_sooner == 600
    assert orders.simulated_peak_bytes == 400  # of the hour in which the pressure begins
    assert orders.peak_bytes == 600


def test_a_pressure_retention_is_kept(simulated: Asked) -> None:
    entries = by_the_hour({A: [500, 400, 200, 190, 150, 100]}, topics(growing("orders", A)))

    found = simulated(entries, orders=policy(100, 2))

    assert sooner(found) == {"orders": 400}  # what was there in the hour before the last two


def test_what_the_consumed_retention_deletes_in_the_same_hour_is_not_sooner(
    simulated: Asked,
) -> None:
    entries = by_the_hour(
        {A: [500, 400, 150, 150, 400, 400]}, topics(growing("orders", A, size_bytes=1))
    )

    found = simulated(entries, orders=policy(2, 0))

    assert times(found) == {A: [(2, 3)]}
    (orders,) = found.topics
    # At 2:00 all 300 go, and 100 of them would have anyway; at 3:00 the next 100.
    assert orders.simulated_records_sooner == 200 + 100
    assert orders.simulated_records_deleted == 400  # at the end 400 are two hours old


def test_between_its_lines_a_directory_is_as_it_was(simulated: Asked) -> None:
    usable = [190, 250, 299, 300, 250, 200, 199, 300, 199]
    entries = by_the_hour({A: usable}, topics(growing("orders", A)))

    found = simulated(entries, orders=policy(100, 0))

    assert times(found) == {A: [(0, 2), (6, 6), (8, 8)]}
    assert sooner(found) == {"orders": 900}


def test_only_topics_of_that_directory_lose_records(simulated: Asked) -> None:
    usable = {A: [500, 100], B: [900, 800]}
    entries = by_the_hour(usable, topics(growing("orders", A), growing("views", B)))

    found = simulated(entries, orders=policy(100, 0), views=policy(100, 0))

    assert times(found) == {A: [(1, 1)], B: []}
    assert sooner(found) == {"orders": 200, "views": 0}


def test_of_two_replicas_one_under_pressure_is_enough(simulated: Asked) -> None:
    usable = {A: [500, 500], OTHER: [500, 100]}
    entries = by_the_hour(
        usable, topics(growing("orders", A, OTHER), growing("views", A), growing("clicks", OTHER))
    )

    found = simulated(entries, orders=policy(100, 0), views=policy(100, 0), clicks=policy(100))

    assert times(found) == {A: [], OTHER: [(1, 1)]}
    assert sooner(found) == {"clicks": 0, "orders": 200, "views": 0}


def test_where_its_directories_are_not_known_any_directory_counts(simulated: Asked) -> None:
    usable = {A: [500, 500], OTHER: [500, 100]}
    entries = by_the_hour(usable, topics(growing("orders"), growing("views", A)))

    found = simulated(entries, orders=policy(100, 0), views=policy(100, 0))

    assert sooner(found) == {"orders": 200, "views": 0}


def test_without_a_record_of_the_disks_there_is_no_pressure(simulated: Asked) -> None:
    entries = by_the_hour({A: [None, None]}, topics(growing("orders", A)))

    found = simulated(entries, orders=policy(100, 0))

    assert found.pressure == ()
    assert sooner(found) == {"orders": 0}


@pytest.mark.parametrize("odd", [None, -1, TOTAL + 1])
def test_a_moment_that_does_not_tell_ends_no_pressure(simulated: Asked, odd: int | None) -> None:
    entries = by_the_hour({A: [100, odd, 250, odd, 350, odd, 250]}, topics(growing("orders", A)))

    found = simulated(entries, orders=policy(100, 0))

    assert times(found) == {A: [(0, 2)]}
    assert sooner(found) == {"orders": 300}


def test_what_the_policy_frees_is_free(simulated: Asked) -> None:
    """The record keeps all; of what is older than an hour each replica has a half."""
    usable = {A: [500, 400, 250, 150, 49, 0], OTHER: [500, 400, 250, 150, 50, 0]}
    entries = by_the_hour(usable, topics(growing("orders", A, OTHER)))

    found = simulated(entries, orders=policy(1, 0))

    # From 2:00 on 100 more bytes are freed each hour: 199 and 200 are left in A at the end.
    assert times(found) == {A: [(4, 5)], OTHER: []}


def test_what_the_policy_keeps_is_not_free(simulated: Asked) -> None:
    """The record has 200 records deleted, and their segment is gone at 2:00."""

    def orders(hour: int) -> list[dict[str, Any]]:
        end, start = 100 * (hour + 1), 200 if hour == 2 else 0
        row = partition_row(
            "orders",
            high_watermark=end,
            log_start_offset=start,
            size_bytes=end - start,
            log_dirs=log_dirs(A),
        )
        return [row, *([deletion_row("orders", 0, 200)] if hour == 2 else ())]

    found = simulated(by_the_hour({A: [500, 400, 350]}, orders), orders=policy(100, 0))

    assert times(found) == {A: [(2, 2)]}  # 150 would have been left
    assert sooner(found) == {"orders": 300}


def test_what_is_freed_in_one_directory_is_free_in_all_of_its_disk(simulated: Asked) -> None:
    """Of broker 1 both lie on one disk, and what is usable differs by a byte."""
    usable = {
        A: [500, 400, 250, 150],
        B: [500, 400, 250, 151],
        OTHER: [500, 400, 250, 150],
    }
    entries = by_the_hour(usable, topics(growing("orders", A)))

    found = simulated(entries, orders=policy(1, 0))

    assert times(found) == {A: [], B: [], OTHER: [(3, 3)]}


def test_what_is_not_known_of_a_partition_is_as_it_was_last(simulated: Asked) -> None:
    def orders(hour: int) -> list[dict[str, Any]]:
        row = growing("orders", A)(hour)
        return [{**row, "size_bytes": None, "log_dirs": None} if hour == 3 else row]

    found = simulated(by_the_hour({A: [500, 400, 250, 150]}, orders), orders=policy(1, 0))

    assert times(found) == {A: []}  # 100 bytes are freed by 2:00


def test_a_reader_may_have_missed_records_only_because_of_pressure(simulated: Asked) -> None:
    """At 3:00 it goes back to what it has read at 1:00, and that went at 2:00."""

    def orders(hour: int) -> list[dict[str, Any]]:
        committed = 150 if hour == 3 else 100 * (hour + 1)
        row = growing("orders", A, min_committed_offset=committed)(hour)
        return [row, commit_row("billing", "orders", 0, committed)]

    entries = by_the_hour({A: [500, 500, 100, 500]}, orders)

    pressed = simulated(entries, orders=policy(100, 0))

    (lost,) = pressed.total.missed
    assert (lost.group, lost.committed_offset, lost.log_start_offset) == ("billing", 150, 300)
    assert lost.records == 150


def test_without_a_pressure_retention_that_reader_misses_nothing(simulated: Asked) -> None:
    def orders(hour: int) -> list[dict[str, Any]]:
        committed = 150 if hour == 3 else 100 * (hour + 1)
        row = growing("orders", A, min_committed_offset=committed)(hour)
        return [row, commit_row("billing", "orders", 0, committed)]

    found = simulated(by_the_hour({A: [500, 500, 100, 500]}, orders), orders=policy(100))

    assert found.total.missed == ()
    assert times(found) == {A: [(2, 2)]}


def test_what_nobody_has_read_stays_under_pressure(simulated: Asked) -> None:
    entries = by_the_hour({A: [500, 100]}, topics(growing("orders", A, min_committed_offset=30)))

    assert sooner(simulated(entries, orders=policy(100, 0))) == {"orders": 30}


def test_a_consumed_retention_beyond_the_forced_one_holds_under_pressure_too(
    simulated: Asked,
) -> None:
    """As the daemon does: the hold tells that the policy is wrong."""
    entries = by_the_hour(
        {A: [500, 100]}, topics(growing("orders", A, forced_retention_ms=50 * HOUR_MS))
    )

    assert sooner(simulated(entries, orders=policy(100, 0))) == {"orders": 0}


def test_pressure_never_keeps_a_record_for_longer(simulated: Asked) -> None:
    """A change on the command line may leave a pressure retention that is longer."""
    entries = by_the_hour({A: [100, 0, 0]}, topics(growing("orders", A)))

    found = simulated(entries, orders=policy(1, 2))

    (orders,) = found.topics
    assert (orders.simulated_records_deleted, orders.simulated_records_sooner) == (200, 0)


def test_many_retentions_are_looked_up_together(simulated: Asked) -> None:
    """Nine topics with eighteen retentions, which are more than a pass takes."""
    names = [f"topic{number}" for number in range(9)]
    entries = by_the_hour({A: [100] * 12}, topics(*(growing(name, A) for name in names)))
    policies = {name: policy(100 + at, at) for at, name in enumerate(names)}

    found = simulated(entries, **policies)

    assert sooner(found) == {name: 100 * (12 - at) for at, name in enumerate(names)}
