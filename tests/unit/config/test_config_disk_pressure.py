"""What a file says about disks that run full, and what it means."""

from __future__ import annotations

import pytest

from retentiond.config import PolicyConflict
from retentiond.config.differences import differences
from retentiond.formatting import HOUR_MS, MINUTE_MS
from tests.unit.config.files import MINIMAL, parsed, policy_of

ENABLED = """
topics:
  - name: orders
    retention.commitoffset.enable: true
    retention.commitoffset.hours: 24
"""
PRESSURE = "disk_pressure: {below_free: 20%, until_free: 25%}\n"
SOON = "    retention.commitoffset.pressure.minutes: 10\n"


def pressure_retention(text: str, topic: str = "orders") -> int | None:
    return policy_of(parsed(MINIMAL + text), topic).pressure_retention_ms


def test_any_unit_says_it_and_the_finest_in_one_place_counts() -> None:
    assert pressure_retention(ENABLED) is None
    assert pressure_retention(ENABLED + SOON) == 10 * MINUTE_MS
    hours = "    retention.commitoffset.pressure.hours: 2\n"
    assert pressure_retention(ENABLED + hours) == 2 * HOUR_MS
    assert pressure_retention(ENABLED + hours + SOON) == 10 * MINUTE_MS
    assert pressure_retention(f"{ENABLED}{SOON}    retention.commitoffset.pressure.ms: 0\n") == 0


def test_defaults_have_it_too_and_a_topic_beats_them() -> None:
    defaults = "defaults: {retention.commitoffset.pressure.hours: 1}"
    assert pressure_retention(defaults + ENABLED) == HOUR_MS
    assert pressure_retention(defaults + ENABLED + SOON) == 10 * MINUTE_MS


def test_patterns_that_differ_in_it_are_a_conflict() -> None:
    pattern = ENABLED.replace("name: orders", "pattern: ord.*")
    other = SOON.join([pattern.removeprefix("\ntopics:\n"), ""]).replace("ord.*", ".*ders")
    config = parsed(MINIMAL + pattern + other)
    assert isinstance(config.policy_for("orders"), PolicyConflict)


def test_pressure_is_heeded_where_both_halves_of_it_are_said() -> None:
    assert parsed(MINIMAL + PRESSURE + ENABLED + SOON).heeds_pressure
    assert not parsed(MINIMAL + PRESSURE + ENABLED).heeds_pressure
    assert not parsed(MINIMAL + ENABLED + SOON).heeds_pressure
    off = (ENABLED + SOON).replace("enable: true", "enable: false")
    assert not parsed(MINIMAL + PRESSURE + off).heeds_pressure


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [("interval: 5m", 30), ("interval: 10s", 10), ("interval: 5m, pressure_interval: 2m", 120)],
)
def test_cycles_come_sooner_under_pressure_and_never_later(schedule: str, seconds: int) -> None:
    config = parsed(f"{MINIMAL}\nschedule: {{{schedule}}}\n{ENABLED}")
    assert config.schedule.under_pressure_ms == seconds * 1000


def test_a_review_says_what_a_change_does_to_records() -> None:
    texts = {
        "none": ENABLED,
        "soon": PRESSURE + ENABLED + SOON,
        "later": PRESSURE + ENABLED + SOON.replace("10", "20"),
        "fuller": PRESSURE.replace("20%", "10%") + ENABLED + SOON,
    }
    configs = {name: parsed(MINIMAL + text) for name, text in texts.items()}

    def changes(before: str, after: str) -> list[tuple[object, ...]]:
        found = differences(configs[before], configs[after])
        return [(each.setting, each.before, each.after, each.effect.value) for each in found]

    minutes = "retention.commitoffset.pressure.minutes"
    assert changes("soon", "later") == [(minutes, 10, 20, "later")]
    assert changes("soon", "fuller") == [("disk_pressure.below_free", "20%", "10%", "later")]
    assert (minutes, None, 10, "sooner") in changes("none", "soon")
    assert ("disk_pressure.until_free", None, "25%", "sooner") in changes("none", "soon")
    assert ("disk_pressure.below_free", "20%", None, "later") in changes("soon", "none")
