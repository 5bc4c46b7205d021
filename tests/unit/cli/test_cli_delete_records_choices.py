"""``retentiond delete-records`` where nothing reaches a cluster: usage, files, the audit log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from retentiond.state.operator_actions import Pause, write_pause
from retentiond.state_places import user_state_dir
from tests.unit.cli.conftest import Command, Transcript

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


def test_what_it_refuses(transcript: Transcript, offsets: Path, tmp_path: Path, home: Path) -> None:
    """tests/golden/delete-records: one sentence each, before anything is written."""
    transcript.refused("delete-records", "--offset-json-file", offsets)
    for arguments in (
        [],
        ["--topic", "a"],
        ["--older-than", "7d"],
        ["--to-datetime", "2026-01-01"],
        ["--topic", "a", "--older-than", "1d", "--to-datetime", "2026-01-01"],
        ["--topic", "a", "--older-than", "soon"],
        ["--topic", "a", "--older-than", "-1d"],
        ["--topic", "a", "--older-than", "99999d"],
        ["--topic", "a", "--to-datetime", "soon"],
        ["--topic", "a", "--to-datetime", "1969-12-31T23:59:59.999"],
        ["--topic", "a", "--to-datetime", "0001-01-01T00:00+14:00"],
        ["--topic", "", "--older-than", "1d"],
        ["--topic", "a", "--older-than", "1d"],
        ["--topic", "a", "--to-committed", "a", "b"],
        ["--offset-json-file", offsets, "--topic", "a"],
        ["--offset-json-file", offsets, "--older-than", "1d"],
    ):
        transcript.refused("delete-records", *SERVER, *arguments)
    properties = tmp_path / "client.properties"
    properties.write_text("ssl.truststore.location=/x.jks\n")
    file = ("--offset-json-file", offsets)
    transcript.refused("delete-records", *SERVER, *file, "--command-config", properties)
    write_pause(tmp_path / "state", Pause("incident 4711"))
    transcript.refused("delete-records", *SERVER, *file, "--state-dir", tmp_path / "state")
    offsets.write_text('{"partitions": [{"topic": "a", "partition": 0, "offset": -2}]}')
    transcript.refused("delete-records", *SERVER, *file)
    transcript.refused("delete-records", *SERVER, "--delete-offset-json-file", offsets)
    assert not home.exists()
    transcript.check("delete-records/refused.txt")


def test_by_default_the_audit_log_is_among_the_users_states(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert user_state_dir() == tmp_path / "states" / "retentiond"
    monkeypatch.setenv("HOME", "/home/ada")
    for relative in ("", "states"):
        monkeypatch.setenv("XDG_STATE_HOME", relative)
        assert user_state_dir() == Path("/home/ada/.local/state/retentiond")


@pytest.mark.parametrize(
    ("step", "modules", "unneeded"),
    [
        ("it starts", "cli.main, retentiond.cli.delete_records", HEAVY),
        (
            "it works",
            "kafka.cluster, retentiond.tools.delete_records.bounds",
            ("pyspark", "pyarrow", "structlog", "starlette"),
        ),
    ],
)
def test_it_loads_nothing_that_it_does_not_need(
    step: str, modules: str, unneeded: tuple[str, ...]
) -> None:
    """Kafka's own tool is what it must not be slower than."""
    code = (
        f"import sys, retentiond.{modules}\n"
        f"print([name for name in {unneeded} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n", step


def test_what_the_client_does_is_logged_with_debug_only(command: Command) -> None:
    asked = ("delete-records", *SERVER, "--topic", "a", "--older-than", "1d", "--dry-run")
    assert '"logger": "kafka.' not in command(*asked).err
    assert '"logger": "kafka.' in command(*asked, "--debug").err
    assert '"logger": "kafka.' in command("--debug", *asked).err


def test_no_name_in_a_warning_steers_the_terminal(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "offsets\x1b[31m.json"
    path.write_text('{"partitions": [], "colour": "red"}')
    done = command("delete-records", *SERVER, "--offset-json-file", path, "--dry-run")
    warning = "offsets\N{REPLACEMENT CHARACTER}[31m.json: colour: this field is unknown"
    assert warning in done.err
    assert "\x1b" not in done.err
