"""Commands and the daemon before a broker that lets nobody in, and what none of them ever says."""

from __future__ import annotations

import base64
import signal
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from operator import le
from pathlib import Path
from typing import Any

import pytest

from tests.contract.real import RealDriver
from tests.faults.held import ENVIRONMENT, Held, held_command
from tests.support.brokers.command import Done, Process, run, settings, write
from tests.support.brokers.secured import (
    KAFKAS_MODULES,
    PASSWORD,
    USER,
    WRONG_PASSWORD,
    Section,
    Secured,
    secured_kafka,
)
from tests.support.brokers.unsafe import REFUSALS, Refusal
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker

TOPIC = "orders"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """With ten records, seven of which a group has read."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as made:
        with closing(RealDriver(made.kafka, made.kafka.internal_servers)) as driver:
            driver.create_topic(TOPIC)
            driver.produce(TOPIC, [driver.now_ms] * 10)
            driver.commit("billing", {(TOPIC, 0): 7})
        yield made


class Desk:
    """An operator's folder, and commands without Spark, which has no part in this."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._flags = folder / "flags"
        self._flags.mkdir()

    def configure(self, section: Section, **changes: Any) -> None:
        document = settings("replaced", self._folder / "state", kafka=section, **changes)
        write(self._folder / "retentiond.yaml", document)

    def run(self, *arguments: object) -> Done:
        command = held_command("nowhere", self._flags)
        return run(*arguments, cwd=self._folder, command=command, environment=ENVIRONMENT)

    def delete_records(self, section: Section, *arguments: object) -> Done:
        """With the same connection, written as Java's properties."""
        properties = self._folder / "client.properties"
        properties.write_text("".join(f"{line}\n" for line in _in_java(section)))
        return self.run(
            *("delete-records", "--bootstrap-server", section["bootstrap.servers"]),
            *("--command-config", properties, "--state-dir", self._folder / "state"),
            *("--topic", TOPIC, "--older-than", "1ms", "--yes", *arguments),
        )


def _in_java(section: Section) -> Iterator[str]:
    yield f"security.protocol={section['security.protocol']}"
    yield "ssl.truststore.type=PEM"
    yield f"ssl.truststore.location={section['ssl.ca.location']}"
    if mechanism := section.get("sasl.mechanism"):
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'username="{section["sasl.username"]}" password="{section["sasl.password"]}"'
        yield f"sasl.mechanism={mechanism}"
        yield f"sasl.jaas.config={KAFKAS_MODULES}.{module} required {login};"
    if certificate := section.get("ssl.certificate.location"):
        yield "ssl.keystore.type=PEM"
        yield f"ssl.keystore.location={Path(certificate).with_suffix('.both')}"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_a_one_shot_command_ends_with_1_and_the_sentence(
    secured: Secured, desk: Desk, refusal: Refusal
) -> None:
    section = refusal.section(secured)
    desk.configure(section)
    commands = [("plan",), ("run", "--once")]
    for command in commands if refusal is REFUSALS[0] else commands[:1]:  # they share the way
        done = desk.run(*command)
        assert (done.code, done.out) == (1, "")
        said = done.err.removesuffix("\n").removeprefix("retentiond: ")
        refusal.assert_said(said, section["bootstrap.servers"])


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_delete_records_ends_with_1_and_the_sentence_in_its_own_words(
    secured: Secured, desk: Desk, refusal: Refusal
) -> None:
    section = refusal.section(secured)
    done = desk.delete_records(section)
    assert (done.code, done.out) == (1, "")
    beginning = f"retentiond: {section['bootstrap.servers']} can't be asked: {refusal.sentence}"
    assert done.err.startswith(beginning)
    assert "kafka." not in done.err
    assert done.err.count("\n") == 1
    assert WRONG_PASSWORD not in done.err


def failures(daemon: Process) -> float:
    name = 'retentiond_cycles_total{result="failed"} '
    (line,) = (each for each in daemon.get("/metrics").text.splitlines() if each.startswith(name))
    return float(line.removeprefix(name))


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
            tries = failures(daemon) + 2
            eventually(partial(failures, daemon), partial(le, tries))
            assert len(daemon.events("retentiond.cycle_failed")) == count
            ready = daemon.get("/readyz")
            assert (ready.status_code, ready.text) == (
                503,
                f"no complete cycle yet; KafkaUnavailable: {cause.kind}\n",
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


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("password", [PASSWORD, WRONG_PASSWORD], ids=["right", "wrong"])
def test_no_command_shows_a_password_even_where_it_debugs(
    secured: Secured, desk: Desk, mechanism: str, password: str
) -> None:
    section = secured.login(mechanism, password)
    desk.configure(section)
    code = 0 if password == PASSWORD else 1
    for command in (("check",), ("plan", "--output", "json"), ("run", "--once")):
        done = desk.run(*command, "--debug")
        assert done.code == (0 if command == ("check",) else code)
        assert_silent(done, password)
    done = desk.delete_records(section, "--dry-run", "--debug")
    assert done.code == code
    assert_silent(done, password)


@pytest.mark.parametrize(
    ("mistake", "path"),
    [
        ({"sasl.pasword": WRONG_PASSWORD}, "kafka.sasl.pasword"),
        ({"sasl.mechanism": WRONG_PASSWORD}, "kafka.sasl.mechanism"),
        ({"socket.timeout.ms": WRONG_PASSWORD}, "kafka.socket.timeout.ms"),
        ({"ssl.key.password": WRONG_PASSWORD, "ssl.key.location": "/dev/null"}, "kafka"),
    ],
)
def test_an_error_of_the_file_names_the_property_and_not_its_value(
    secured: Secured, desk: Desk, mistake: Section, path: str
) -> None:
    section = secured.login("PLAIN") | mistake
    desk.configure(section)
    for arguments in (("check",), ("plan", "--debug")):
        done = desk.run(*arguments)
        assert_silent(done, WRONG_PASSWORD, PASSWORD)
        if arguments == ("check",) and path == "kafka":  # no client is made offline
            continue
        assert done.code == 2
        assert f"{path}: " in done.err


def test_a_password_from_a_file_never_gets_into_what_is_told(
    secured: Secured, desk: Desk, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    section = secured.login("SCRAM-SHA-512", "${file:password}")
    desk.configure(section)
    done = desk.run("plan", "--output", "json", "--debug")
    assert done.code == 0
    assert done.plan["partitions"][0]["topic"] == TOPIC
    assert_silent(done, PASSWORD)
    assert USER not in done.out
