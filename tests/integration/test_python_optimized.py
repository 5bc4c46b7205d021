"""A plan under ``PYTHONOPTIMIZE``, with which Python leaves out every assert and docstring."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.real import RealDriver
from tests.support.brokers.command import configure, run

pytestmark = [pytest.mark.broker, pytest.mark.thorough("it compiles all libraries again")]


def test_a_plan_is_made(driver: RealDriver, tmp_path: Path, topic_name: str) -> None:
    name = driver.filled_topic(topic_name, {topic_name: 4})
    configure(tmp_path, driver.broker.bootstrap_servers, name)
    optimized = {"PYTHONOPTIMIZE": "2"}
    done = run("plan", "--output", "json", cwd=tmp_path, environment=optimized)
    assert done.code == 0, done
    assert [(row["verdict"], row["cutoff"]) for row in done.plan["partitions"]] == [("delete", 4)]
