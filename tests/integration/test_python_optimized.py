"""A plan under ``PYTHONOPTIMIZE``, with which Python leaves out every assert and docstring."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.real import RealDriver
from tests.support.brokers.command import consumed, run, settings, write
from tests.support.brokers.deleting import Bench

pytestmark = [pytest.mark.broker, pytest.mark.thorough("it compiles all libraries again")]


def test_a_plan_is_made(driver: RealDriver, tmp_path: Path, topic_name: str) -> None:
    bench = Bench(driver, tmp_path)
    name = bench.topic(topic_name)
    driver.commit(topic_name, {(name, 0): 4})
    config = settings(bench.servers, tmp_path / "planned", topics=[consumed(name)])
    done = run(
        *("--config", write(tmp_path / "retentiond.yaml", config), "plan", "--output", "json"),
        cwd=tmp_path,
        environment={"PYTHONOPTIMIZE": "2"},
    )
    assert done.code == 0, done
    assert [(row["verdict"], row["cutoff"]) for row in done.plan["partitions"]] == [("delete", 4)]
