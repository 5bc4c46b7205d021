"""Policy files are told apart by their names, and whatever keeps a fenced one from being read holds
its fence alone."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from retentiond.config import Config, PolicyUnreadable, TopicPolicy, load
from retentiond.config import files as config_files
from retentiond.errors import ConfigError
from tests.unit.config.files import ConfigMap, written

ON = "retention.commitoffset.enable: true, retention.commitoffset.hours: 1"
OFF = "retention.commitoffset.enable: false"
FENCE = r"{file: policies.d/pay.yaml, topics: ['pay\..*']}"
MAIN = f"policies: [{FENCE}, policies.d/*.yaml]\n"

FILES = {
    "a-all": f"owner: all\ntopics: [{{pattern: '.*', {ON}}}]\n",
    "pay": f"owner: pay\ntopics: [{{name: pay.a, {ON}}}]\n",
    "z-off": f"owner: ledger\ntopics: [{{pattern: 'ledger\\..*', {OFF}}}]\n",
}


def is_held(config: Config, topic: str = "pay.a") -> bool:
    return isinstance(config.policy_for(topic), PolicyUnreadable)


def goes_on(config: Config) -> bool:
    return isinstance(config.policy_for("orders"), TopicPolicy)


def test_a_fenced_file_that_becomes_a_link_takes_no_other_file_s_place(tmp_path: Path) -> None:
    path = written(tmp_path, MAIN, **FILES)
    (tmp_path / "policies.d" / "pay.yaml").unlink()
    (tmp_path / "policies.d" / "pay.yaml").symlink_to("z-off.yaml")
    config = load(path, {})
    assert config.policy_for("ledger.a") is None
    assert is_held(config)
    assert "a link to" in config.unreadable[0].problem
    assert "z-off.yaml, a file of another name" in config.unreadable[0].problem
    assert goes_on(config)


@pytest.mark.parametrize("directly", [True, False])
def test_a_folder_of_a_fenced_file_that_becomes_a_link_takes_no_other_file_s_place(
    directly: bool, tmp_path: Path
) -> None:
    """Also where the other file is itself a link, as in a ConfigMap."""
    main = "policies: [{file: teams/pay/policy.yaml, topics: ['pay\\..*']}, teams/*/policy.yaml]\n"
    path = written(tmp_path, main)
    for team, text in (("all", FILES["a-all"]), ("ledger", FILES["z-off"])):
        ConfigMap(tmp_path / "teams" / team).put({"policy.yaml": text})
    to = "ledger" if directly else "ledger/..1"
    (tmp_path / "teams" / "pay").symlink_to(to)
    config = load(path, {})
    assert config.policy_for("ledger.a") is None
    assert is_held(config)
    assert goes_on(config)


def test_a_fenced_file_that_is_a_link_to_another_fenced_file_holds_its_own_fence(
    tmp_path: Path,
) -> None:
    web = r"{file: policies.d/web.yaml, topics: ['web\..*']}"
    web_file = f"owner: web\ntopics: [{{name: web.a, {ON}}}]\n"
    path = written(tmp_path, f"policies: [{FENCE}, {web}, policies.d/*.yaml]\n", web=web_file)
    (tmp_path / "policies.d" / "pay.yaml").symlink_to("web.yaml")
    config = load(path, {})
    assert is_held(config)
    assert isinstance(config.policy_for("web.a"), TopicPolicy)
    assert [file.name for file in config.unreadable] == ["policies.d/pay.yaml"]


@pytest.mark.parametrize("linked_folder", [True, False])
def test_a_config_map_s_own_links_are_no_other_files(linked_folder: bool, tmp_path: Path) -> None:
    place = tmp_path / ("mounted" if linked_folder else "policies.d")
    ConfigMap(place).put({f"{name}.yaml": text for name, text in FILES.items()})
    (tmp_path / "other").symlink_to("policies.d")
    if linked_folder:
        (tmp_path / "policies.d").symlink_to("mounted")
    path = tmp_path / "retentiond.yaml"
    path.write_text(
        "kafka: {bootstrap.servers: localhost:9092}\n"
        + MAIN.replace("]\n", ", ./policies.d/*.yaml, other/*.yaml]\n")
    )
    config = load(path, {})
    assert config.unreadable == ()
    assert config.policy_files == (
        "policies.d/a-all.yaml",
        "policies.d/pay.yaml",
        "policies.d/z-off.yaml",
    )


Failing = Callable[[pytest.MonkeyPatch, Path], None]


def fails(number: int) -> Failing:
    """Whatever asks the file system for the file, or for what is in its folder."""

    def spoil(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        for name in ("stat", "lstat", "open", "scandir", "readlink"):
            original = getattr(os, name)

            def failing(
                path: object, *rest: object, _do: object = original, **named: object
            ) -> object:
                if str(path).startswith(str(folder)):
                    raise OSError(number, os.strerror(number), str(path))
                assert callable(_do)
                return _do(path, *rest, **named)

            monkeypatch.setattr(os, name, failing)

    return spoil


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
def test_whatever_a_fenced_file_s_folder_fails_with_holds_its_fence(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = "policies: [{file: mount/pay.yaml, topics: ['pay\\..*']}, policies.d/*.yaml]\n"
    path = written(tmp_path, main, **{"a-all": FILES["a-all"]})
    (tmp_path / "mount").mkdir()
    (tmp_path / "mount" / "pay.yaml").write_text(FILES["pay"])
    assert not is_held(load(path, {}))
    fails(number)(monkeypatch, tmp_path / "mount")
    config = load(path, {})
    assert is_held(config)
    assert goes_on(config)
    problem = config.unreadable[0].problem
    assert os.strerror(number) in problem
    assert ("let this user read it" in problem) == (number == errno.EACCES)


def test_a_name_that_is_too_long_holds_its_fence(tmp_path: Path) -> None:
    fence = f"{{file: policies.d/{'p' * 300}.yaml, topics: ['pay\\..*']}}"
    main = f"policies: [{fence}, policies.d/*.yaml]\n"
    config = load(written(tmp_path, main, **{"a-all": FILES["a-all"]}), {})
    assert is_held(config)
    assert goes_on(config)


@pytest.mark.timeout(60)
def test_a_mount_that_hangs_holds_its_fence_and_costs_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_files, "ANSWER_S", 0.2)
    main = "policies: [{file: mount/pay.yaml, topics: ['pay\\..*']}, policies.d/*.yaml]\n"
    path = written(tmp_path, main, **{"a-all": FILES["a-all"]})
    (tmp_path / "mount").mkdir()
    original, mended = os.stat, threading.Event()

    def hanging(path: object, *rest: object, **named: object) -> object:
        if str(path).startswith(str(tmp_path / "mount")):
            mended.wait(60)
        return original(path, *rest, **named)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(os, "stat", hanging)
    before = threading.active_count()
    for _ in range(3):
        config = load(path, {})
        assert is_held(config)
        assert goes_on(config)
    assert "does not answer" in config.unreadable[0].problem
    assert threading.active_count() - before == 1
    mended.set()


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1_500_000_000)


def entries(path: Path) -> None:
    path.write_text("owner: pay\ntopics:\n" + "- {name: a}\n" * 300_000)


@pytest.mark.parametrize(("spoil", "said"), [(sparse, "bytes"), (entries, "keys and values")])
def test_a_fenced_file_that_is_too_large_is_bad(
    spoil: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, MAIN, **FILES)
    spoil(tmp_path / "policies.d" / "pay.yaml")
    config = load(path, {})
    assert is_held(config)
    assert goes_on(config)
    assert said in config.unreadable[0].problem


def test_a_fenced_file_that_changes_all_the_time_is_bad_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retentiond.config.reader.PAUSE_S", 0)
    path = written(tmp_path, MAIN, **FILES)
    team, original = tmp_path / "policies.d" / "pay.yaml", os.open
    turns = iter(range(10_000))

    def opened(path: str, flags: int) -> int:
        if path == str(team):
            team.write_text(f"{FILES['pay']}# {next(turns)}\n")
        return original(path, flags)

    monkeypatch.setattr(os, "open", opened)
    config = load(path, {})
    assert is_held(config)
    assert goes_on(config)


SECRETS = MAIN.replace("topics: [", "secrets: secrets/pay, topics: [")


def with_reference(folder: Path, reference: str, main: str = SECRETS) -> Config:
    for name, text in (("pay/token", "t0ken\n"), ("kafka", "passw0rd\n"), ("pay-all", "x\n")):
        (folder / "secrets" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "secrets" / name).write_text(text)
    (folder / "secrets" / "pay" / "link").symlink_to("../kafka")
    text = f"owner: '{reference}'\ntopics: [{{name: pay.a, {ON}}}]\n"
    return load(written(folder, main, pay=text), {"NAME": "v", "KAFKA_PASSWORD": "s3cret"})


@pytest.mark.parametrize(
    "reference", ["${file:../secrets/pay/token}", "${file:token}", "${file:@/secrets/pay/token}"]
)
def test_a_team_s_file_may_refer_to_files_of_its_own_folder_of_secrets(
    reference: str, tmp_path: Path
) -> None:
    config = with_reference(tmp_path, reference.replace("@", str(tmp_path)))
    assert [entry.policy.owner for entry in config.entries] == ["t0ken"]


@pytest.mark.parametrize(
    "reference",
    [
        "${KAFKA_PASSWORD}",
        "${NAME}",
        "${UNSET}",
        "${file:../secrets/kafka}",
        "${file:../kafka}",
        "${file:../secrets/pay/../kafka}",
        "${file:../secrets/pay-all}",
        "${file:link}",
        "${file:/etc/hostname}",
        "${file:.}",
    ],
)
@pytest.mark.parametrize("secrets", [True, False])
def test_a_team_s_file_takes_nothing_else_from_outside(
    reference: str, secrets: bool, tmp_path: Path
) -> None:
    config = with_reference(tmp_path, reference, SECRETS if secrets else MAIN)
    (file,) = config.unreadable
    assert is_held(config)
    assert file.problem.startswith("policies.d/pay.yaml: owner: expected a ")
    assert "s3cret" not in file.problem
    assert "passw0rd" not in file.problem


def test_a_file_without_a_fence_takes_nothing_from_outside_and_all_errors_are_found(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("t\n")
    text = "owner: ${file:../token}\ntopics: [{name: a}]\n"
    other = "owner: b\ntopics: [{name: b, oops: 1}, {name: c, oops: 2}]\n"
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, "policies: policies.d/*.yaml\n", a=text, b=other), {})
    said = [str(error) for error in (caught.value, *caught.value.others)]
    places = ["a.yaml: owner", "b.yaml: topics[0].oops", "b.yaml: topics[1].oops"]
    assert [each.split(": expected")[0].split(": unknown")[0] for each in said] == [
        f"policies.d/{place}" for place in places
    ]
    assert [error.owner for error in caught.value.others] == ["b", "b"]
