"""Two sessions in one process, which PySpark has place for one of: the last one that was asked for
has it, and each stays what it is."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from retentiond.spark.session import SparkSessions
from tests.support.brokers.spark_processes import in_a_process

pytestmark = [pytest.mark.spark, pytest.mark.thorough("Spark sessions of their own")]

NAME = "spark.app.name"


def answer(sessions: SparkSessions) -> tuple[str | None, int]:
    with sessions.use() as session:
        frame = session.range(3).selectExpr("sum(id)")
        return session.conf.get(NAME), frame.collect()[0][0]


def take_turns() -> tuple[list[tuple[str | None, int]], int]:
    first, second = SparkSessions("local[1]", {NAME: "a"}), SparkSessions("local[1]", {NAME: "b"})
    answers = [answer(first), answer(second), answer(first)]
    second.stop()
    answers.append(answer(first))
    first.stop()
    jvms = [each for each in psutil.Process().children(recursive=True) if "java" in each.name()]
    return answers, len(jvms)


def test_a_session_outlives_another_that_had_its_place_meanwhile(tmp_path: Path) -> None:
    (answers, jvms), stderr = in_a_process(tmp_path, take_turns)

    assert answers == [("a", 3), ("b", 3), ("a", 3), ("a", 3)]
    assert jvms == 0
    assert stderr == ""
