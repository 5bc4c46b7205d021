"""Commands under ``PYTHONOPTIMIZE``, with which Python leaves out every assert."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.real import RealDriver
from tests.support.brokers.command import consumed, run, settings, write
from tests.support.brokers.deleting import Bench

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("level", ["1", "2"])
def test_a_healthy_broker_answers(
    driver: RealDriver, tmp_path: Path, topic_name: str, level: str
) -> None:
    bench = Bench(driver, tmp_path)
    name = bench.topic(topic_name)
    driver.commit(topic_name, {(name, 0): 4})
    done = run(
        *("delete-records", "--bootstrap-server", bench.servers, "--dry-run"),
        *("--topic", name, "--older-than", "0s", "--to-committed", topic_name),
        cwd=tmp_path,
        environment={"PYTHONOPTIMIZE": level},
    )
    assert (done.code, done.err) == (0, "")
    assert f"{name}-0  from 0 to 4: 4 records" in done.out


@pytest.mark.thorough("Spark sessions of their own")
def test_a_plan_is_made(driver: RealDriver, tmp_path: Path, topic_name: str) -> None:
    """Spark and all evidence, without asserts and docstrings."""
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
