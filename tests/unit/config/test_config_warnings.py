"""What is valid and probably not meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.config import Config, PolicyUnreadable, TopicPolicy, load
from retentiond.config.warnings import default_retention, passed_over, unfenced
from retentiond.errors import ConfigError
from tests.unit.config.files import written

ON = "retention.commitoffset.enable: true"
TEAM = f"owner: a\ntopics: [{{name: orders, {ON}, retention.commitoffset.hours: 1}}]\n"


@pytest.mark.parametrize(
    ("name", "is_told"),
    [
        ("payments.yml", True),
        ("payments.yaml.bak", True),
        ("Payments.YAML", True),
        ("payments.yaml~", True),
        (".payments.yaml", True),
        ("payments.json", True),
        ("payments.off", True),
        (".payments.yaml.swp", False),
        (".#payments.yaml", False),
        ("README.md", False),
        ("main.yml", False),
    ],
)
def test_what_looks_like_a_policy_file_and_is_not_read_is_told(
    name: str, is_told: bool, tmp_path: Path
) -> None:
    path = written(tmp_path, "policies: policies.d/*.yaml\n", a=TEAM)
    text = "owner: p\ntopics:\n- {name: x, retention.commitoffset.enable: false}\n"
    if name == "README.md":
        text = "# What stands here\n"
    if name == "main.yml":
        text = "kafka: {}\n" + text
    (tmp_path / "policies.d" / name).write_text(text)
    assert passed_over(load(path, {})) == ((f"policies.d/{name}",) if is_told else ())


def test_what_another_glob_or_a_fence_leads_to_is_read(tmp_path: Path) -> None:
    main = "policies: [policies.d/*.yaml, {file: policies.d/b.yml, topics: [b]}, './*/c.yml']\n"
    path = written(tmp_path, main, a=TEAM)
    for name in "bc":
        (tmp_path / "policies.d" / f"{name}.yml").write_text(TEAM.replace("orders", name))
    assert passed_over(load(path, {})) == ()


def test_entries_that_leave_the_retention_open_are_told_by_file(tmp_path: Path) -> None:
    said = f"{ON}, retention.commitoffset.ms: 0"
    main = f"topics: [{{name: m, {ON}}}, {{name: off}}, {{name: z, {said}}}]\n"
    set_for_all = (
        "owner: b\ndefaults: {retention.commitoffset.hours: 168}\ntopics: [{name: q, %s}]\n"
    )
    config = load(
        written(
            tmp_path,
            "policies: policies.d/*.yaml\n" + main,
            a=f"owner: a\ntopics: [{{name: n, {ON}}}, {{name: o, {ON}}}]\n",
            b=set_for_all % ON,
        ),
        {},
    )
    told = default_retention(config)
    assert [each.partition(": the consumed")[0] for each in told] == [
        "m",
        "policies.d/a.yaml: n, o",
    ]


def test_files_without_a_fence_are_told_once_two_have_owners(tmp_path: Path) -> None:
    path = written(tmp_path, "policies: policies.d/*.yaml\n", a=TEAM)
    assert unfenced(load(path, {})) == ()
    path = written(tmp_path, "policies: policies.d/*.yaml\n", b=TEAM.replace("orders", "b"))
    (told,) = unfenced(load(path, {}))
    assert told.startswith("policies.d/a.yaml, policies.d/b.yaml are in no fence")
    fenced = "policies: [{file: policies.d/b.yaml, topics: [b]}, policies.d/*.yaml]\n"
    (told,) = unfenced(load(written(tmp_path, fenced), {}))
    assert told.startswith("policies.d/a.yaml is in no fence")


def reads(topic: str, checkpoint: str) -> str:
    reader = f"{{name: lake, spark_checkpoint: {checkpoint}}}"
    return (
        f"owner: {topic}\ntopics: [{{name: {topic}, {ON}, retention.commitoffset.hours: 1, "
        f"groups: {{external: [{reader}]}}}}]\n"
    )


def reload(folder: Path, fenced: str, before: str, *, known: bool = True) -> Config:
    """``b`` has a reader called lake; then ``a`` names another one so."""
    fences = ", ".join(f"{{file: policies.d/{name}.yaml, topics: [{name}]}}" for name in fenced)
    main = f"policies: [{fences}{', ' if fences else ''}policies.d/*.yaml]\n"
    path = written(folder, main, **{before: reads(before, "/first")})
    for name in {"a", "b"} - {before}:
        (folder / "policies.d" / f"{name}.yaml").unlink(missing_ok=True)
    in_force = load(path, {})
    newcomer = "a" if before == "b" else "b"
    written(folder, main, **{newcomer: reads(newcomer, "/second")})
    return load(path, {}, readers_in_force=in_force.readers if known else {})


@pytest.mark.parametrize("before", ["a", "b"])
def test_of_two_fenced_files_that_name_a_reader_alike_the_newcomer_is_held(
    before: str, tmp_path: Path
) -> None:
    config = reload(tmp_path, "ab", before)
    newcomer = "a" if before == "b" else "b"
    assert isinstance(config.policy_for(before), TopicPolicy)
    assert isinstance(config.policy_for(newcomer), PolicyUnreadable)
    assert [entry.file for entry in config.entries] == [f"policies.d/{before}.yaml"]


@pytest.mark.parametrize("known", [True, False])
def test_a_fenced_newcomer_is_held_where_the_other_file_has_no_fence(
    known: bool, tmp_path: Path
) -> None:
    config = reload(tmp_path, "a", "b", known=known)
    assert isinstance(config.policy_for("a"), PolicyUnreadable)
    assert isinstance(config.policy_for("b"), TopicPolicy)


@pytest.mark.parametrize("before", ["a", "b"])
def test_a_newcomer_without_a_fence_is_named_as_what_is_wrong(before: str, tmp_path: Path) -> None:
    newcomer = "a" if before == "b" else "b"
    with pytest.raises(ConfigError) as caught:
        reload(tmp_path, before, before)
    assert (caught.value.file, caught.value.owner) == (f"policies.d/{newcomer}.yaml", newcomer)
