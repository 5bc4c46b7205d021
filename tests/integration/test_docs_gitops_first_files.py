"""docs/gitops.md's first files: from nothing to a policy for 300 topics of three teams."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from retentiond.config import load
from tests.contract.real import RealDriver
from tests.support.brokers.command import SPARK, write
from tests.support.tiers import OwnKafka
from tests.support.walked_pages import steps, take, titled_blocks

pytestmark = [pytest.mark.broker, pytest.mark.thorough("a pipeline's processes")]

TEAMS = ("logistics", "payments", "search")

TOPICS_OF_A_TEAM = 100


@pytest.fixture
def servers(own_kafka: OwnKafka) -> Iterator[str]:
    """A cluster with the topics of three teams; an application of each reads half of them."""
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        for team in TEAMS:
            topics = [f"{team}.{at}" for at in range(TOPICS_OF_A_TEAM)]
            for topic in topics:
                driver.create_topic(topic, 1, {"retention.ms": str(30 * 24 * 3_600_000)})
                driver.produce(topic, [driver.now_ms])
            read = topics[: TOPICS_OF_A_TEAM // 2]
            driver.commit(f"{team}-app", {(topic, 0): 1 for topic in read})
        yield kafka.bootstrap_servers


def test_three_teams_with_300_topics_get_their_files_as_the_page_says(
    servers: str, tmp_path: Path
) -> None:
    main = yaml.safe_load(titled_blocks("gitops.md")["retentiond.yaml"])
    path = write(
        tmp_path / "retentiond.yaml",
        main
        | {
            "kafka": {"bootstrap.servers": servers},
            "dry_run": True,
            "state_dir": str(tmp_path / "state"),
            "history": {},
            "http": {"port": 0},
            "spark": SPARK,
        },
    )
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for key, value in (("user.name", "test"), ("user.email", "test@example.com")):
        subprocess.run(["git", "-C", tmp_path, "config", key, value], check=True)

    for step in steps("gitops.md"):
        take(step, step.command, tmp_path)

    config = load(path)
    retention_ms = main["defaults"]["retention.commitoffset.hours"] * 3_600_000
    for team in TEAMS:
        policies = {each.entry.name: each.policy for each in config.entries}
        own = {name: each for name, each in policies.items() if each.owner == team}
        assert set(own) == {f"{team}.{at}" for at in range(TOPICS_OF_A_TEAM)}
        enabled = {name for name, each in own.items() if each.enabled}
        assert enabled == {f"{team}.{at}" for at in range(TOPICS_OF_A_TEAM // 2)}
        assert {own[name].consumed_retention_ms for name in enabled} == {retention_ms}
        assert {own[name].required_groups for name in enabled} == {(f"{team}-app",)}
