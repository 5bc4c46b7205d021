"""Options, help and exit codes of the command line; nothing here reaches a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retentiond import __version__
from tests.support.brokers.command import Done
from tests.unit.cli.conftest import CONFIG, Command

CONFIGURED = ("run", "plan", "check", "audit", "groups", "pause", "resume")
"""The commands that read a configuration file."""

COMMANDS = (*CONFIGURED, "explain", "doctor", "delete-records", "orphans")

HEAVY = ("pyspark", "pyarrow", "kafka", "confluent_kafka", "pydantic", "structlog", "starlette")

EMPTY_TOPICS = CONFIG.partition("topics:")[0] + "topics: []\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_shows_an_example(command: Command, name: str) -> None:
    done = command(name, "--help")
    assert done.code == 0
    assert f"Example: retentiond {name}" in done.out


@pytest.mark.parametrize("name", [*CONFIGURED, "orphans"])
def test_the_help_says_which_file_is_read(
    command: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "by default $RETENTIOND_CONFIG, else retentiond.yaml." in command(name, "--help").out


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_the_help_lists_every_command(command: Command, option: str) -> None:
    done = command(option)
    assert done.code == 0
    assert all(f" {name} " in done.out for name in COMMANDS)


def test_the_help_waits_for_nothing_that_only_a_commands_work_needs() -> None:
    """The help of all commands imports each, as a shell's completion does."""
    code = (
        "import sys, atexit, retentiond.cli.main as cli\n"
        f"atexit.register(lambda: print([it for it in {HEAVY} if it in sys.modules]))\n"
        "sys.argv = ['retentiond', '--help']\n"
        "cli.main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert " delete-records " in ran.stdout
    assert ran.stdout.endswith("\n[]\n")


def test_without_a_command_it_shows_the_help_and_does_nothing(command: Command) -> None:
    done = command()
    assert done.code == 2
    assert "Usage: retentiond" in done.out + done.err


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version") == Done(0, f"retentiond {__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option"],
        ["no-such-command"],
        ["plan", "--no-such-option"],
        ["plan", "superfluous"],
        ["plan", "--output", "xml"],
        ["run", "--once", "--output"],
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_wrong(
    command: Command, arguments: list[str]
) -> None:
    done = command(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Error" in done.err
    assert "Traceback" not in done.err


def test_the_daemon_prints_no_plan(command: Command, config_file: Path) -> None:
    done = command("run", "--output", "json", "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "retentiond: --output goes with --once; the daemon serves its plan at /api/plan\n"
    )


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_missing_file_ends_with_2_and_its_name(command: Command, name: str) -> None:
    done = command(name, "--config", "nowhere.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("retentiond: nowhere.yaml: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_bad_file_ends_with_2_and_the_path_of_the_key(
    command: Command, config_file: Path, name: str
) -> None:
    config_file.write_text(EMPTY_TOPICS)
    done = command(name, "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {config_file}: topics: expected ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_property_that_reaches_one_client_only_is_an_error_of_the_file(
    command: Command, config_file: Path, name: str
) -> None:
    text = CONFIG.replace("bootstrap.servers:", "sasl.kerberos.principal: me\n  bootstrap.servers:")
    config_file.write_text(text)
    done = command(name, "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {config_file}: kafka.sasl.kerberos.principal: ")
    assert done.err.count("\n") == 1


def test_a_traceback_is_shown_with_debug_only(command: Command, config_file: Path) -> None:
    config_file.write_text(EMPTY_TOPICS)
    assert "Traceback" not in command("check", "-c", config_file).err
    for arguments in (["check", "--debug"], ["--debug", "check"]):
        done = command(*arguments, "--config", config_file)
        assert done.code == 2
        assert "Traceback (most recent call last)" in done.err
        assert f"\nretentiond: {config_file}: topics: expected " in done.err


def test_the_file_is_found_by_every_way_of_naming_it(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (
        ["check", "--config", config_file],
        ["check", "-c", config_file],
        ["--config", config_file, "check"],
        ["-c", config_file, "check"],
    ):
        assert f"{config_file} is valid" in command(*arguments).out
    monkeypatch.setenv("RETENTIOND_CONFIG", str(config_file))
    assert f"{config_file} is valid" in command("check").out


def test_an_option_beats_the_environment_wherever_it_stands(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETENTIOND_CONFIG", "nowhere.yaml")
    assert command("check").code == 2
    for arguments in (["check", "--config", config_file], ["--config", config_file, "check"]):
        assert f"{config_file} is valid" in command(*arguments).out


def test_of_two_options_the_nearer_one_counts(command: Command, config_file: Path) -> None:
    done = command("--config", "nowhere.yaml", "check", "--config", config_file)
    assert f"{config_file} is valid" in done.out


def test_by_default_the_file_is_in_the_working_directory(command: Command, tmp_path: Path) -> None:
    assert command("check").code == 2
    (tmp_path / "retentiond.yaml").write_text(CONFIG)
    assert "retentiond.yaml is valid" in command("check").out


def test_check_says_in_words_what_each_entry_means(command: Command, config_file: Path) -> None:
    done = command("check", "--config", config_file)
    assert (done.code, done.err) == (0, "")
    words = " ".join(done.out.split())
    assert "orders" in words
    assert "30 minutes" in words
    assert "Every 300 s retentiond deletes nothing (dry_run)." in words


def test_check_says_that_an_internal_topic_is_never_deleted_from(
    command: Command, config_file: Path
) -> None:
    config_file.write_text(CONFIG.replace("orders", "__consumer_offsets"))
    done = command("check", "--config", config_file)
    assert done.code == 0
    assert done.out.startswith(
        "__consumer_offsets: internal to Kafka, so nothing is ever deleted from it.\n"
    )


def test_check_looks_at_the_properties_of_an_external_readers_cluster(
    command: Command, tmp_path: Path
) -> None:
    kafka = "{bootstrap.servers: 'west:9092', sasl.pasword: hunter2}"
    place = f"{{topic: offsets, connector: mirror, kafka: {kafka}}}"
    path = tmp_path / "mine.yaml"
    path.write_text(
        "kafka: {bootstrap.servers: 'h:1'}\ntopics:\n  - name: orders\n    groups:\n"
        f"      external: [{{name: mirror, connect_offsets: {place}}}]\n"
    )
    done = command("check", "--config", path)
    assert done.code == 2
    words = " ".join(done.err.split())
    assert (
        "external reader mirror: connect_offsets.kafka.sasl.pasword: expected a property" in words
    )
    assert "hunter2" not in done.err


def test_check_warns_of_a_file_that_deletes(command: Command, config_file: Path) -> None:
    config_file.write_text(f"dry_run: false\n{CONFIG}")
    done = command("check", "--config", config_file)
    assert "Every 300 s retentiond DELETES RECORDS." in " ".join(done.out.split())


def test_check_leaves_nothing_behind(command: Command, config_file: Path, tmp_path: Path) -> None:
    config_file.write_text(f"state_dir: {tmp_path / 'state'}\n{CONFIG}")
    assert command("check", "--config", config_file).code == 0
    assert list(tmp_path.iterdir()) == [config_file]


@pytest.mark.parametrize("option", [(), ("--actions",), ("--verify",), ("-o", "csv")])
def test_an_audit_log_that_is_not_there_ends_with_2(
    command: Command, config_file: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    config_file.write_text(f"state_dir: {tmp_path / 'state'}\n{CONFIG}")
    done = command("audit", *option, "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: there is no audit log in {tmp_path / 'state'}; ")
    assert not (tmp_path / "state").exists()
