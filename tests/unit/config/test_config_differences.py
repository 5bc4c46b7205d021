"""What changes between two configurations where several patterns may match one topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from retentiond.config import (
    Config,
    NoPolicy,
    PolicyConflict,
    TopicPolicy,
    differences,
    load,
    parse,
)
from tests.unit.config.files import MINIMAL, written

ENABLE, HOURS = "retention.commitoffset.enable", "retention.commitoffset.hours"

STAGE, SECRET = r"stage\..*", r"stage\.secret\..*"

Entry = dict[str, Any]


def pattern(text: str, enable: bool | None = True, **settings: Any) -> Entry:
    """``enable`` None: unset; ``hours`` is short for the consumed retention."""
    entry = {"pattern": text} if enable is None else {"pattern": text, ENABLE: enable}
    return entry | {HOURS if key == "hours" else key: value for key, value in settings.items()}


def config(*entries: Entry, **more: Any) -> Config:
    written = json.dumps({"topics": list(entries)} | more)
    text = MINIMAL + yaml.safe_dump(json.loads(written))  # without aliases
    return parse(text, None, Path())


def told(before: Config, after: Config) -> list[tuple[Any, ...]]:
    return [
        (each.entry, each.setting, each.before, each.after, each.effect.value)
        for each in differences(before, after)
    ]


def effects(before: Config, after: Config) -> set[str]:
    return {each.effect.value for each in differences(before, after)}


@pytest.mark.parametrize(
    "other",
    [
        pattern(SECRET, False),
        pattern(SECRET, None),
        pattern(SECRET, hours=1),
        pattern(STAGE, hours=1),
    ],
    ids=["switches off", "enables nothing", "another retention", "the same pattern"],
)
def test_a_pattern_that_comes_or_goes_beside_another_is_unknown(other: Entry) -> None:
    alone, both = config(pattern(STAGE)), config(pattern(STAGE), other)
    assert "unknown" in effects(alone, both)
    assert "unknown" in effects(both, alone)


@pytest.mark.parametrize(
    "changed", [pattern(SECRET, False), pattern(SECRET, None), pattern(SECRET, hours=1)]
)
def test_a_pattern_that_changes_beside_another_is_unknown(changed: Entry) -> None:
    """Both may match a topic: then they are in conflict, or are no longer."""
    before, after = (config(pattern(STAGE), each) for each in (pattern(SECRET, hours=2), changed))
    assert "unknown" in effects(before, after)
    assert "unknown" in effects(after, before)
    assert effects(before, before) == set()


def test_a_pattern_beside_names_alone_is_sooner_or_later() -> None:
    name = {"name": "orders", ENABLE: True}
    none, long, short = (
        config(name, *entries)
        for entries in ((), (pattern(STAGE, hours=2),), (pattern(STAGE, hours=1),))
    )
    assert told(long, short) == [(STAGE, HOURS, 2, 1, "sooner")]
    assert told(short, long) == [(STAGE, HOURS, 1, 2, "later")]
    assert (STAGE, ENABLE, False, True, "sooner") in told(none, short)
    assert (STAGE, ENABLE, True, False, "later") in told(short, none)


@pytest.mark.parametrize(("before", "after"), [(None, False), (False, None)])
def test_a_pattern_that_does_not_enable_and_one_that_switches_off_differ(
    before: bool | None, after: bool | None
) -> None:
    """The one is in conflict with a pattern that enables, the other is not."""
    old = config(pattern(STAGE), pattern(SECRET, before))
    new = config(pattern(STAGE), pattern(SECRET, after))
    assert {type(each.policy_for("stage.secret.a")) for each in (old, new)} == {
        PolicyConflict,
        type(None),
    }
    assert told(old, new) == [(SECRET, ENABLE, before, after, "unknown")]


@pytest.mark.parametrize("names", [("orders", "${X}"), ("${X}", "orders"), ("${X}", "${Y}")])
def test_a_name_that_is_not_known_may_be_any_topic(names: tuple[str, str]) -> None:
    old, new = (config({"name": name, ENABLE: True}) for name in names)
    assert effects(old, new) == {"unknown"}


def teams(folder: Path, **files: list[Entry]) -> Config:
    texts = {
        owner: yaml.safe_dump({"owner": owner.partition("_")[0], "topics": topics})
        for owner, topics in files.items()
    }
    return load(written(folder, "policies: policies.d/*.yaml\n", **texts), {})


def test_the_same_pattern_in_two_files_is_an_entry_in_each(tmp_path: Path) -> None:
    one, two = pattern("a.*", hours=1), pattern("a.*", hours=2)
    equal = teams(tmp_path / "equal", payments=[two], search=[two])
    conflict = teams(tmp_path / "conflict", payments=[one], search=[two])
    assert isinstance(equal.policy_for("a"), TopicPolicy)
    assert isinstance(conflict.policy_for("a"), PolicyConflict)
    assert [each.owner for each in differences(equal, conflict)] == ["payments"]
    assert told(equal, conflict) == [("a.*", HOURS, 2, 1, "unknown")]
    assert told(conflict, equal) == [("a.*", HOURS, 1, 2, "unknown")]
    gone = teams(tmp_path / "gone", search=[two])
    assert ("a.*", ENABLE, True, False, "unknown") in told(conflict, gone)


def test_an_entry_that_moves_to_another_file_changes_its_owner(tmp_path: Path) -> None:
    entry = pattern("a.*")
    old = teams(tmp_path / "old", payments=[entry], search=[pattern("b.*")])
    new = teams(tmp_path / "new", search=[pattern("b.*"), entry])
    assert told(old, new) == [("a.*", "owner", "payments", "search", "none")]
    renamed = teams(tmp_path / "renamed", payments_2=[entry], search=[pattern("b.*")])
    assert told(old, renamed) == []


TOPICS = ("a", "b", "aa", "ab", "ba", "bb", "abc", "bca")

ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            "pattern": st.sampled_from(("a.*", ".*b", "ab?.*", "b.*", "bc.*", "a|b.*", ".*")),
            HOURS: st.sampled_from((1, 2)),
        },
        optional={ENABLE: st.booleans(), "except": st.just(["ab"])},
    )
    | st.fixed_dictionaries(
        {"name": st.sampled_from(TOPICS), HOURS: st.sampled_from((1, 2))},
        optional={ENABLE: st.booleans()},
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda entry: entry.get("name", id(entry)),
)


@settings(deadline=None, max_examples=300)
@given(ENTRIES, ENTRIES, st.booleans())
def test_whatever_happens_to_a_topic_is_told(
    old: list[Entry], new: list[Entry], enable: bool
) -> None:
    before, after = (config(*entries, defaults={ENABLE: enable}) for entries in (old, new))
    found = effects(before, after)
    for topic in TOPICS:
        was, becomes = before.policy_for(topic), after.policy_for(topic)
        assert found or type(was) is type(becomes)
        was_ms, becomes_ms = _retention(was), _retention(becomes)
        if becomes_ms < was_ms:
            assert found & {"sooner", "unknown"}
        if becomes_ms > was_ms:
            assert found & {"later", "unknown"}


def _retention(policy: TopicPolicy | NoPolicy | None) -> float:
    """Endless where nothing is deleted."""
    return policy.consumed_retention_ms if isinstance(policy, TopicPolicy) else float("inf")


def test_a_trial_that_begins_lets_records_go_later_and_one_that_ends_sooner() -> None:
    real, trial = config(pattern(STAGE)), config(pattern(STAGE, dry_run=True))
    assert told(real, trial) == [(STAGE, "dry_run", False, True, "later")]
    assert told(trial, real) == [(STAGE, "dry_run", True, False, "sooner")]


def test_a_trial_that_goes_may_free_what_it_has_held_for_another_pattern() -> None:
    both = config(pattern(STAGE), pattern("sta.*", dry_run=True))
    for after in (config(pattern(STAGE)), config(pattern(STAGE), pattern("st.*", dry_run=True))):
        gone = {each.effect.value for each in differences(both, after) if each.entry == "sta.*"}
        assert gone == {"unknown"}


def test_what_changes_in_a_trial_changes_nothing_for_records() -> None:
    trial, shorter = (config(pattern(STAGE, dry_run=True, hours=each)) for each in (24, 6))
    off = config(pattern("other"))
    assert effects(trial, shorter) == {"none"}
    assert {each.effect.value for each in differences(off, trial) if each.entry == STAGE} == {
        "none"
    }


def test_what_waits_for_longer_lets_records_go_later() -> None:
    def limited(**worthwhile: str) -> Config:
        return config(pattern(STAGE), limits={"worthwhile": worthwhile} if worthwhile else {})

    unset, shown = limited(), ("limits.worthwhile.after", "limits.worthwhile.bytes")
    small, large = limited(bytes="1MiB"), limited(bytes="1GiB", after="2h")
    assert told(unset, small) == [
        (None, shown[0], None, "1h", "later"),
        (None, shown[1], None, "1MiB", "later"),
    ]
    assert told(large, small) == [
        (None, shown[0], "2h", "1h", "sooner"),
        (None, shown[1], "1GiB", "1MiB", "sooner"),
    ]
    assert effects(small, unset) == {"sooner"}
