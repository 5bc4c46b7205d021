"""A machine whose name has no address, as in some containers: Spark asks for it all the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.decide.plan import decide
from retentiond.errors import SparkUnavailable
from retentiond.model import PlanRow
from retentiond.spark.environment import JAVA_OPTIONS
from retentiond.spark.session import SparkSessions
from tests.support import oracle
from tests.support.brokers.spark_processes import in_a_process
from tests.support.builders.guard_readings import healthy

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.thorough("Spark sessions of their own"),
]


@pytest.fixture
def nameless(tmp_path: Path) -> dict[str, str]:
    """Settings of a JVM that knows no name but one."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    return {JAVA_OPTIONS: f"-Djdk.net.hosts.file={hosts}"}


def plan(conf: dict[str, str]) -> tuple[list[PlanRow], bool]:
    """The rows, and whether a later JVM, of a cluster perhaps, would inherit the address."""
    sessions = SparkSessions("local[2]", conf)
    rows = decide(sessions, healthy().snapshot())
    sessions.stop()
    return [replace(row, detail=None) for row in rows], "SPARK_LOCAL_IP" in os.environ


def start_on_a_cluster(conf: dict[str, str]) -> str:
    with pytest.raises(SparkUnavailable) as caught:
        SparkSessions("spark://127.0.0.1:1", conf).start()
    return str(caught.value)


def test_a_plan_is_made_in_this_process_s_own_jvm(tmp_path: Path, nameless: dict[str, str]) -> None:
    (rows, is_inherited), _ = in_a_process(tmp_path, plan, nameless)

    assert rows == oracle.plan(healthy().snapshot())
    assert not is_inherited


def test_a_jvm_that_needs_the_name_says_so_in_one_sentence(
    tmp_path: Path, nameless: dict[str, str]
) -> None:
    sentence, _ = in_a_process(tmp_path, start_on_a_cluster, nameless)

    assert "(Caused by: java.net.UnknownHostException: " in sentence
