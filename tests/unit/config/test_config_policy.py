"""Which policy counts for a topic: levels, units, names, patterns, conflicts."""

from __future__ import annotations

import re

import pytest

from retentiond.config import Config, PolicyConflict, TopicPolicy
from retentiond.config.pattern import Pattern
from retentiond.config.policy import work_out_policies
from retentiond.config.rules import TopicEntry, TopicRules
from retentiond.errors import ConfigError
from tests.unit.config.files import MINIMAL, parsed, policy_of

HOUR_MS = 3_600_000
INT64_MAX = 2**63 - 1


def config_of(*entries: str, defaults: str = "{}") -> Config:
    """Entries and defaults in flow style; ``enable`` stands for the long key."""
    topics = "".join(f"  - {{{entry}}}\n" for entry in entries)
    text = f"defaults: {defaults}\ntopics:\n{topics}"
    return parsed(
        MINIMAL + re.sub(r"\b(enable|hours|minutes|ms):", r"retention.commitoffset.\1:", text)
    )


def test_what_nothing_sets_is_built_in() -> None:
    policy = policy_of(config_of("name: orders, enable: true"))
    assert policy == TopicPolicy(
        enabled=True,
        consumed_retention_ms=168 * HOUR_MS,
        required_groups=(),
        excluded=(),
        min_groups=1,
        allow_compacted=False,
    )
    assert policy.sources == ("topics[0]",)


@pytest.mark.parametrize(
    ("enable", "default", "enabled"),
    [
        ("", "", False),
        (", enable: false", "", False),
        ("", "enable: true", True),
        (", enable: false", "enable: true", False),
    ],
)
def test_an_entry_enables_or_disables_and_else_the_defaults_do(
    enable: str, default: str, enabled: bool
) -> None:
    config = config_of(f"name: orders{enable}", defaults=f"{{{default}}}")
    assert (config.policy_for("orders") is not None) is enabled


def test_a_topic_that_nothing_matches_has_no_policy() -> None:
    config = config_of("name: orders", "pattern: 'stage\\..*'", defaults="{enable: true}")
    for topic in ("order", "orders2", "Orders", "stage", "my.stage.a", "stage.a\n", ""):
        assert config.policy_for(topic) is None


