"""What disk pressure would have deleted in pasts made by hand: an entry an hour, and disks of 1,000
bytes that are under pressure below 200 and until 300.

A question costs seconds whatever its size. So each scene has brokers and topics of its own in one
history, in its last hours, and all of them are asked about at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from retentiond.config import TopicPolicy
from retentiond.config.disk_pressure import DiskPressure
from retentiond.history.ask.missed import Missed
from retentiond.history.ask.past import history_at, open_past
from retentiond.history.ask.pressure import times_under_pressure
from retentiond.history.ask.question import questions
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.simulate import SimulatedTopic, simulate
from retentiond.spark.session import SparkSessions
from tests.support.builders.filling_disks import (
    HOUR_MS,
    OTHER,
    TOTAL,
    A,
    B,
    Usable,
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
    entry_of_hour,
    log_dirs,
    partition_row,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

BEGIN_MS = int(BEGIN.timestamp() * 1000)
RULES = DiskPressure.model_validate({"below_free": "20%", "until_free": "30%"})

Rows = Callable[[int], list[dict[str, Any]]]


def policy(hours: int, pressure_hours: int | None = None) -> TopicPolicy:
    pressure_ms = None if pressure_hours is None else pressure_hours * HOUR_MS
    return TopicPolicy(
        enabled=True, consumed_retention_ms=hours * HOUR_MS, pressure_retention_ms=pressure_ms
    )


@dataclass(frozen=True)
class Scene:
    entries: list[PastEntry]
    policies: Mapping[str, TopicPolicy]


@dataclass
class Found:
    """What is found of a scene: its directories' times under pressure in hours, its topics, and
    what their readers missed."""

    times: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)
    topics: dict[str, SimulatedTopic] = field(default_factory=dict)
    missed: list[Missed] = field(default_factory=list)

    @property
    def sooner(self) -> dict[str, int]:
        return {name: each.simulated_records_sooner for name, each in self.topics.items()}


SCENES: list[Scene] = []


def scene(usable: Usable, rows: Rows, **policies: TopicPolicy) -> int:
    """Its number."""
    SCENES.append(Scene(by_the_hour(usable, rows), policies))
    return len(SCENES) - 1


def moved(row: dict[str, Any], number: int) -> dict[str, Any]:
    """Of the scene's own topics and brokers."""
    changes: dict[str, Any] = {}
    if "topic" in row:
        changes["topic"] = f"{number}.{row['topic']}"
    if "broker" in row:
        changes["broker"] = row["broker"] + 10 * number
    if row.get("log_dirs"):
        held = (each.split(":") for each in json.loads(row["log_dirs"]))
        changes["log_dirs"] = log_dirs(*((int(at) + 10 * number, path) for at, path in held))
    return row | changes


def asked(spark: SparkSessions, folder: Path, scenes: Iterable[Scene]) -> list[Found]:
    """One question about all of them, whose last entries are the same."""
    scenes = list(scenes)
    length = max(len(each.entries) for each in scenes)
    entries = [entry_of_hour(hour, []) for hour in range(length)]
    policies: dict[str, TopicPolicy] = {}
    for number, each in enumerate(scenes):
        for entry, own in zip(entries[-len(each.entries) :], each.entries, strict=True):
            entry.rows += [moved(row, number) for row in own.rows]
        policies |= {f"{number}.{topic}": tried for topic, tried in each.policies.items()}
    PastCluster(entries).write(folder)
    past = open_past(history_at(folder), "local[2]", BEGIN_MS, BEGIN_MS + 10**9, 0)
    with spark.use() as session:
        replay = Replay(past, session, questions(policies, policies.get, policies.get))
        pressure = times_under_pressure(replay, RULES)
        simulation = simulate(replay, pressure)
    found = [Found() for _ in scenes]
    for log_dir in pressure:
        number, broker = divmod(log_dir.broker, 10)
        before = length - len(scenes[number].entries)
        found[number].times[broker, log_dir.log_dir] = [
            (first - before, last - before) for first, last in log_dir.times
        ]
    for topic in simulation.topics:
        text, _, name = topic.topic.partition(".")
        found[int(text)].topics[name] = topic
        found[int(text)].missed += topic.missed
    return found


