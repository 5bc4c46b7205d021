"""Commands and the daemon before a broker that lets nobody in, and what none of them ever says."""

from __future__ import annotations

import base64
import signal
from functools import partial
from operator import le
from pathlib import Path
from typing import Any

import pytest

from tests.faults.held import Held
from tests.support.brokers.command import Done, configure
from tests.support.brokers.secured import (
    KAFKAS_MODULES,
    PASSWORD,
    WRONG_PASSWORD,
    Section,
    Secured,
)
from tests.support.brokers.unsafe import REFUSALS
from tests.support.command_here import run_here
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

TOPIC = "orders"


class Desk:
    """An operator's folder, and commands without Spark, which has no part in this."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def configure(self, section: Section, **changes: Any) -> None:
        configure(self._folder, "replaced", kafka=section, **changes)

    def run(self, *arguments: object) -> Done:
        return run_here(*arguments, cwd=self._folder)

    def delete_records(self, section: Section) -> Done:
        """A dry run with the same login by PLAIN, written as Java's properties."""
        login = f'username="{section["sasl.username"]}" password="{section["sasl.password"]}"'
        properties = self._folder / "client.properties"
        properties.write_text(
            "security.protocol=SASL_SSL\n"
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={section['ssl.ca.location']}\n"
            "sasl.mechanism=PLAIN\n"
            f"sasl.jaas.config={KAFKAS_MODULES}.plain.PlainLoginModule required {login};\n"
        )
        return self.run(
            *("delete-records", "--bootstrap-server", section["bootstrap.servers"]),
            *("--command-config", properties, "--state-dir", self._folder / "state"),
            *("--topic", TOPIC, "--older-than", "1ms", "--yes", "--dry-run", "--debug"),
        )


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("command", [("plan",), ("run", "--once")], ids=" ".join)
def test_a_one_shot_command_ends_with_1_and_the_sentence(
    secured: Secured, desk: Desk, command: tuple[str, ...]
) -> None:
    """What is said of every refusal: test_kafka_security.py. What delete-records says:
    test_cli_delete_records_security.py."""
    refusal = REFUSALS[0]
    section = refusal.section(secured)
    desk.configure(section)
    done = desk.run(*command)
    assert (done.code, done.out) == (1, "")
    said = done.err.removesuffix("\n").removeprefix("retentiond: ")
    refusal.assert_said(said, section["bootstrap.servers"])


def test_the_daemon_lives_on_unready_says_each_cause_once_and_recovers(
    secured: Secured, desk: Desk, tmp_path: Path
) -> None:
    causes = [each for each in REFUSALS if each.name in ("wrong SCRAM-SHA-512 password", "expired")]
    answers = []
    desk.configure(causes[0].section(secured))
    with Held("nowhere", "run", cwd=tmp_path) as daemon:
        for count, cause in enumerate(causes, start=1):
            section = cause.section(secured)
            if count > 1:
                desk.configure(section)
                daemon.signal(signal.SIGHUP)
            said = daemon.await_events("retentiond.cycle_failed", count)[-1]["error"]
            cause.assert_said(said, section["bootstrap.servers"])
            eventually(lambda: daemon.failures, partial(le, daemon.failures + 2))
            assert len(daemon.events("retentiond.cycle_failed")) == count
            ready = daemon.get("/readyz")
            assert (ready.status_code, ready.text) == (
                503,
                f"no complete cycle yet; {said}\n",
            )
            assert daemon.get("/healthz").status_code == 200
            answers += [daemon.get(path).text for path in ("/readyz", "/metrics", "/api/plan")]
        desk.configure(secured.login("SCRAM-SHA-512"))
        daemon.signal(signal.SIGHUP)
        eventually(lambda: daemon.get("/readyz").text == "ready\n")
        daemon.await_events("retentiond.cycle_recovered")
        answers += [daemon.get(path).text for path in ("/readyz", "/metrics", "/api/plan", "/")]
        said = daemon.said
    for secret in (PASSWORD, WRONG_PASSWORD):
        assert secret not in "".join([said, *answers])


def assert_silent(done: Done, *secrets: str) -> None:
    for secret in secrets:
        for form in (secret, base64.b64encode(secret.encode()).decode().rstrip("=")):
            assert form not in done.out + done.err


@pytest.mark.parametrize("password", [PASSWORD, WRONG_PASSWORD], ids=["right", "wrong"])
def test_no_command_shows_a_password_even_where_it_debugs(
    secured: Secured, desk: Desk, password: str
) -> None:
    """By PLAIN, which sends it. Every mechanism: test_kafka_security.py."""
    section = secured.login("PLAIN", password)
    desk.configure(section)
    code = 0 if password == PASSWORD else 1
    for command in (("check",), ("plan", "--output", "json"), ("run", "--once")):
        done = desk.run(*command, "--debug")
        assert done.code == (0 if command == ("check",) else code)
        assert_silent(done, password)
    done = desk.delete_records(section)
    assert done.code == code
    assert_silent(done, password)
