"""``retentiond delete-records`` where nothing reaches a cluster: usage, files, the audit log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from retentiond.state.operator_actions import Pause, write_pause
from retentiond.state_places import user_state_dir
from tests.unit.cli.conftest import Command

SERVER = ("--bootstrap-server", "localhost:1")

HEAVY = (
    "pyspark",
    "pyarrow",
    "numpy",
    "pandas",
    "kafka",
    "apscheduler",
    "structlog",
    "yaml",
    "rich.console",
)


@pytest.fixture
def offsets(tmp_path: Path) -> Path:
    path = tmp_path / "offsets.json"
    path.write_text(json.dumps({"partitions": [{"topic": "a", "partition": 0, "offset": 1}]}))
    return path


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    return tmp_path / "states"


def test_its_help_shows_examples(command: Command) -> None:
    done = command("delete-records", "--help")
    assert done.code == 0
    assert done.out.count("Example: retentiond delete-records --bootstrap-server") == 3
    for option in ("--offset-json-file", "--command-config", "--to-committed", "--dry-run"):
        assert option in done.out


def test_the_servers_must_be_named(command: Command, offsets: Path) -> None:
    done = command("delete-records", "--offset-json-file", offsets)
    assert (done.code, done.out) == (2, "")
    assert "--bootstrap-server" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing says what to delete: --offset-json-file, or"),
        (["--topic", "a"], "nothing says what to delete: "),
        (["--older-than", "7d"], "--older-than and --to-datetime need --topic"),
        (["--to-datetime", "2026-01-01"], "--older-than and --to-datetime need --topic"),
        (
            ["--topic", "a", "--older-than", "1d", "--to-datetime", "2026-01-01"],
            "choose --older-than or --to-datetime",
        ),
        (["--topic", "a", "--older-than", "soon"], "--older-than 'soon': expected a time as in 7d"),
        (["--topic", "a", "--older-than", "-1d"], "--older-than '-1d': expected a time as in 7d"),
        (["--topic", "a", "--older-than", "99999d"], "--older-than '99999d': expected a time"),
        (["--topic", "a", "--to-datetime", "soon"], "--to-datetime 'soon': expected a time as in"),
        (
            ["--topic", "a", "--to-datetime", "1969-12-31T23:59:59.999"],
            "--to-datetime '1969-12-31T23:59:59.999': expected a time from 1970 on",
        ),
        (["--topic", "a", "--to-datetime", "0001-01-01T00:00+14:00"], "--to-datetime '0001-01-01"),
        (["--topic", "", "--older-than", "1d"], "the name of a topic or group is empty"),
        (["--topic", "a", "--older-than", "1d", "b"], "'b' goes with nothing; groups follow"),
        (["--topic", "a", "--older-than", "1d"], "bounds that are worked out need --yes where"),
        (["--to-committed", "a", "b"], "bounds that are worked out need --yes where"),
    ],
)
def test_wrong_usage_ends_with_2_and_one_sentence(
    command: Command, arguments: list[str], message: str, home: Path
) -> None:
    done = command("delete-records", *SERVER, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {message}")
    assert done.err.count("\n") == 1
    assert not home.exists()


@pytest.mark.parametrize(
    "bound", [("--topic", "a"), ("--older-than", "1d"), ("--to-committed", "a")]
)
def test_a_file_goes_with_no_other_bound(
    command: Command, offsets: Path, bound: tuple[str, str]
) -> None:
    done = command("delete-records", *SERVER, "--offset-json-file", offsets, *bound)
    assert (done.code, done.out) == (2, "")
    assert "names every offset" in done.err


@pytest.mark.parametrize("option", ["--offset-json-file", "--delete-offset-json-file"])
def test_a_wrong_entry_ends_with_2_before_anything_else(
    command: Command, offsets: Path, option: str, home: Path
) -> None:
    offsets.write_text('{"partitions": [{"topic": "a", "partition": 0, "offset": -2}]}')
    done = command("delete-records", *SERVER, option, offsets)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {offsets}: partitions[0].offset: expected -1 to ")
    assert not home.exists()


def test_a_wrong_property_ends_with_2_and_its_name(
    command: Command, offsets: Path, tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("ssl.truststore.location=/x.jks\n")
    done = command(
        "delete-records", *SERVER, "--offset-json-file", offsets, "--command-config", properties
    )
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: {properties}: ssl.truststore.location: a JKS store ")
    assert done.err.count("\n") == 1


def test_while_deletions_are_paused_it_deletes_nothing(
    command: Command, offsets: Path, tmp_path: Path
) -> None:
    write_pause(tmp_path / "state", Pause("incident 4711"))
    done = command(
        "delete-records", *SERVER, "--offset-json-file", offsets, "--state-dir", tmp_path / "state"
    )
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "retentiond: nothing is deleted: paused: incident 4711; see `retentiond resume`\n"
    )


def test_by_default_the_audit_log_is_among_the_users_states(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert user_state_dir() == tmp_path / "states" / "retentiond"
    monkeypatch.setenv("HOME", "/home/ada")
    for relative in ("", "states"):
        monkeypatch.setenv("XDG_STATE_HOME", relative)
        assert user_state_dir() == Path("/home/ada/.local/state/retentiond")


def test_it_starts_without_what_it_does_not_need() -> None:
    """Kafka's own tool is what it must not be slower than."""
    code = (
        "import sys, retentiond.cli.main, retentiond.cli.delete_records\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_it_deletes_by_one_client_alone() -> None:
    """Kafka-python takes a quarter of a second to load."""
    code = (
        "import sys, retentiond.state.operator_actions, retentiond.kafka.confluent.client\n"
        "import retentiond.kafka.settings.command_config\n"
        "from retentiond.tools.delete_records import offsets_file, request\n"
        "print([name for name in ('kafka', 'pyspark', 'pydantic') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_what_the_client_does_is_logged_with_debug_only(command: Command) -> None:
    asked = ("delete-records", *SERVER, "--topic", "a", "--older-than", "1d", "--dry-run")
    assert '"logger": "kafka.' not in command(*asked).err
    assert '"logger": "kafka.' in command(*asked, "--debug").err
    assert '"logger": "kafka.' in command("--debug", *asked).err