@pytest.mark.parametrize(
    ("units", "ms"),
    [
        ("hours: 2", 2 * HOUR_MS),
        ("minutes: 3", 180_000),
        ("ms: 4", 4),
        ("hours: 2, minutes: 3", 180_000),
        ("hours: 2, minutes: 3, ms: 4", 4),
        ("hours: 2, ms: 0", 0),
        ("minutes: 0, hours: 2", 0),
        ("hours: 0", 0),
        (f"ms: {INT64_MAX}", INT64_MAX),
        (f"minutes: {INT64_MAX // 60_000}", INT64_MAX // 60_000 * 60_000),
        (f"hours: {INT64_MAX // HOUR_MS}", INT64_MAX // HOUR_MS * HOUR_MS),
    ],
)
def test_within_one_level_ms_beat_minutes_and_minutes_beat_hours(units: str, ms: int) -> None:
    config = config_of(f"name: orders, enable: true, {units}")
    assert policy_of(config).consumed_retention_ms == ms
    in_defaults = config_of("name: orders", defaults=f"{{enable: true, {units}}}")
    assert policy_of(in_defaults).consumed_retention_ms == ms


@pytest.mark.parametrize("unit", ["hours: 2", "minutes: 120", f"ms: {2 * HOUR_MS}"])
def test_any_unit_on_the_topic_beats_all_units_of_the_defaults(unit: str) -> None:
    config = config_of(
        f"name: orders, {unit}", defaults="{enable: true, ms: 7, minutes: 8, hours: 9}"
    )
    assert policy_of(config).consumed_retention_ms == 2 * HOUR_MS


@pytest.mark.parametrize(("unit", "unit_ms"), [("hours", HOUR_MS), ("minutes", 60_000), ("ms", 1)])
@pytest.mark.parametrize("value", ["-1", "1.5", "'1'", "1h", "null", "too long"])
def test_a_retention_that_is_none_is_refused(unit: str, unit_ms: int, value: str) -> None:
    written = str(INT64_MAX // unit_ms + 1) if value == "too long" else value
    with pytest.raises(ConfigError) as caught:
        config_of(f"name: orders, {unit}: {written}")
    assert caught.value.path == f"topics[0].retention.commitoffset.{unit}"


def test_groups_of_a_topic_beat_those_of_the_defaults_key_by_key() -> None:
    defaults = "{enable: true, groups: {required: [a, b], exclude: ['x.*'], min: 3}}"
    kept = policy_of(config_of("name: orders", defaults=defaults))
    assert (kept.required_groups, kept.min_groups) == (("a", "b"), 3)
    assert kept.excluded == (Pattern("x.*"),)

    changed = policy_of(
        config_of("name: orders, groups: {required: [], min: 1}", defaults=defaults)
    )
    assert (changed.required_groups, changed.min_groups) == ((), 1)
    assert changed.excluded == (Pattern("x.*"),)


def test_allow_compacted_is_inherited_and_can_be_taken_back() -> None:
    defaults = "{enable: true, allow_compacted: true}"
    assert policy_of(config_of("name: orders", defaults=defaults)).allow_compacted
    taken_back = config_of("name: orders, allow_compacted: false", defaults=defaults)
    assert not policy_of(taken_back).allow_compacted


CONSOLES = "exclude: ['console-.*', tmp]"
BOTH = "only: ['bill.*', web], exclude: [bill2]"
BROKEN = "only: ['line.*'], exclude: ['.*break', 'line2.*']"


@pytest.mark.parametrize(
    ("groups", "counting", "excluded"),
    [
        ("", ["search", ""], []),
        # A pattern has to match the whole group id.
        (CONSOLES, ["my-console-consumer", "tmp2", "tmp\n", ""], ["console-consumer-1", "tmp"]),
        # Of both, both have to let it count.
        (BOTH, ["billing", "web"], ["web2", "search", "bill2", ""]),
        ("only: ['.*']", ["line\nbreak", "\n", "a\r\n", "\u2028", "", "zero\0"], []),
        # A line break never leaves a group out.
        (BROKEN, ["line\nbreak"], ["line break"]),
        # A flag in one of the patterns holds for no other.
        ("only: ['(?i)bill|pay', 'web']", ["bill", "PAY", "web"], ["WEB", "Bill2"]),
    ],
)
def test_which_groups_count(groups: str, counting: list[str], excluded: list[str]) -> None:
    policy = policy_of(config_of(f"name: orders, enable: true, groups: {{{groups}}}"))
    names = [*counting, *excluded]
    assert [group for group in names if policy.excludes(group)] == excluded
    assert policy.counts_everybody is (not groups)
    if "(?i)" in groups and policy.only_groups:
        told = Pattern(policy.only_groups)
        assert [group for group in names if told.fullmatch(group)] == counting


def test_only_of_a_topic_beats_that_of_the_defaults() -> None:
    config = config_of(
        "name: orders, groups: {only: ['.*']}",
        "name: clicks",
        defaults="{enable: true, groups: {only: [billing]}}",
    )
    assert not policy_of(config).excludes("search")
    assert policy_of(config, "clicks").excludes("search")


def test_a_required_group_may_match_an_exclusion_that_its_topic_overrides() -> None:
    defaults = "{enable: true, groups: {exclude: ['.*']}}"
    config = config_of(
        "name: orders, groups: {required: [billing], exclude: []}",
        "name: clicks",
        defaults=defaults,
    )
    assert policy_of(config).required_groups == ("billing",)
    assert policy_of(config, "clicks").excludes("billing")


def test_a_group_both_required_and_excluded_by_the_defaults_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        config_of("name: orders", defaults="{groups: {required: [a, billing], exclude: [billing]}}")
    assert caught.value.path == "defaults.groups.required[1]"
    assert "topics[0], but defaults.groups.exclude[0] excludes this one" in str(caught.value)


def test_an_exact_name_beats_every_pattern_even_where_it_disables() -> None:
    config = config_of(
        "pattern: 'ord.*', enable: true, hours: 1",
        "name: orders, enable: true, hours: 2",
        "name: ordinals, enable: false",
        "pattern: '.*', enable: true, hours: 3",
    )
    assert policy_of(config).consumed_retention_ms == 2 * HOUR_MS
    assert policy_of(config).sources == ("topics[1]",)
    assert config.policy_for("ordinals") is None


@pytest.mark.parametrize(
    "difference",
    [
        "hours: 2",
        "enable: true, hours: 2",
        "enable: true, groups: {required: [a]}",
        "enable: true, groups: {exclude: [a]}",
        "enable: true, groups: {min: 2}",
        "enable: true, allow_compacted: true",
    ],
)
def test_patterns_that_treat_a_topic_differently_are_a_conflict(difference: str) -> None:
    config = config_of(
        "pattern: none", "pattern: 'or.*', enable: true", f"pattern: '.*ers', {difference}"
    )
    assert config.policy_for("orders") == PolicyConflict(("topics[1]", "topics[2]"))
    assert config.policy_for("ordinals") == policy_of(config, "or")


def test_a_pattern_that_says_that_it_does_not_enable_switches_off_whatever_others_say() -> None:
    config = config_of(
        "pattern: '.*', enable: true, hours: 24",
        "pattern: 'audit.*', enable: false",
        "pattern: 'audit.eu.*', enable: true, hours: 72",
        "name: audit.eu.copy, enable: true, hours: 1",
    )
    assert config.policy_for("audit.eu.orders") is None
    assert policy_of(config, "audit.eu.copy").consumed_retention_ms == HOUR_MS
    assert policy_of(config, "orders").consumed_retention_ms == 24 * HOUR_MS


def test_a_topic_that_a_pattern_excepts_follows_whatever_else_matches_it() -> None:
    config = config_of(
        "pattern: '.*', except: ['orders\\..*', audit], enable: true, hours: 24",
        "pattern: 'orders\\..*', enable: true, hours: 72",
    )
    assert policy_of(config, "clicks").consumed_retention_ms == 24 * HOUR_MS
    assert policy_of(config, "orders.eu").consumed_retention_ms == 72 * HOUR_MS
    assert config.policy_for("audit") is None
    assert policy_of(config, "audit.copy").consumed_retention_ms == 24 * HOUR_MS  # whole names
    assert [config.matches(topic) for topic in ("clicks", "orders.eu", "audit")] == [
        True,
        True,
        False,
    ]


def test_patterns_that_treat_a_topic_alike_are_no_conflict() -> None:
    config = config_of(
        "pattern: 'or.*', enable: true, hours: 1, groups: {required: [a, b], exclude: [c, d]}",
        "pattern: '.*rs', enable: true, minutes: 60, groups: {required: [b, a, a], "
        "exclude: [d, c]}",
    )
    assert policy_of(config).consumed_retention_ms == HOUR_MS
    assert policy_of(config).sources == ("topics[0]", "topics[1]")


def test_patterns_that_all_disable_a_topic_are_no_conflict() -> None:
    config = config_of("pattern: 'or.*', hours: 1", "pattern: '.*rs', hours: 2")
    assert config.policy_for("orders") is None


def test_a_trial_is_a_setting_like_others() -> None:
    config = config_of(
        "name: orders, enable: true",
        "name: clicks, enable: true, dry_run: false",
        "pattern: 'stage.*', enable: true, dry_run: false",
        "pattern: '.*raw', enable: true",
        defaults="{dry_run: true}",
    )
    assert (policy_of(config).dry_run, policy_of(config).deletes) == (True, False)
    assert policy_of(config, "clicks").deletes
    assert policy_of(config, "x.raw").dry_run
    conflict = config.policy_for("stage.raw")
    assert isinstance(conflict, PolicyConflict)
    assert not conflict.dry_run


def test_names_that_were_once_asked_about_do_not_stay_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retentiond.config.policy.MOST_KNOWN", 3)
    policies = work_out_policies(TopicRules(), [TopicEntry(name="orders")])
    for number in range(10):
        assert policies.policy_for(f"no-topic-{number}") is None
        assert len(policies._of_topics) <= 3
