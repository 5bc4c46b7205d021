"""``retentiond doctor`` at the command line: how findings look, and how it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retentiond.tools.doctor.examine import Examination
from retentiond.tools.doctor.finding import Finding, Level
from tests.unit.cli.conftest import Command, Transcript

FINE = Finding(Level.OK, "brokers", "3 of 3 answer")
WARNED = Finding(Level.WARNING, "topic a", "held: read by no group", "start its readers", ("a",))
BAD = Finding(
    Level.PROBLEM,
    "topic with.a.name.as.long.as.Kafka.takes.names.to.be",
    "DELETE is not granted: nothing can be deleted there, however much every group has read",
    "kafka-acls --add --allow-principal User:NAME --operation Delete --topic " + "x" * 90,
)
HOSTILE = Finding(Level.PROBLEM, "group \x1b[31m[bold]", "can't be read \x07")


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Examination("cluster", (FINE, WARNED, BAD, HOSTILE))
    monkeypatch.setattr("retentiond.tools.doctor.examine.examine", lambda *_: told)


@pytest.fixture(autouse=True)
def spark(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """What is found where Spark is tried."""
    found: list[Finding] = []
    monkeypatch.setattr("retentiond.tools.doctor.spark.try_spark", lambda *_, **__: iter(found))
    return found


@pytest.mark.usefixtures("finds")
@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal_nothing_is_wider_than_it_and_nothing_is_lost(
    columns: int, command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = command("doctor", "--config", config_file).out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= columns
    assert "[bold]" in plain
    squeezed = "".join(plain.split())
    assert "howevermucheverygrouphasread" in squeezed
    assert "→startitsreaders" in squeezed


def test_its_findings_its_json_and_how_it_ends(
    transcript: Transcript,
    config_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    spark: list[Finding],
) -> None:
    """tests/golden/doctor: 1 where there is a problem, 0 with warnings alone."""

    def finds(*found: Finding) -> None:
        told = Examination("cluster", found)
        monkeypatch.setattr("retentiond.tools.doctor.examine.examine", lambda *_: told)

    finds(FINE, WARNED, BAD, HOSTILE)
    transcript("doctor", "--config", config_file)
    transcript("doctor", "--config", config_file, "--output", "json")
    finds(FINE, WARNED)
    transcript("doctor", "--config", config_file)
    finds(FINE)
    spark += [Finding(Level.PROBLEM, "Spark", "there is no Spark session at local[2]", "start it")]
    for option in ("--no-spark", "--spark"):
        transcript("doctor", "--config", config_file, option)
    transcript.check("doctor/findings.txt")
