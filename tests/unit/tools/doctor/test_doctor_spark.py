"""Java and its options, on the very host of the tests; Spark is not started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retentiond.config import Spark
from retentiond.errors import SparkUnavailable
from retentiond.model import Failure
from retentiond.state.state_dir import state_lock
from retentiond.tools.doctor.finding import Finding, Level, ok
from retentiond.tools.doctor.spark import (
    check_java_options,
    check_spark,
    java_version,
    spark_tried,
    try_spark,
)
from tests.support.builders.examined_clusters import bad, only


def java(folder: Path, said: str) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin/java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
    ],
)
def test_the_java_at_java_home_is_asked_for_its_version(
    said: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_version() == version


def test_without_java_that_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert isinstance(java_version(), Failure)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(java_version(), Failure)


def with_java(patch: pytest.MonkeyPatch, found: int | Failure, master: str) -> list[Finding]:
    patch.setattr("retentiond.tools.doctor.spark.java_version", lambda: found)
    return list(check_spark(master))


def test_java_17_is_enough_and_an_older_one_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bad(with_java(monkeypatch, 17, "local[2]")) == []
    assert bad(with_java(monkeypatch, 11, "local[2]")) == [(Level.PROBLEM, "Java")]


def test_no_java_is_a_problem_but_for_spark_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Failure("NO_JAVA", "there is no java")
    assert bad(with_java(monkeypatch, missing, "local[2]")) == [(Level.PROBLEM, "Java")]
    assert bad(with_java(monkeypatch, missing, "sc://spark:15002")) == []


def test_variables_that_break_every_java_don_t_hide_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, 'openjdk version "21.0.1" 2023-10-17')
    program = tmp_path / "bin/java"
    program.write_text(
        '#!/bin/sh -u\n[ -z "${JAVA_TOOL_OPTIONS:-}" ] || exit 1\n' + program.read_text()
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xms1g -Xmx1m")
    assert java_version() == 21


def test_java_s_options_of_the_platform_are_a_warning_that_says_what_becomes_of_them() -> None:
    given = {"JAVA_TOOL_OPTIONS": "-Xms256m -Da=b", "_JAVA_OPTIONS": "-XX:+UseG1GC"}
    found = only(check_java_options("local[2]", given))
    assert (found.level, found.subject) == (Level.WARNING, "Java")
    assert "in JAVA_TOOL_OPTIONS and _JAVA_OPTIONS;" in found.sentence
    assert "-Da=b" not in found.sentence  # it may be a password
    assert list(check_java_options("sc://spark", given)) == []
    assert list(check_java_options("local[2]", {"JAVA_HOME": "/java"})) == []


class Sessions:
    """In place of Spark's; ``version`` None: there is no session."""

    def __init__(self, version: str | None) -> None:
        self.version = version
        self.stopped = False

    @contextmanager
    def use(self) -> Iterator[Any]:
        if self.version is None:
            raise SparkUnavailable("there is no Spark session at spark://nowhere")
        yield SimpleNamespace(
            version=self.version, range=lambda _: SimpleNamespace(collect=lambda: [0])
        )

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.1.0", []), ("4.0.0", [(Level.WARNING, "Spark")]), (None, [(Level.PROBLEM, "Spark")])],
)
def test_spark_is_tried_and_ended(
    version: str | None, expected: list[tuple[Level, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(version)
    monkeypatch.setattr("retentiond.spark.session.SparkSessions", lambda *_, **__: sessions)
    monkeypatch.setattr("retentiond.tools.doctor.spark.spark_version", lambda: "4.1.0")
    assert bad(try_spark(Spark(master="spark://nowhere"))) == expected
    assert sessions.stopped


def test_spark_is_tried_unless_a_daemon_has_one_or_nobody_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = ok("Spark", "works")
    monkeypatch.setattr("retentiond.tools.doctor.spark.try_spark", lambda *_, **__: iter([tried]))

    def found(wanted: bool | None) -> list[Finding]:
        return list(spark_tried(Spark(), tmp_path, wanted))

    assert [found(None), found(True), found(False)] == [[tried], [tried], []]
    with state_lock(tmp_path):
        (left_out,) = found(None)
        assert found(True) == [tried]
    assert left_out.level is Level.OK
    assert "was not started beside retentiond with pid" in left_out.sentence
