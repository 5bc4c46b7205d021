"""``retentiond orphans``: what is refused before anything is asked, and how a look is shown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer

from retentiond.cli.options import Output
from retentiond.cli.orphans import approval, show
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.state.operator_actions import actions_in
from retentiond.tools.orphans.remove import AuditedRemovals
from tests.support.builders.orphans_host import BROKER, HOUR_MS, Host
from tests.support.golden import Golden
from tests.unit.cli.conftest import Command, Transcript

SERVERS = ("--bootstrap-server", "127.0.0.1:1")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_it_refuses(
    transcript: Transcript, host: Host, config_file: Path, tmp_path: Path
) -> None:
    """tests/golden/orphans: with 2 and one sentence, before anything is asked."""
    places = ("--log-dir", host.log_dir, "--state-dir", host.state_dir)
    for arguments in (
        [*SERVERS, "--after", "2"],
        [*SERVERS, "--after", "-1h"],
        [*SERVERS, "--retention", "week"],
        [*SERVERS, "--remove"],
        [],
        [*SERVERS, "--config", config_file],
        ["--config", config_file, "--command-config", "admin.properties"],
    ):
        transcript.refused("orphans", *places, *arguments)
    transcript.refused("orphans", *SERVERS, "--log-dir", tmp_path)
    assert list(host.state_dir.iterdir()) == []
    transcript.check("orphans/refused.txt")


@pytest.fixture
def asked(host: Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The servers that the command has asked, in place of which the host's cluster answers."""
    servers: list[str] = []

    def connect(settings: ClientSettings, _observe: object) -> object:
        servers.append(settings.bootstrap_servers)
        return host.cluster

    monkeypatch.setattr("retentiond.kafka.cluster.KafkaCluster", connect)
    monkeypatch.setattr(host.cluster, "close", lambda: None, raising=False)
    return servers


@pytest.mark.parametrize(
    ("arguments", "server"),
    [
        (("--config", "mine.yaml"), "localhost:9092"),
        ((), "localhost:9092"),
        (SERVERS, SERVERS[1]),
    ],
)
def test_a_server_that_is_given_goes_before_the_configuration_that_is_found(  # noqa: PLR0917
    command: Command,
    host: Host,
    asked: list[str],
    config_file: Path,
    arguments: tuple[str, ...],
    server: str,
) -> None:
    if "--config" not in arguments:
        config_file.rename(config_file.with_name("retentiond.yaml"))
    done = command("orphans", *arguments, "--log-dir", host.log_dir, "--state-dir", host.state_dir)
    assert (done.code, done.err) == (0, "")
    assert asked == [server]


def test_how_a_look_is_shown(
    host: Host,
    golden: Golden,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """tests/golden/orphans: orphans, what is left alone, and what could not be read; then one that
    may go."""
    monkeypatch.setenv("COLUMNS", "200")
    host.put("gone-0")
    host.put("orders-0")
    host.cluster.assign("orders", BROKER)
    (host.log_dir / "lost+found").mkdir()
    looks = [host.look(), host.look(after_ms=3 * HOUR_MS)]
    host.cluster.may_describe_cluster = False
    looks.append(host.look(after_ms=4 * HOUR_MS))
    for look in looks:
        show(look, Output.TABLE)
    tables = re.sub(r" {2,}", "  ", capsys.readouterr().out)  # a folder's name may be longer
    show(looks[0], Output.JSON)
    document = capsys.readouterr().out
    times = sorted(set(re.findall(r"\d{4}-\d\d-\d\d[T ][\d:.]+Z?", tables + document)))
    golden.shown |= {time: f"(time {number})" for number, time in enumerate(times)}
    golden("orphans/looks.txt", tables)
    golden("orphans/look.json", document)


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
