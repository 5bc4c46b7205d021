"""``retentiond doctor`` at the command line: how findings look, and how it ends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from retentiond.tools.doctor.examine import Examination
from retentiond.tools.doctor.finding import Finding, Level
from tests.unit.cli.conftest import Command

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
def test_in_a_pipe_each_finding_is_one_line_with_its_remedy(
    command: Command, config_file: Path
) -> None:
    done = command("doctor", "--config", config_file)
    first, second, *_, last = done.out.splitlines()
    assert first == "ok       brokers: 3 of 3 answer"
    assert second == "warning  topic a: held: read by no group. Remedy: start its readers"
    assert last == "2 problems, 1 warning; 1 check is ok."
    assert len(done.out.splitlines()) == 5
    assert "\x1b" not in done.out
    assert "\x07" not in done.out


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


@pytest.mark.usefixtures("finds")
def test_as_json_it_is_one_object(command: Command, config_file: Path) -> None:
    done = command("doctor", "--config", config_file, "--output", "json")
    document = json.loads(done.out)
    assert {key: document[key] for key in ("cluster_id", "problems", "warnings", "ok")} == {
        "cluster_id": "cluster",
        "problems": 2,
        "warnings": 1,
        "ok": 1,
    }
    assert document["findings"][1] == {
        "level": "warning",
        "subject": "topic a",
        "sentence": "held: read by no group",
        "remedy": "start its readers",
        "names": ["a"],
    }


@pytest.mark.usefixtures("finds")
def test_a_problem_ends_it_with_1(command: Command, config_file: Path) -> None:
    assert command("doctor", "--config", config_file).code == 1


def test_warnings_alone_end_it_with_0(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Examination("cluster", (FINE, WARNED))
    monkeypatch.setattr("retentiond.tools.doctor.examine.examine", lambda *_: told)
    done = command("doctor", "--config", config_file)
    assert (done.code, done.out.splitlines()[-1]) == (0, "no problems, 1 warning; 1 check is ok.")


def test_a_configuration_that_is_wrong_ends_it_with_2(command: Command, config_file: Path) -> None:
    config_file.write_text("topics: []")
    done = command("doctor", "--config", config_file)
    assert (done.code, done.out) == (2, "")
    assert "kafka" in done.err


def test_what_spark_says_is_told_with_the_rest(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch, spark: list[Finding]
) -> None:
    told = Examination("cluster", (FINE,))
    monkeypatch.setattr("retentiond.tools.doctor.examine.examine", lambda *_: told)
    spark += [Finding(Level.PROBLEM, "Spark", "there is no Spark session at local[2]", "mend it")]
    assert command("doctor", "--config", config_file, "--no-spark").code == 0
    for option in ([], ["--spark"]):
        done = command("doctor", "--config", config_file, *option)
        assert done.code == 1
        assert "there is no Spark session at local[2]" in done.out
