"""Policy files of teams beside the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.config import Config, PolicyConflict, load
from retentiond.errors import ConfigError
from retentiond.formatting import HOUR_MS
from tests.unit.config.files import policy_of, written

ENABLED = "retention.commitoffset.enable: true"


def config_of(folder: Path, main: str = "", **files: str) -> Config:
    return load(written(folder, main or "policies: policies.d/*.yaml\n", **files), {})


def test_a_teams_topics_have_its_policy_and_its_name_and_the_main_files_have_none(
    tmp_path: Path,
) -> None:
    config = config_of(
        tmp_path,
        f"policies: policies.d/*.yaml\ntopics: [{{name: audit, {ENABLED}}}]\n",
        payments=f"owner: payments\ntopics: [{{name: orders, {ENABLED}}}]\n",
        search=f"owner: search\ntopics: [{{pattern: 'clicks.*', {ENABLED}}}]\n",
    )
    policies = [policy_of(config, topic) for topic in ("audit", "orders", "clicks.eu")]
    assert [(each.owner, each.sources) for each in policies] == [
        (None, ("topics[0]",)),
        ("payments", ("policies.d/payments.yaml: topics[0]",)),
        ("search", ("policies.d/search.yaml: topics[0]",)),
    ]
    assert config.exact_names == {"audit", "orders"}


def test_a_files_defaults_refine_those_of_the_main_file_for_that_file_alone(tmp_path: Path) -> None:
    main = (
        "policies: policies.d/*.yaml\n"
        f"defaults: {{{ENABLED}, retention.commitoffset.hours: 24, groups: {{min: 2}}}}\n"
    )
    config = config_of(
        tmp_path,
        main,
        payments="owner: payments\ndefaults: {groups: {min: 3}}\ntopics: [{name: orders}]\n",
        search="owner: search\ntopics: [{name: clicks}]\n",
    )
    orders, clicks = policy_of(config, "orders"), policy_of(config, "clicks")
    assert (orders.min_groups, clicks.min_groups) == (3, 2)
    assert orders.consumed_retention_ms == clicks.consumed_retention_ms == 24 * HOUR_MS


@pytest.mark.parametrize("second", ["policies.d/p*.yaml", "./policies.d/*.yaml", "linked/*.yaml"])
def test_a_file_that_two_globs_lead_to_by_different_paths_is_read_once(
    second: str, tmp_path: Path
) -> None:
    (tmp_path / "linked").symlink_to("policies.d")
    config = config_of(
        tmp_path,
        f"policies: [policies.d/*.yaml, {second}]\n",
        payments=f"owner: payments\ntopics: [{{name: orders, {ENABLED}}}]\n",
    )
    assert [each.source for each in config.entries] == ["policies.d/payments.yaml: topics[0]"]


def test_patterns_that_differ_are_a_conflict_that_names_both_files(tmp_path: Path) -> None:
    hours = "retention.commitoffset.hours"
    main = f"policies: policies.d/*.yaml\ntopics: [{{pattern: 'audit.*', {ENABLED}, {hours}: 3}}]\n"
    config = config_of(
        tmp_path,
        main,
        payments=f"owner: payments\ntopics: [{{pattern: 'or.*', {ENABLED}, {hours}: 1}}]\n",
        search=f"owner: search\ntopics: [{{pattern: '.*ers', {ENABLED}, {hours}: 2}}]\n",
    )
    of_payments, of_search = (
        f"policies.d/{team}.yaml: topics[0]" for team in ("payments", "search")
    )
    assert config.policy_for("orders") == PolicyConflict(
        (of_payments, of_search), "payments and search"
    )
    conflict = config.policy_for("auditers")
    assert isinstance(conflict, PolicyConflict)
    assert conflict.places == ("the main file's topics[0]", of_search)
    assert conflict.owner == "search"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "policies[0]: expected a glob that matches a file"),
        ({"a": "topics: [{name: orders}]"}, "policies.d/a.yaml: owner: expected this setting"),
        ({"a": "owner: a"}, "policies.d/a.yaml: topics: expected this setting"),
        ({"a": "owner: ' '\ntopics: [{name: o}]"}, "policies.d/a.yaml: owner: expected a text"),
        (
            {"a": 'owner: "a\\nb"\ntopics: [{name: o}]'},
            "policies.d/a.yaml: owner: expected a text on one line, without control characters",
        ),
        (
            {"a": "owner: a\ndry_run: false\ntopics: [{name: o}]"},
            "policies.d/a.yaml: dry_run: unknown setting",
        ),
        (
            {"a": "owner: a\ntopics: [{name: o, hours: 1}]"},
            "policies.d/a.yaml: topics[0].hours: unknown setting",
        ),
        ({"a": "owner: [\n"}, "policies.d/a.yaml: line 2"),
        (
            {
                "a": "owner: a\ntopics: [{name: o}]",
                "b": "owner: b\ntopics: [{name: p}, {name: o}]",
            },
            "policies.d/b.yaml: topics[1].name: expected one entry for the topic o, but "
            "policies.d/a.yaml: topics[0] is another one; keep one",
        ),
        (
            {"a": "owner: a\ntopics: [{name: o, groups: {required: [x], exclude: [x]}}]"},
            "policies.d/a.yaml: topics[0].groups.required[0]: expected a group that counts",
        ),
        (
            {"a": "owner: ${TEAM}\ntopics: [{name: o}]"},
            "policies.d/a.yaml: owner: expected a value without ${TEAM}: a team's file takes no",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_path(
    files: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(tmp_path, **files)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("main", "team", "said"),
    [
        (
            "retention.commitoffset.pressure.hours: 5",
            "topics: [{name: o, retention.commitoffset.hours: 1}]",
            "{main}: defaults.retention.commitoffset.pressure.hours: expected the consumed "
            "retention of policies.d/a.yaml: topics[0] (1 hour) or less, not 5 hours",
        ),
        (
            "retention.commitoffset.hours: 2",
            "defaults: {retention.commitoffset.pressure.hours: 5}\ntopics: [{name: o}]",
            "policies.d/a.yaml: defaults.retention.commitoffset.pressure.hours: expected the "
            "consumed retention of topics[0] (2 hours) or less, not 5 hours",
        ),
        (
            "groups: {required: [billing]}",
            "topics: [{name: o, groups: {exclude: ['b.*']}}]",
            "{main}: defaults.groups.required[0]: expected a group that counts for "
            "policies.d/a.yaml: topics[0], but policies.d/a.yaml: topics[0].groups.exclude[0] "
            "excludes this one; change one of the two",
        ),
        (
            "groups: {exclude: ['b.*']}",
            "topics: [{name: o, groups: {required: [billing]}}]",
            "policies.d/a.yaml: topics[0].groups.required[0]: expected a group that counts for "
            "topics[0], but the main file's defaults.groups.exclude[0] excludes this one; change "
            "one of the two",
        ),
        (
            "groups: {only: [search]}",
            "defaults: {groups: {required: [billing]}}\ntopics: [{name: o}]",
            "policies.d/a.yaml: defaults.groups.required[0]: expected a group that counts for "
            "topics[0], but the main file's defaults.groups.only has no pattern that matches this "
            "one; change one of the two",
        ),
        (
            "groups: {min: 1}",
            "topics: [{name: mine}]",
            "policies.d/a.yaml: topics[0].name: expected one entry for the topic mine, but the "
            "main file's topics[0] is another one; keep one",
        ),
    ],
)
def test_what_two_files_contradict_each_other_in_is_named_with_the_file_of_each(
    main: str, team: str, said: str, tmp_path: Path
) -> None:
    text = f"policies: policies.d/*.yaml\ndefaults: {{{main}}}\ntopics: [{{name: mine}}]\n"
    with pytest.raises(ConfigError) as caught:
        config_of(tmp_path, text, a=f"owner: a\n{team}\n")
    assert str(caught.value) == said.format(main=tmp_path / "retentiond.yaml")


def test_without_topics_and_without_policies_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="topics: expected this setting, which is required"):
        config_of(tmp_path, "dry_run: true\n")