@pytest.fixture(scope="module")
def found(spark: SparkSessions, tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    """Of all scenes, by number."""
    return asked(spark, tmp_path_factory.mktemp("past"), SCENES)


FILLING = {A: [500, 400, 200, 190, 150, 100]}
AT_ONCE = scene(FILLING, topics(growing("orders", A)), orders=policy(100, 0))


def test_while_a_log_directory_fills_records_go_by_the_pressure_retention(
    found: list[Found],
) -> None:
    assert found[AT_ONCE].times == {A: [(3, 5)]}
    orders = found[AT_ONCE].topics["orders"]
    assert (orders.simulated_records_deleted, orders.simulated_records_sooner) == (600, 600)
    assert orders.simulated_peak_bytes == 400  # of the hour in which the pressure begins
    assert orders.peak_bytes == 600


TWO_HOURS = scene(FILLING, topics(growing("orders", A)), orders=policy(100, 2))


def test_a_pressure_retention_is_kept(found: list[Found]) -> None:
    assert found[TWO_HOURS].sooner == {"orders": 400}  # what was there before the last two hours


SAME_HOUR = scene(
    {A: [500, 400, 150, 150, 400, 400]},
    topics(growing("orders", A, size_bytes=1)),
    orders=policy(2, 0),
)


def test_what_the_consumed_retention_deletes_in_the_same_hour_is_not_sooner(
    found: list[Found],
) -> None:
    assert found[SAME_HOUR].times == {A: [(2, 3)]}
    orders = found[SAME_HOUR].topics["orders"]
    # At 2:00 all 300 go, and 100 of them would have anyway; at 3:00 the next 100.
    assert orders.simulated_records_sooner == 200 + 100
    assert orders.simulated_records_deleted == 400  # at the end 400 are two hours old


BETWEEN = scene(
    {A: [190, 250, 299, 300, 250, 200, 199, 300, 199]},
    topics(growing("orders", A)),
    orders=policy(100, 0),
)


def test_between_its_lines_a_directory_is_as_it_was(found: list[Found]) -> None:
    assert found[BETWEEN].times == {A: [(0, 2), (6, 6), (8, 8)]}
    assert found[BETWEEN].sooner == {"orders": 900}


ONE_OF_TWO = scene(
    {A: [500, 100], B: [900, 800]},
    topics(growing("orders", A), growing("views", B)),
    orders=policy(100, 0),
    views=policy(100, 0),
)


def test_only_topics_of_that_directory_lose_records(found: list[Found]) -> None:
    assert found[ONE_OF_TWO].times == {A: [(1, 1)], B: []}
    assert found[ONE_OF_TWO].sooner == {"orders": 200, "views": 0}


REPLICA = scene(
    {A: [500, 500], OTHER: [500, 100]},
    topics(growing("orders", A, OTHER), growing("views", A), growing("clicks", OTHER)),
    orders=policy(100, 0),
    views=policy(100, 0),
    clicks=policy(100),
)


def test_of_two_replicas_one_under_pressure_is_enough(found: list[Found]) -> None:
    assert found[REPLICA].times == {A: [], OTHER: [(1, 1)]}
    assert found[REPLICA].sooner == {"clicks": 0, "orders": 200, "views": 0}


def test_where_its_directories_are_not_known_any_directory_counts(
    spark: SparkSessions, tmp_path: Path
) -> None:
    rows = topics(growing("orders"), growing("views", A))
    entries = by_the_hour({A: [500, 500], OTHER: [500, 100]}, rows)
    policies = {"orders": policy(100, 0), "views": policy(100, 0)}
    (found,) = asked(spark, tmp_path, [Scene(entries, policies)])
    assert found.sooner == {"orders": 200, "views": 0}


UNKNOWN = scene({A: [None, None]}, topics(growing("orders", A)), orders=policy(100, 0))


def test_without_a_record_of_the_disks_there_is_no_pressure(found: list[Found]) -> None:
    assert found[UNKNOWN].times == {}
    assert found[UNKNOWN].sooner == {"orders": 0}


ODD = [
    scene(
        {A: [100, odd, 250, odd, 350, odd, 250]},
        topics(growing("orders", A)),
        orders=policy(100, 0),
    )
    for odd in (None, -1, TOTAL + 1)
]


@pytest.mark.parametrize("number", ODD)
def test_a_moment_that_does_not_tell_ends_no_pressure(found: list[Found], number: int) -> None:
    assert found[number].times == {A: [(0, 2)]}
    assert found[number].sooner == {"orders": 300}


FREED = scene(
    {A: [500, 400, 250, 150, 49, 0], OTHER: [500, 400, 250, 150, 50, 0]},
    topics(growing("orders", A, OTHER)),
    orders=policy(1, 0),
)


def test_what_the_policy_frees_is_free(found: list[Found]) -> None:
    """The record keeps all; of what is older than an hour each replica has a half."""
    # From 2:00 on 100 more bytes are freed each hour: 199 and 200 are left in A at the end.
    assert found[FREED].times == {A: [(4, 5)], OTHER: []}


def deleted_at_two(hour: int) -> list[dict[str, Any]]:
    """The record has 200 records deleted, and their segment is gone at 2:00."""
    end, start = 100 * (hour + 1), 200 if hour == 2 else 0
    figures: dict[str, Any] = {
        "log_start_offset": start,
        "size_bytes": end - start,
        "log_dirs": log_dirs(A),
    }
    row = partition_row("orders", high_watermark=end, **figures)
    return [row, *([deletion_row("orders", 0, 200)] if hour == 2 else ())]


KEPT = scene({A: [500, 400, 350]}, deleted_at_two, orders=policy(100, 0))


def test_what_the_policy_keeps_is_not_free(found: list[Found]) -> None:
    assert found[KEPT].times == {A: [(2, 2)]}  # 150 would have been left
    assert found[KEPT].sooner == {"orders": 300}


ONE_DISK = scene(
    {A: [500, 400, 250, 150], B: [500, 400, 250, 151], OTHER: [500, 400, 250, 150]},
    topics(growing("orders", A)),
    orders=policy(1, 0),
)


def test_what_is_freed_in_one_directory_is_free_in_all_of_its_disk(found: list[Found]) -> None:
    """Of broker 1 both lie on one disk, and what is usable differs by a byte."""
    assert found[ONE_DISK].times == {A: [], B: [], OTHER: [(3, 3)]}


def silent_at_three(hour: int) -> list[dict[str, Any]]:
    row = growing("orders", A)(hour)
    return [{**row, "size_bytes": None, "log_dirs": None} if hour == 3 else row]


SILENT = scene({A: [500, 400, 250, 150]}, silent_at_three, orders=policy(1, 0))


def test_what_is_not_known_of_a_partition_is_as_it_was_last(found: list[Found]) -> None:
    assert found[SILENT].times == {A: []}  # 100 bytes are freed by 2:00


def back_at_three(hour: int) -> list[dict[str, Any]]:
    """The reader goes back at 3:00 to what it has read at 1:00, and that went at 2:00."""
    committed = 150 if hour == 3 else 100 * (hour + 1)
    row = growing("orders", A, min_committed_offset=committed)(hour)
    return [row, commit_row("billing", "orders", 0, committed)]


WENT_BACK = {A: [500, 500, 100, 500]}
PRESSED = scene(WENT_BACK, back_at_three, orders=policy(100, 0))
UNPRESSED = scene(WENT_BACK, back_at_three, orders=policy(100))


def test_a_reader_may_have_missed_records_only_because_of_pressure(found: list[Found]) -> None:
    (lost,) = found[PRESSED].missed
    assert (lost.group, lost.committed_offset, lost.log_start_offset) == ("billing", 150, 300)
    assert lost.records == 150

    assert found[UNPRESSED].missed == []
    assert found[UNPRESSED].times == {A: [(2, 2)]}


UNREAD = scene(
    {A: [500, 100]}, topics(growing("orders", A, min_committed_offset=30)), orders=policy(100, 0)
)


def test_what_nobody_has_read_stays_under_pressure(found: list[Found]) -> None:
    assert found[UNREAD].sooner == {"orders": 30}


BEYOND = scene(
    {A: [500, 100]},
    topics(growing("orders", A, forced_retention_ms=50 * HOUR_MS)),
    orders=policy(100, 0),
)


def test_a_consumed_retention_beyond_the_forced_one_holds_under_pressure_too(
    found: list[Found],
) -> None:
    """As the daemon does: the hold tells that the policy is wrong."""
    assert found[BEYOND].sooner == {"orders": 0}


LONGER = scene({A: [100, 0, 0]}, topics(growing("orders", A)), orders=policy(1, 2))


def test_pressure_never_keeps_a_record_for_longer(found: list[Found]) -> None:
    """A change on the command line may leave a pressure retention that is longer."""
    orders = found[LONGER].topics["orders"]
    assert (orders.simulated_records_deleted, orders.simulated_records_sooner) == (200, 0)


NAMES = [f"topic{number}" for number in range(9)]
MANY = scene(
    {A: [100] * 12},
    topics(*(growing(name, A) for name in NAMES)),
    **{name: policy(100 + at, at) for at, name in enumerate(NAMES)},
)


def test_many_retentions_are_looked_up_together(found: list[Found]) -> None:
    """Nine topics with eighteen retentions, which are more than a pass takes."""
    assert found[MANY].sooner == {name: 100 * (12 - at) for at, name in enumerate(NAMES)}
