"""``retentiond pause`` and ``resume``: the brake holds from the moment the command returns."""

from __future__ import annotations

import getpass
import stat
from pathlib import Path

import pytest

from retentiond.state.operator_actions import (
    NO_REASON,
    Pause,
    actions_in,
    read_pause,
    write_pause,
)
from tests.unit.cli.conftest import CONFIG, Command


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "var" / "state"


@pytest.fixture
def config_file(tmp_path: Path, state_dir: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(f"state_dir: {state_dir}\n{CONFIG}")
    return path


def test_it_pauses_before_a_daemon_ever_ran_and_says_why(
    command: Command, config_file: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")
    done = command("pause", "incident [4711]: replay", "--config", config_file)
    assert (done.code, done.err) == (0, "")
    assert "by ada: incident [4711]: replay." in " ".join(done.out.split())
    pause = read_pause(state_dir)
    assert pause is not None
    assert (pause.reason, pause.by) == ("incident [4711]: replay", "ada")
    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700
    (action,) = actions_in(state_dir)
    assert (action.operator, action.action, action.subject, action.detail) == (
        "ada",
        "pause",
        None,
        "incident [4711]: replay",
    )


def test_a_pause_that_cannot_be_recorded_is_in_force_and_says_so(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    state_dir.mkdir(parents=True)
    (state_dir / "audit.db").mkdir()
    done = command("pause", "--config", config_file)
    assert done.code != 0
    assert "nothing is deleted any more, but the audit log does not say so" in done.err
    assert read_pause(state_dir) is not None


@pytest.mark.parametrize("arguments", [[], [""]])
def test_a_reason_need_not_be_given(
    command: Command, config_file: Path, state_dir: Path, arguments: list[str]
) -> None:
    assert command("pause", *arguments, "--config", config_file).code == 0
    pause = read_pause(state_dir)
    assert pause is not None
    assert pause.reason == NO_REASON


def test_a_second_pause_replaces_the_reason_of_the_first(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    command("pause", "one", "--config", config_file)
    command("pause", "two", "--config", config_file)
    pause = read_pause(state_dir)
    assert pause is not None
    assert pause.reason == "two"
    assert [action.detail for action in actions_in(state_dir)] == ["one", "two"]


@pytest.mark.parametrize(
    ("dry_run", "says"),
    [
        ("false", "The next cycle deletes again. It was paused since "),
        ("true", "Nothing is deleted yet, because dry_run is true: the next cycle only plans."),
    ],
)
def test_resume_takes_the_brake_off_and_is_recorded(
    command: Command, config_file: Path, state_dir: Path, dry_run: str, says: str
) -> None:
    config_file.write_text(f"{config_file.read_text()}dry_run: {dry_run}\n")
    command("pause", "why", "--config", config_file)
    done = command("resume", "--config", config_file)
    assert (done.code, done.err) == (0, "")
    assert says in done.out
    assert ("deletes again" in done.out) == (dry_run == "false")
    assert read_pause(state_dir) is None
    assert [action.action for action in actions_in(state_dir)] == ["pause", "resume"]


def test_resume_ends_no_pause_that_it_has_not_read(
    command: Command, config_file: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("pause", "one", "--config", config_file)
    monkeypatch.setattr(
        "retentiond.cli.pause.record_action", lambda *_: write_pause(state_dir, Pause("two"))
    )
    done = command("resume", "--config", config_file)
    assert done.code == 2
    assert "it was paused anew meanwhile, and stays paused: two" in done.err
    assert read_pause(state_dir) == Pause("two")


def test_where_nothing_is_paused_resume_leaves_nothing_behind(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    done = command("resume", "--config", config_file)
    assert (done.code, done.out.strip(), done.err) == (0, "It was not paused.", "")
    assert not state_dir.exists()


def test_it_stays_paused_when_a_resume_can_not_be_recorded(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    command("pause", "why", "--config", config_file)
    (state_dir / "audit.db").write_text("no audit log")
    assert command("resume", "--config", config_file).code == 2
    assert read_pause(state_dir) is not None


def test_it_is_paused_even_when_that_can_not_be_recorded(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    state_dir.mkdir(parents=True)
    (state_dir / "audit.db").write_text("no audit log")
    assert command("pause", "why", "--config", config_file).code == 2
    pause = read_pause(state_dir)
    assert pause is not None
    assert pause.reason == "why"


def test_a_user_without_a_name_can_pull_the_brake(
    command: Command, config_file: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert command("pause", "why", "--config", config_file).code == 0
    pause = read_pause(state_dir)
    assert pause is not None
    assert str(pause.by).startswith("uid ")


def test_a_state_directory_that_can_not_be_made_is_an_error(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    state_dir.parent.write_text("")
    done = command("pause", "why", "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {state_dir / 'paused'} can't be written (")
    assert done.err.endswith("so nothing is paused\n")


@pytest.mark.parametrize("name", ["pause", "resume"])
def test_an_error_of_the_configuration_ends_with_2_and_changes_nothing(
    command: Command, config_file: Path, state_dir: Path, name: str
) -> None:
    config_file.write_text(config_file.read_text().replace("topics:", "topisc:"))
    done = command(name, "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {config_file}: ")
    assert not state_dir.exists()


def test_the_pause_is_the_same_after_it_was_written_and_read(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    command("pause", 'ä "quoted"\nreason', "--config", config_file)
    pause = read_pause(state_dir)
    assert pause is not None
    assert isinstance(pause, Pause)
    assert pause.reason == 'ä "quoted"\nreason'
