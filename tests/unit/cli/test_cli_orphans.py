"""``retentiond orphans``: what is refused before anything is asked, and how a look is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from retentiond.cli.options import Output
from retentiond.cli.orphans import approval, document, show
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.state.operator_actions import actions_in
from retentiond.tools.orphans.remove import AuditedRemovals
from tests.support.builders.orphans_host import BROKER, CLUSTER, HOUR_MS, OLD_ID, Host
from tests.unit.cli.conftest import Command

SERVERS = ("--bootstrap-server", "127.0.0.1:1")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--after", "2"], "--after '2' is no duration"),
        (["--after", "-1h"], "--after '-1h' is no duration"),
        (["--retention", "week"], "--retention 'week' is no duration"),
        (["--remove"], "--remove needs --yes where it can't ask"),
    ],
)
def test_a_wrong_option_ends_with_2_and_one_sentence(
    command: Command, host: Host, arguments: list[str], said: str
) -> None:
    done = command(
        "orphans", *SERVERS, "--log-dir", host.log_dir, "--state-dir", host.state_dir, *arguments
    )
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert list(host.state_dir.iterdir()) == []


@pytest.fixture
def asked(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers that the command has asked, in place of which the host's cluster answers."""
    servers: list[str] = []

    def connect(settings: ClientSettings) -> object:
        servers.append(settings.bootstrap_servers)
        return host.cluster

    monkeypatch.setattr("retentiond.tools.orphans.scan.KafkaReplicas", connect)
    monkeypatch.setattr(host.cluster, "close", lambda: None, raising=False)
    return servers


@pytest.mark.parametrize("arguments", [("--config", "mine.yaml"), ()])
def test_without_a_server_the_configuration_names_the_cluster(
    command: Command, host: Host, asked: list[str], config_file: Path, arguments: tuple[str, ...]
) -> None:
    if not arguments:
        config_file.rename(config_file.with_name("retentiond.yaml"))
    done = command("orphans", *arguments, "--log-dir", host.log_dir, "--state-dir", host.state_dir)
    assert (done.code, done.err) == (0, "")
    assert asked == ["localhost:9092"]


def test_a_server_that_is_given_goes_before_the_configuration_that_is_found(
    command: Command, host: Host, asked: list[str], config_file: Path
) -> None:
    config_file.rename(config_file.with_name("retentiond.yaml"))
    done = command("orphans", *SERVERS, "--log-dir", host.log_dir, "--state-dir", host.state_dir)
    assert (done.code, done.err) == (0, "")
    assert asked == [SERVERS[1]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (),
            "retentiond.yaml: can't read the configuration (No such file or directory); give the "
            "path of a file with --config, or the cluster with --bootstrap-server",
        ),
        (
            (*SERVERS, "--config", "mine.yaml"),
            "give either --config or --bootstrap-server, which goes without one",
        ),
        (
            ("--config", "mine.yaml", "--command-config", "admin.properties"),
            "--command-config goes with --bootstrap-server, without a configuration",
        ),
    ],
)
def test_it_says_how_to_name_the_cluster(
    command: Command, host: Host, config_file: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert config_file.exists()
    done = command("orphans", *arguments, "--log-dir", host.log_dir, "--state-dir", host.state_dir)
    assert (done.code, done.out, done.err) == (2, "", f"retentiond: {said}\n")


def test_a_folder_that_is_no_log_directory_is_refused(command: Command, tmp_path: Path) -> None:
    done = command("orphans", *SERVERS, "--log-dir", tmp_path)
    assert done.code == 2
    assert "is no log directory of a broker; name one of log.dirs" in done.err


def test_a_look_as_json_has_a_row_for_each_directory_and_orphan(host: Host) -> None:
    host.put("gone-0")
    host.put("orders-0")
    host.cluster.assign("orders", BROKER)
    (host.log_dir / "lost+found").mkdir()
    shown = document(host.look())
    (orphan,) = shown.pop("orphans")
    assert {key: orphan[key] for key in orphan if key not in ("newest_record", "since")} == {
        "log_dir": str(host.log_dir),
        "folder": "gone-0",
        "topic": "gone",
        "partition": 0,
        "kind": "replica",
        "topic_id": OLD_ID,
        "size_bytes": 161,
        "why": "there is no such topic",
        "fate": "kept",
        "reason": "an orphan for too short a time: 2 hours more",
    }
    shown.pop("at")
    assert shown == {
        "broker": BROKER,
        "cluster_id": CLUSTER,
        "complete": True,
        "problems": [],
        "retention_ms": 604_800_000,
        "log_dirs": [{"log_dir": str(host.log_dir), "count": 1, "size_bytes": 161}],
        "left_alone": [
            {
                "log_dir": str(host.log_dir),
                "folder": "lost+found",
                "why": "its name is no partition's",
            }
        ],
    }


def test_a_look_as_a_table_shows_orphans_and_what_is_left_alone(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    host.put("gone-0")
    (host.log_dir / "lost+found").mkdir()
    host.cluster.may_describe_cluster = False
    show(host.look(), Output.TABLE)
    out = capsys.readouterr().out
    assert f"{host.log_dir}/gone-0" in out
    assert "kept: the cluster was not read completely" in out
    assert "lost+found: its name is no partition's" in out
    assert "incomplete: the principal may not DESCRIBE the cluster" in out
    assert "broker 7: 1 orphan, of which 1 kept, 0 removable, 0 removed, 0 failed." in out


def test_a_removal_is_two_rows_of_the_audit_log(host: Host) -> None:
    host.put("gone-0")
    host.look()
    (orphan,) = host.look(after_ms=3 * HOUR_MS).orphans
    audit = AuditedRemovals(host.state_dir)
    audit.removing(orphan, "gone-0.x-delete")
    audit.settled(orphan.removed())
    begun, ended = actions_in(host.state_dir)
    assert (begun.action, ended.action) == ("orphan-removal", "orphan-removal-outcome")
    assert begun.subject == ended.subject
    assert json.loads(begun.detail)["folder"] == "gone-0"
    assert json.loads(begun.detail)["renamed_to"] == "gone-0.x-delete"
    assert json.loads(ended.detail) == {"fate": "removed", "reason": None}


@pytest.mark.parametrize(("answer", "left"), [(True, set()), (False, {"gone-0"})])
def test_on_a_terminal_it_shows_what_would_go_and_asks(
    host: Host,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: bool,
    left: set[str],
) -> None:
    asked: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        asked.append(question)
        return answer and err

    monkeypatch.setattr(typer, "confirm", confirm)
    host.put("gone-0")
    host.look()
    assert asked == []
    host.look(after_ms=3 * HOUR_MS, approve=approval(yes=False))
    assert asked == ["Remove this folder for good?"]
    assert f"{host.log_dir}/gone-0: 161 bytes; there is no such topic" in capsys.readouterr().err
    assert host.names() == left


def test_with_yes_it_asks_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer, "confirm", None)
    host.put("gone-0")
    host.look()
    host.look(after_ms=3 * HOUR_MS, approve=approval(yes=True))
    assert host.names() == set()
