"""``retentiond pause`` and ``resume``: the brake holds from the moment the command returns."""

from __future__ import annotations

import getpass
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from retentiond.fields import rfc3339
from retentiond.state.operator_actions import (
    NO_REASON,
    Pause,
    actions_in,
    read_pause,
    write_pause,
)
from tests.support.golden import Golden
from tests.unit.cli.conftest import CONFIG, Command, Transcript


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "var" / "state"


@pytest.fixture
def config_file(tmp_path: Path, state_dir: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(f"state_dir: {state_dir}\n{CONFIG}")
    return path


def paused(state_dir: Path) -> Pause:
    pause = read_pause(state_dir)
    assert pause is not None
    return pause


def test_it_pauses_before_a_daemon_ever_ran_and_resumes(
    transcript: Transcript,
    config_file: Path,
    state_dir: Path,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tests/golden/pause: each is recorded, and a second pause replaces the reason of the first."""
    monkeypatch.setenv("LOGNAME", "ada")
    transcript("resume", "--config", config_file)
    assert not state_dir.exists()
    for dry_run in ("true", "false"):
        config_file.write_text(f"state_dir: {state_dir}\ndry_run: {dry_run}\n{CONFIG}")
        for reason in ([], ["incident [4711]: replay"]):
            transcript("pause", *reason, "--config", config_file)
            assert (paused(state_dir).reason, paused(state_dir).by) == (
                *(reason or [NO_REASON]),
                "ada",
            )
            golden.shown[str(paused(state_dir).since)] = "(a moment)"
        transcript("resume", "--config", config_file)
        assert read_pause(state_dir) is None
    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700
    transcript("audit", "--actions", "--config", config_file)
    for action in actions_in(state_dir):
        golden.shown[rfc3339(action.at_ms)] = "(a moment)"
    transcript.check("pause/pause.txt")


@pytest.mark.parametrize("reason", ["", "why", 'ä "quoted"\nreason'])
def test_whatever_the_reason_it_is_read_as_it_was_written(
    command: Command, config_file: Path, state_dir: Path, reason: str
) -> None:
    assert command("pause", reason, "--config", config_file).code == 0
    assert paused(state_dir).reason == (reason or NO_REASON)


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.write_text("no audit log")])
def test_a_pause_that_cannot_be_recorded_is_in_force_and_says_so(
    command: Command, config_file: Path, state_dir: Path, make: Callable[[Path], object]
) -> None:
    state_dir.mkdir(parents=True)
    make(state_dir / "audit.db")
    done = command("pause", "why", "--config", config_file)
    assert done.code == 2
    assert "nothing is deleted any more, but the audit log does not say so" in done.err
    assert paused(state_dir).reason == "why"


def test_it_stays_paused_when_a_resume_can_not_be_recorded(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    command("pause", "why", "--config", config_file)
    (state_dir / "audit.db").write_text("no audit log")
    assert command("resume", "--config", config_file).code == 2
    assert read_pause(state_dir) is not None


def test_resume_ends_no_pause_that_it_has_not_read(
    command: Command, config_file: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("pause", "one", "--config", config_file)
    monkeypatch.setattr(
        "retentiond.cli.pause.record_action", lambda *_: write_pause(state_dir, Pause("two"))
    )
    done = command("resume", "--config", config_file)
    assert done.code == 2
    assert "it was paused again meanwhile, and stays paused: two" in done.err
    assert read_pause(state_dir) == Pause("two")


def test_a_user_without_a_name_can_pull_the_brake(
    command: Command, config_file: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert command("pause", "why", "--config", config_file).code == 0
    assert str(paused(state_dir).by).startswith("uid ")


def test_a_state_directory_that_can_not_be_made_is_an_error(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    state_dir.parent.write_text("")
    done = command("pause", "why", "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {state_dir / 'paused'} can't be written (")
    assert done.err.endswith("so nothing is paused\n")


WRONG = {
    "a team's file": (
        "policies: teams/*.yaml",
        "teams/payments.yaml: owner: expected this setting",
    ),
    "another setting": ("dry_rum: false", "dry_rum: unknown setting"),
    "a variable that is not set": ("metrics: {cluster: '${NOWHERE}'}", "NOWHERE"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_mistake_elsewhere_in_the_configuration_keeps_nobody_from_pausing(
    command: Command, config_file: Path, state_dir: Path, tmp_path: Path, wrong: tuple[str, str]
) -> None:
    """The daemon goes on with the configuration before, and an operator must be able to stop it."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "payments.yaml").write_text("topics: []\n")
    line, why = wrong
    config_file.write_text(f"state_dir: {state_dir}\n{line}\n{CONFIG}")

    done = command("pause", "why", "--config", config_file)
    assert (done.code, paused(state_dir).reason) == (0, "why")
    assert why in done.err
    assert done.err.startswith("retentiond: warning: ")
    assert command("audit", "--actions", "--config", config_file).code == 2
    assert command("backup", tmp_path / "copy", "--config", config_file).code == 2

    resumed = command("resume", "--config", config_file)
    assert (resumed.code, read_pause(state_dir)) == (0, None)
    assert (
        "The next cycle deletes again, unless its configuration's dry_run is true." in resumed.out
    )


@pytest.mark.parametrize(
    "text",
    ["state_dir: [a]\ndry_rum: false\n", "state_dir: ''\ndry_rum: false\n", "dry_rum: [\n", "a\n"],
)
def test_a_state_dir_that_is_not_known_is_the_configurations_error(
    command: Command, config_file: Path, text: str
) -> None:
    config_file.write_text(text)
    done = command("pause", "why", "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert "warning" not in done.err
    assert "Traceback" not in done.err


def test_without_state_dir_no_folder_is_guessed(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By default it may depend on the user, and the daemon is perhaps another one's."""
    monkeypatch.setattr("retentiond.config.reader.SYSTEM_STATE_DIR", tmp_path / "nowhere")
    config_file.write_text(f"dry_rum: false\n{CONFIG}")
    done = command("pause", "why", "--config", config_file)
    assert (done.code, "dry_rum: unknown setting" in done.err) == (2, True)
