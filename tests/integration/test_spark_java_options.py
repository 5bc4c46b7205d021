"""Spark does not start: one sentence says why, in Spark's or Java's own words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retentiond.decide.plan import decide
from retentiond.errors import SparkUnavailable
from retentiond.spark.environment import VARIABLES
from retentiond.spark.session import SparkSessions
from tests.support.brokers.spark_processes import in_a_process
from tests.support.builders.guard_readings import healthy

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.thorough("Spark sessions of their own"),
]


def start(conf: dict[str, str]) -> str:
    """Why there is no session."""
    sessions = SparkSessions("local[2]", conf)
    with pytest.raises(SparkUnavailable) as caught:
        sessions.start()
    sessions.stop()
    return str(caught.value)


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({"spark.driver.memory": "256m"}, "must be at least 471859200"),
        (
            {"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file:/nowhere/events"},
            "/nowhere/events does not exist",
        ),
        ({"spark.serializer": "org.example.NoSuchSerializer"}, "org.example.NoSuchSerializer"),
        ({"spark.driver.memory": "2x"}, "-Xmx2x"),
        ({"spark.driver.extraJavaOptions": "-XX:+UseG1GC -XX:+UseSerialGC"}, "garbage collectors"),
        ({"spark.driver.extraJavaOptions": "-javaagent:/nowhere.jar"}, "/nowhere.jar"),
    ],
)
def test_the_sentence_is_spark_s_own(conf: dict[str, str], reason: str, tmp_path: Path) -> None:
    sentence, stderr = in_a_process(tmp_path, start, conf)

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


@pytest.mark.parametrize("variable", VARIABLES)
def test_java_s_options_of_the_platform_keep_no_plan_from_being_made(
    variable: str, tmp_path: Path
) -> None:
    variables = {variable: f"{REFUSED} '-Dof.platform=a \\b' -javaagent:/nowhere.jar"}
    options, stderr = in_a_process(tmp_path, plan_with_variables, variables)

    assert not {*variables[variable].split()}.intersection(options)
    assert not any("of.platform" in each for each in options)
    assert stderr == ""


def start_with_variables(variables: dict[str, str]) -> str:
    os.environ.update(variables)
    return start({})


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"SPARK_SUBMIT_OPTS": "-XX:+UseG1GC"}, "Multiple garbage collectors selected"),
    ],
)
def test_a_variable_that_keeps_java_from_starting_is_named(
    variables: dict[str, str], reason: str, tmp_path: Path
) -> None:
    sentence, stderr = in_a_process(tmp_path, start_with_variables, variables)

    assert reason in sentence
    assert all(name in sentence for name in variables)
    assert stderr == ""
