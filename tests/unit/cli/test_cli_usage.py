"""Options, help and exit codes of the command line; nothing here reaches a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retentiond import __version__
from tests.support.brokers.command import Done
from tests.support.golden import FOLDER
from tests.unit.cli.conftest import CONFIG, Command, Transcript

CONFIGURED = ("run", "plan", "check", "audit", "groups", "pause", "resume", "doctor")
"""The commands that read a configuration file."""

OF_THE_STATE = ("audit", "pause", "resume")
"""Those that need the state directory alone, and go on with a file that is bad elsewhere."""

COMMANDS = (*CONFIGURED, "explain", "delete-records", "orphans")

HEAVY = ("pyspark", "pyarrow", "kafka", "confluent_kafka", "pydantic", "structlog", "starlette")

EMPTY_TOPICS = CONFIG.partition("topics:")[0] + "topics: []\n"

FOR_ONE_CLIENT = CONFIG.replace(
    "bootstrap.servers:", "sasl.kerberos.principal: me\n  bootstrap.servers:"
)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_shows_an_example_and_which_file_is_read(
    command: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = command(name, "--help")
    assert done.code == 0
    assert f"Example: retentiond {name}" in done.out
    named = "by default $RETENTIOND_CONFIG, else retentiond.yaml." in done.out
    assert named or name not in {*CONFIGURED, "orphans"}


def test_the_help_waits_for_nothing_that_only_a_commands_work_needs() -> None:
    """The help of all commands imports each, as a shell's completion does."""
    code = (
        "import sys, atexit, retentiond.cli.main as cli\n"
        f"atexit.register(lambda: print([it for it in {HEAVY} if it in sys.modules]))\n"
        "sys.argv = ['retentiond', '--help']\n"
        "cli.main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f" {name} " in ran.stdout for name in COMMANDS)
    assert ran.stdout.endswith("\n[]\n")


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version") == Done(0, f"retentiond {__version__}\n", "")


def test_wrong_usage_ends_with_2_and_says_what_is_wrong(
    transcript: Transcript,
    command: Command,
    config_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tests/golden/usage. Without a command it is the help, which lists all of them."""
    monkeypatch.setenv("COLUMNS", "100")
    done = command()
    assert (done.code, done.out.strip(), done.err) == (2, command("--help").out.strip(), "")
    for arguments in (
        ["--no-such-option"],
        ["no-such-command"],
        ["plan", "--no-such-option"],
        ["plan", "superfluous"],
        ["plan", "--output", "xml"],
        ["run", "--once", "--output"],
        ["run", "--output", "json", "--config", config_file],
    ):
        transcript.refused(*arguments)
    transcript.check("usage/wrong.txt")


@pytest.mark.parametrize("name", [name for name in CONFIGURED if name not in OF_THE_STATE])
def test_every_command_refuses_a_file_that_is_missing_or_bad_in_the_same_words(
    transcript: Transcript, config_file: Path, name: str
) -> None:
    """tests/golden/usage, for all of them."""
    transcript.refused(name, "--config", "nowhere.yaml")
    for text in (EMPTY_TOPICS, FOR_ONE_CLIENT):
        config_file.write_text(text)
        transcript.refused(name, "--config", config_file)
    transcript.text = transcript.text.replace(f"retentiond {name} ", "retentiond COMMAND ")
    transcript.check("usage/configuration.txt")


@pytest.mark.parametrize("name", OF_THE_STATE)
def test_a_command_of_the_state_refuses_a_missing_file_in_these_words_too(
    command: Command, name: str
) -> None:
    """What a bad one means to it: test_cli_pause."""
    done = command(name, "--config", "nowhere.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err in (FOLDER / "usage/configuration.txt").read_text()


def test_a_traceback_is_shown_with_debug_only(command: Command, config_file: Path) -> None:
    config_file.write_text(EMPTY_TOPICS)
    assert "Traceback" not in command("check", "-c", config_file).err
    for arguments in (["check", "--debug"], ["--debug", "check"]):
        done = command(*arguments, "--config", config_file)
        assert done.code == 2
        assert "Traceback (most recent call last)" in done.err
        assert f"\nretentiond: {config_file}: topics: expected " in done.err


def test_the_file_is_found_by_every_way_of_naming_it_and_the_nearest_counts(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for environment in (None, "nowhere.yaml"):
        if environment:
            monkeypatch.setenv("RETENTIOND_CONFIG", environment)
        assert command("check").code == 2
        for arguments in (
            ["check", "--config", config_file],
            ["check", "-c", config_file],
            ["--config", config_file, "check"],
            ["-c", config_file, "check"],
            ["--config", "nowhere.yaml", "check", "--config", config_file],
        ):
            assert f"{config_file} is valid" in command(*arguments).out
    monkeypatch.setenv("RETENTIOND_CONFIG", str(config_file))
    assert f"{config_file} is valid" in command("check").out
    monkeypatch.delenv("RETENTIOND_CONFIG")
    config_file.rename(config_file.with_name("retentiond.yaml"))
    assert "retentiond.yaml is valid" in command("check").out


@pytest.mark.parametrize(
    ("words", "completed"), [("pa", "pause"), ("plan --exit", "--exit-code"), ("explain o", "")]
)
def test_tab_completes_the_names_of_commands_and_options(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: str, completed: str
) -> None:
    monkeypatch.setenv("_RETENTIOND_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"retentiond {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    done = command()
    assert (done.code, done.out.strip(), done.err) == (0, completed, "")


@pytest.mark.parametrize("option", [(), ("--actions",), ("--verify",), ("-o", "csv")])
def test_an_audit_log_that_is_not_there_ends_with_2(
    command: Command, config_file: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    config_file.write_text(f"state_dir: {tmp_path / 'state'}\n{CONFIG}")
    done = command("audit", *option, "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: there is no audit log in {tmp_path / 'state'}; ")
    assert not (tmp_path / "state").exists()
