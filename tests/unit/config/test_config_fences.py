"""Fences: a policy file is about their topics alone, and no other file is about these."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.config import Config, PolicyConflict, PolicyUnreadable, TopicPolicy, load
from retentiond.config.no_policy import UnreadableFile
from retentiond.errors import ConfigError
from retentiond.formatting import DAY_MS, HOUR_MS
from tests.unit.config.files import policy_of, written

ON = "retention.commitoffset.enable: true"
OFF = "retention.commitoffset.enable: false"
HOURS = "retention.commitoffset.hours"
PAY = r"{file: policies.d/pay.yaml, topics: ['pay\..*']"
FENCED = f"policies: [{PAY}}}, policies.d/*.yaml]\n"


def config_of(folder: Path, main: str = FENCED, **files: str) -> Config:
    """``files``: what those in ``policies.d`` say beside their owner, by name."""
    teams = {name: f"owner: {name}\n{text}\n" for name, text in files.items()}
    return load(written(folder, main, **teams), {})


def entry(what: str, hours: int = 1) -> str:
    return f"topics: [{{{what}, {ON}, {HOURS}: {hours}}}]"


def hours_of(config: Config, topic: str) -> float | None:
    if config.policy_for(topic) is None:
        return None
    return policy_of(config, topic).consumed_retention_ms / HOUR_MS


def test_patterns_stay_on_their_side_of_a_fence(tmp_path: Path) -> None:
    config = config_of(tmp_path, pay=entry("pattern: '.*'", 1), search=entry("pattern: '.*'", 2))
    assert (hours_of(config, "pay.a"), hours_of(config, "clicks")) == (1, 2)
    pay, clicks = config.policy_for("pay.a"), config.policy_for("clicks")
    assert (pay and pay.fence, clicks and clicks.fence) == ("policies.d/pay.yaml", None)
    assert config.policy_files == ("policies.d/pay.yaml", "policies.d/search.yaml")


def test_another_teams_attack_on_a_fenced_topic_comes_to_nothing(tmp_path: Path) -> None:
    attack = (
        f"topics: [{{pattern: 'pay.*', {ON}, {HOURS}: 0, groups: {{only: [mine]}}, "
        f"groups_visible: assumed}}, {{pattern: '.*', {OFF}}}]"
    )
    config = config_of(tmp_path, pay=entry("name: pay.a"), mean=attack)
    assert hours_of(config, "pay.a") == 1
    assert hours_of(config, "pay.b") is None


def test_patterns_of_the_main_file_only_switch_off_inside_a_fence(tmp_path: Path) -> None:
    main = (
        f"{FENCED}topics: [{{pattern: '.*', {ON}, {HOURS}: 9}}, {{pattern: '.*\\.audit', {OFF}}}]\n"
    )
    config = config_of(tmp_path, main, pay=entry(r"pattern: 'pay\.[a-z]*'"))
    assert hours_of(config, "pay.a") == 1
    assert hours_of(config, "pay.audit") is None
    assert hours_of(config, "pay.9") is None
    assert hours_of(config, "orders") == 9


def test_a_topic_in_two_fences_is_a_conflict_that_names_both(tmp_path: Path) -> None:
    main = (
        f"policies: [{PAY}}}, {{file: policies.d/x.yaml, topics: ['.*x']}}]\n"
        f"topics: [{{pattern: '.*offx', {OFF}}}]\n"
    )
    config = config_of(tmp_path, main, pay=entry("pattern: '.*'"), x=entry("pattern: '.*'"))
    both = "policies[0] (policies.d/pay.yaml)", "policies[1] (policies.d/x.yaml)"
    conflict = config.policy_for("pay.x")
    assert conflict == PolicyConflict(both, is_of_fences=True)
    assert conflict.sentence == f"the topic is in the fences {both[0]} and {both[1]}"
    assert config.policy_for("pay.offx") is None
    assert (hours_of(config, "pay.a"), hours_of(config, "ax")) == (1, 1)


def test_a_file_that_a_glob_leads_to_by_another_name_is_taken_once_with_its_fence(
    tmp_path: Path,
) -> None:
    (tmp_path / "linked").symlink_to("policies.d")
    main = f"policies: ['./linked/*.yaml', {PAY}}}, policies.d/*.yaml]\n"
    config = config_of(tmp_path, main, pay=entry("pattern: '.*'"))
    assert [each.source for each in config.entries] == ["policies.d/pay.yaml: topics[0]"]
    assert hours_of(config, "orders") is None


FENCE = r"the fence policies[0] of policies.d/pay.yaml (topics matching pay\..*)"
STRICT = (
    f"policies: [{PAY}, at_least: 2h, forbid: [groups.only, groups_visible, allow_compacted]}}]\n"
)


@pytest.mark.parametrize(
    ("main", "files", "said"),
    [
        (
            FENCED + "topics: [{name: pay.a}]\n",
            {"pay": entry("name: pay.b")},
            f"{{main}}: topics[0].name: expected a topic outside {FENCE}, not pay.a",
        ),
        (
            FENCED,
            {"pay": entry("name: pay.b"), "search": entry("name: pay.a")},
            f"policies.d/search.yaml: topics[0].name: expected a topic outside {FENCE}, not pay.a",
        ),
        (
            f"policies: [{PAY}}}, {PAY}}}]\n",
            {"pay": entry("name: pay.b")},
            "{main}: policies[1].file: expected one fence for a file",
        ),
        (
            "policies: [{topics: [a]}]\n",
            {},
            "{main}: policies[0].file: expected this setting, which is required",
        ),
        (
            "policies: [{file: a.yaml, topics: []}]\n",
            {},
            "{main}: policies[0].topics: expected at least one entry",
        ),
        (
            "policies: [x/*.yaml, {file: a.yaml, topics: ['a b']}]\n",
            {},
            "{main}: policies[1].topics[0]: expected a pattern without white space",
        ),
        (
            f"policies: [{PAY}, forbid: [groups.olny]}}]\n",
            {},
            "{main}: policies[0].forbid[0]: expected a setting of topics",
        ),
        (
            f"policies: [{PAY}, at_least: 5}}]\n",
            {},
            "{main}: policies[0].at_least: expected a duration with its unit",
        ),
        (f"policies: [{PAY}, floor: 1h}}]\n", {}, "{main}: policies[0].floor: unknown setting"),
    ],
)
def test_what_a_fence_can_not_keep_inside_is_refused(
    main: str, files: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of(tmp_path, main, **files)
    assert str(caught.value).startswith(said.format(main=tmp_path / "retentiond.yaml"))


PATH = "policies.d/pay.yaml: "


@pytest.mark.parametrize(
    ("team", "said"),
    [
        (entry("name: orders", 2), f"topics[0].name: expected a topic inside {FENCE}, not orders"),
        (
            entry("name: pay.a", 1),
            f"topics[0].{HOURS}: {FENCE} asks for a consumed retention of 2 hours or more, not 1 h",
        ),
        (
            f"defaults: {{retention.commitoffset.ms: 5}}\ntopics: [{{name: pay.a, {ON}}}]",
            f"defaults.retention.commitoffset.ms: {FENCE} asks for a consumed retention of 2 hours "
            "or more, not 5 m",
        ),
        (
            f"topics: [{{name: pay.a, {ON}, {HOURS}: 3, "
            "retention.commitoffset.pressure.minutes: 0}]",
            f"topics[0].retention.commitoffset.pressure.minutes: {FENCE} asks for a pressure "
            "retention of 2 hours or more",
        ),
        (
            f"topics: [{{name: pay.a, {ON}, groups_visible: checked}}]",
            f"topics[0].groups_visible: {FENCE} forbids this setting",
        ),
        (
            f"defaults: {{groups: {{only: [a]}}}}\ntopics: [{{name: pay.a, {ON}}}]",
            f"defaults.groups.only: {FENCE} forbids this setting",
        ),
        ("topics: [{name: pay.a, hours: 1}]", "topics[0].hours: unknown setting"),
        (
            "topics: [{name: pay.a}, {name: pay.a}]",
            "topics[1].name: expected one entry for the topic pay.a",
        ),
        ("topics: [", "line 3, column 1: expected valid YAML"),
    ],
)
def test_a_mistake_in_a_fenced_file_holds_the_topics_of_its_fence_alone(
    team: str, said: str, tmp_path: Path
) -> None:
    main = STRICT.replace("}]\n", "}, policies.d/*.yaml]\n")
    config = config_of(tmp_path, main, pay=team, search=entry("pattern: '.*'", 3))
    (bad,) = config.unreadable
    assert (bad.name, bad.owner) == ("policies.d/pay.yaml", "" if "line" in said else "pay")
    assert bad.problem.startswith(PATH + said)
    held = PolicyUnreadable("policies.d/pay.yaml", bad.problem, bad.owner or None)
    assert config.policy_for("pay.a") == config.policy_for("pay.anything") == held
    assert config.matches("pay.anything")
    assert hours_of(config, "orders") == 3


def missing(path: Path) -> None:
    path.unlink()


def broken_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("gone")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff")


@pytest.mark.parametrize("spoil", [missing, broken_link, folder, no_text])
@pytest.mark.parametrize("others", [True, False])
def test_a_fenced_file_that_can_not_be_read_holds_its_topics(
    spoil: object, others: bool, tmp_path: Path
) -> None:
    """Also where it is the only one that the glob leads to."""
    files = {"search": entry("pattern: '.*'", 3)} if others else {}
    main = f"{FENCED}topics: [{{pattern: 'off.*|.*off', {OFF}}}]\n"
    config_of(tmp_path, main, pay=entry("name: pay.a"), **files)
    assert callable(spoil)
    spoil(tmp_path / "policies.d" / "pay.yaml")
    config = load(tmp_path / "retentiond.yaml", {})
    assert isinstance(config.policy_for("pay.a"), PolicyUnreadable)
    assert config.policy_for("pay.off") is None
    assert hours_of(config, "orders") == (3 if others else None)
    assert [each.owner for each in config.unreadable] == [""]


def test_a_folder_of_policies_that_is_gone_is_no_missing_file(tmp_path: Path) -> None:
    """Nobody knows what else was in it."""
    config_of(tmp_path, pay=entry("name: pay.a"))
    (tmp_path / "policies.d").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="expected a glob that matches a file"):
        load(tmp_path / "retentiond.yaml", {})


@pytest.mark.parametrize("hours", [f"topics: [{{name: pay.a, {OFF}}}]", entry("name: pay.a", 2)])
def test_a_retention_that_a_fence_allows_is_taken(hours: str, tmp_path: Path) -> None:
    assert not config_of(tmp_path, STRICT, pay=hours).unreadable


def test_a_fenced_file_that_takes_a_query_s_name_leaves_no_entry_in_force(tmp_path: Path) -> None:
    def reads(name: str, checkpoint: str) -> str:
        reader = f"{{name: lake, spark_checkpoint: {checkpoint}}}"
        return f"topics: [{{name: {name}, {ON}, {HOURS}: 1, groups: {{external: [{reader}]}}}}]"

    config = config_of(
        tmp_path, FENCED + reads("orders", "/ahead") + "\n", pay=reads("pay.a", "/behind")
    )
    assert isinstance(config.policy_for("pay.a"), PolicyUnreadable)
    assert isinstance(config.policy_for("orders"), TopicPolicy)


LAKE = "{name: lake, spark_checkpoint: /lake}"
NAMES_LAKE = f"topics: [{{name: pay.a, {ON}, {HOURS}: 1, groups: {{external: [{LAKE}]}}}}]"


@pytest.mark.parametrize(
    "pay",
    [
        NAMES_LAKE.replace("pay.a", "orders"),  # outside its fence
        f"{NAMES_LAKE}\nelse: 1",
        f"defaults: {{groups: {{external: [{LAKE}]}}}}\ntopics: [{{name: pay.a, min: x}}]",
        NAMES_LAKE.replace(LAKE, f"{LAKE}, {{name: etl, spark_checkpoint: 7}}, {{name: x}}"),
        # a mistake in the reader itself
        *(
            NAMES_LAKE.replace(LAKE, f"{LAKE[:-1]}, {mistake}}}")
            for mistake in ("max_age: soon", "max_age: 1", "colour: 1", "offsets: /at", "paths: [")
        ),
        # what YAML allows and a policy file doesn't
        f"{NAMES_LAKE}\nowner: again",
        f"{NAMES_LAKE}\n---\n{{}}",
        NAMES_LAKE.replace("/lake", "&place /lake"),
        NAMES_LAKE.replace(LAKE, f"&reader {LAKE}"),
        NAMES_LAKE.replace("/lake", "!!str /lake"),
        f"defaults: {{x: &place /lake}}\n{NAMES_LAKE.replace('/lake', '*place')}",
        f"{NAMES_LAKE}\nmore: {'[' * 100_000}",
    ],
    ids=range(16),
)
def test_the_queries_of_a_bad_fenced_file_are_still_read(pay: str, tmp_path: Path) -> None:
    """At a first start, too: their checkpoints name topics of other teams."""
    config = config_of(tmp_path, FENCED, pay=pay)
    assert [file.name for file in config.unreadable] == ["policies.d/pay.yaml"]
    assert {query.name for query in config.spark_queries} == {"lake"}


def test_the_queries_of_a_file_in_force_are_read_when_it_becomes_unreadable(tmp_path: Path) -> None:
    config = config_of(tmp_path, FENCED, pay=NAMES_LAKE)
    assert not config.unreadable
    gone = UnreadableFile.because_of(ConfigError("gone"), "policies.d/pay.yaml", "")
    held = config.holding([gone])
    assert not held.readers
    assert held.spark_queries == config.spark_queries
    assert held.holding([gone]).spark_queries == config.spark_queries


def test_no_position_of_a_bad_file_s_query_is_too_old(tmp_path: Path) -> None:
    """Its max_age may be what is wrong, and an old position only bounds more."""
    bad = NAMES_LAKE.replace(LAKE, f"{LAKE[:-1]}, max_age: 30 days}}")
    (query,) = config_of(tmp_path, FENCED, pay=bad).spark_queries
    assert query.max_age_ms > 1_000 * 365 * DAY_MS


@pytest.mark.parametrize("is_query", [True, False])
def test_a_bad_file_s_query_counts_beside_another_reader_of_its_name(
    tmp_path: Path, *, is_query: bool
) -> None:
    """Neither takes the other's place: a restart may decide otherwise which of the two is held."""
    other = "spark_checkpoint: /other" if is_query else "offsets: /other"
    taken = NAMES_LAKE.replace("pay.a", "orders").replace("spark_checkpoint: /lake", other)
    config = config_of(tmp_path, f"{FENCED}{taken}\n", pay=NAMES_LAKE)
    assert [file.name for file in config.unreadable] == ["policies.d/pay.yaml"]
    places = {str(query.spark_checkpoint) for query in config.spark_queries}
    assert places == ({"/lake", "/other"} if is_query else {"/lake"})


def test_a_reader_that_two_files_name_alike_is_one_although_one_of_them_is_bad(
    tmp_path: Path,
) -> None:
    main = f"{FENCED}{NAMES_LAKE.replace('pay.a', 'orders')}\n"
    (query,) = config_of(tmp_path, main, pay=f"{NAMES_LAKE}\nelse: 1").spark_queries
    assert query.max_age_ms == DAY_MS  # of the file that can be used
