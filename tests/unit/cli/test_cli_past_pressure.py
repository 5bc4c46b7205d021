"""What `simulate` says of disk pressure."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders.filling_disks import OTHER, A, by_the_hour, growing, topics
from tests.support.builders.past_clusters import BEGIN, PastCluster, PastEntry
from tests.unit.cli.conftest import Command, KeptAnswer

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000

PRESSURE = """\
disk_pressure: {below_free: 20%, until_free: 30%}
"""

TOPICS = """\
kafka: {bootstrap.servers: "localhost:9092"}
topics:
  - name: orders
    retention.commitoffset.enable: true
    retention.commitoffset.hours: 100
    retention.commitoffset.pressure.ms: 0
  - name: views
    retention.commitoffset.enable: true
    retention.commitoffset.hours: 1
"""

Simulate = Callable[..., str]


@pytest.fixture
def simulate(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """One question, in each form of output."""
    monkeypatch.setattr("retentiond.cli.past.simulate.answered", KeptAnswer())

    def run(entries: list[PastEntry], config: str, *options: str) -> str:
        file = tmp_path / "retentiond.yaml"
        file.write_text(f"state_dir: {tmp_path / 'state'}\n{config}")
        if not (tmp_path / "state").exists():
            PastCluster(entries).write(tmp_path / "state" / "history")
        done = command("simulate", "--config", file, "--since", BEGIN.isoformat(), *options)
        assert done.code == 0, done.err
        return done.out

    return run


def said(text: str) -> list[str]:
    """The sentences about disk pressure."""
    return [each for each in text.splitlines() if each.startswith("disk pressure")]


def test_each_directory_is_told_with_its_times_and_all_records_that_went_sooner(
    simulate: Simulate,
) -> None:
    usable = {A: [500, 100, 250, 400, 100], OTHER: [500] * 5}
    entries = by_the_hour(usable, topics(growing("orders", A, OTHER)))

    found = json.loads(simulate(entries, PRESSURE + TOPICS, "--output", "json"))

    assert found["disk_pressure"] == [
        {
            "broker": 1,
            "log_dir": "/a",
            "under_pressure_ms": 3 * HOUR_MS,
            "times": [
                {"from": "2026-03-01T01:00:00.000Z", "until": "2026-03-01T03:00:00.000Z"},
                {"from": "2026-03-01T04:00:00.000Z", "until": None},
            ],
        },
        {"broker": 2, "log_dir": "/a", "under_pressure_ms": 0, "times": []},
    ]
    (orders,) = found["topics"]
    assert orders["simulated_records_sooner"] == 500
    assert found["total"]["simulated_records_sooner"] == 500
    assert said(simulate(entries, PRESSURE + TOPICS)) == [
        "disk pressure: /a of broker 1: 2 times, 3 hours altogether, from 2026-03-01T01:00:00.000Z "
        "to the end",
        "disk pressure: 500 records at most would have gone sooner",
    ]


@pytest.mark.thorough("a replay of its own")
def test_topics_that_are_not_asked_about_free_the_disk_too(simulate: Simulate) -> None:
    entries = by_the_hour(
        {A: [500, 400, 250, 150]}, topics(growing("orders", A), growing("views", A))
    )

    text = simulate(entries, PRESSURE + TOPICS, "--topic", "orders")

    assert said(text) == ["disk pressure: no log directory would have been under pressure"]


@pytest.mark.thorough("a replay of its own")
def test_without_a_record_of_the_disks_that_is_said(simulate: Simulate) -> None:
    entries = by_the_hour({A: [None, None]}, topics(growing("orders", A)))

    assert said(simulate(entries, PRESSURE + TOPICS)) == [
        "disk pressure: the history does not tell how full the disks were, so none is simulated"
    ]
    found = json.loads(simulate(entries, PRESSURE + TOPICS, "--output", "json"))
    assert (found["disk_pressure"], found["total"]["simulated_records_sooner"]) == ([], None)


@pytest.mark.thorough("a replay of its own")
@pytest.mark.parametrize(
    "options",
    [("--topic", "views"), ("--under-pressure",)],
    ids=["no pressure retention", "all the time"],
)
def test_where_nothing_asks_for_it_no_pressure_is_simulated(
    simulate: Simulate, options: tuple[str, ...]
) -> None:
    entries = by_the_hour({A: [100, 100]}, topics(growing("orders", A), growing("views", A)))

    text = simulate(entries, PRESSURE + TOPICS, *options, "--output", "json")

    found: dict[str, Any] = json.loads(text)

    assert found["disk_pressure"] is None
    assert found["total"]["simulated_records_sooner"] is None
