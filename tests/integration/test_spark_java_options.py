"""Spark starts on odd hosts, or one sentence says why not, in Spark's or Java's own words."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.decide.plan import decide
from retentiond.errors import SparkUnavailable
from retentiond.model import PlanRow
from retentiond.spark.environment import JAVA_OPTIONS, VARIABLES
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.brokers.spark_processes import in_a_process
from tests.support.builders.guard_readings import healthy

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.thorough("Spark sessions of their own"),
]


def start(conf: dict[str, str], master: str = "local[2]") -> str:
    """Why there is no session."""
    sessions = SparkSessions(master, conf)
    with pytest.raises(SparkUnavailable) as caught:
        sessions.start()
    sessions.stop()
    return str(caught.value)


SPOILED: list[tuple[dict[str, str], str]] = [
    ({"spark.driver.memory": "256m"}, "must be at least 471859200"),
    (
        {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:/nowhere/events"},
        "/nowhere/events does not exist",
    ),
    ({"spark.serializer": "org.example.NoSuchSerializer"}, "org.example.NoSuchSerializer"),
    ({"spark.driver.memory": "2x"}, "-Xmx2x"),
    ({"spark.driver.extraJavaOptions": "-XX:+UseG1GC -XX:+UseSerialGC"}, "garbage collectors"),
    ({"spark.driver.extraJavaOptions": "-javaagent:/nowhere.jar"}, "/nowhere.jar"),
]
"""Settings with which it does not start, and what says why."""


def start_with_each() -> list[str]:
    return [start(conf) for conf, _ in SPOILED]


def test_the_sentence_is_spark_s_own(tmp_path: Path) -> None:
    sentences, stderr = in_a_process(tmp_path, start_with_each)

    for (_, reason), sentence in zip(SPOILED, sentences, strict=True):
        assert reason in sentence
        assert "ConnectionRefusedError" not in sentence
        assert "\n" not in sentence
    assert stderr == ""


def plan_with_variables(variables: dict[str, str]) -> list[str]:
    """The options of a JVM that has made a plan."""
    os.environ.update(variables)
    sessions = SparkSessions("local[2]", {})
    assert decide(sessions, healthy().snapshot())
    with sessions.use() as session:
        java = session._jvm.java.lang  # type: ignore[union-attr]  # py4j has no types
        given = java.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
        options = [str(each) for each in given]
    sessions.stop()
    return options


REFUSED = (
    "-Xms256m -Xmx200m -XX:+UseG1GC -XX:MaxRAMPercentage=75 -XX:InitialHeapSize=2g -Xlog:gc "
    "-verbose:class"
)
"""Each keeps Spark's first JVM, its launch script, or retentiond's own options from working."""


def test_java_s_options_of_the_platform_keep_no_plan_from_being_made(tmp_path: Path) -> None:
    given = f"{REFUSED} '-Dof.platform=a \\b' -javaagent:/nowhere.jar"
    options, stderr = in_a_process(tmp_path, plan_with_variables, dict.fromkeys(VARIABLES, given))

    assert not {*given.split()}.intersection(options)
    assert not any("of.platform" in each for each in options)
    assert stderr == ""


def start_with_variables(variables: dict[str, str]) -> str:
    os.environ.update(variables)
    return start({})


def test_a_variable_that_keeps_java_from_starting_is_named(tmp_path: Path) -> None:
    variables = {"SPARK_SUBMIT_OPTS": "-XX:+UseG1GC"}
    sentence, stderr = in_a_process(tmp_path, start_with_variables, variables)

    assert "Multiple garbage collectors selected" in sentence
    assert "SPARK_SUBMIT_OPTS" in sentence
    assert stderr == ""


@pytest.fixture
def nameless(tmp_path: Path) -> dict[str, str]:
    """Settings of a JVM for which this machine's name has no address, as in some containers."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    return {JAVA_OPTIONS: f"-Djdk.net.hosts.file={hosts}"}


def plan(conf: dict[str, str]) -> tuple[list[PlanRow], bool]:
    """The rows, and whether a later JVM, of a cluster perhaps, would inherit the address."""
    sessions = SparkSessions("local[2]", conf)
    rows = decide(sessions, healthy().snapshot())
    sessions.stop()
    return [replace(row, detail=None) for row in rows], "SPARK_LOCAL_IP" in os.environ


def test_without_a_name_a_plan_is_made_in_this_process_s_own_jvm(
    tmp_path: Path, nameless: dict[str, str]
) -> None:
    (rows, is_inherited), _ = in_a_process(tmp_path, plan, nameless)

    assert rows == oracle.plan(healthy().snapshot())
    assert not is_inherited


def test_a_jvm_that_needs_the_name_says_so_in_one_sentence(
    tmp_path: Path, nameless: dict[str, str]
) -> None:
    sentence, _ = in_a_process(tmp_path, start, nameless, "spark://127.0.0.1:1")

    assert "(Caused by: java.net.UnknownHostException: " in sentence
