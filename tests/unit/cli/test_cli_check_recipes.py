"""docs/recipes.md: each policy file is valid, and leaves alone what is never to be enabled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retentiond.config import Config, TopicPolicy, load
from retentiond.tell.unseen_readers import KnownSystem, system_of
from tests.unit.cli.conftest import Command

PAGE = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text()

RECIPES = re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
"""Each heading with its policy file."""

NEVER = {
    "Sentry, self-hosted": ("snuba-transactions-commit-log", "ingest-events-dlq"),
    "PostHog": ("events_dead_letter_queue", "clickhouse_events_json_dlq"),
    "Apache Druid": ("orders-of-another",),
    "Apache Flink": ("payments.savepoints",),
    "Kafka Streams": ("orders-app-totals-changelog", "orders-app-by-user-repartition"),
    "Sinks of Kafka Connect": ("connect-offsets", "my-connect-cluster-configs", "clicks-dlq"),
    "Debezium": ("schema-changes.inventory", "schemahistory.inventory", "dbhistory.inventory"),
    "MirrorMaker 2": ("mm2-offset-syncs.west.internal", "heartbeats", "a.checkpoints.internal"),
    "Spark Structured Streaming": ("clicks.batch",),
}

ENABLED = {
    "Sentry, self-hosted": ("events", "ingest-replay-events", "snuba-spans", "transactions"),
    "PostHog": ("session_recording_snapshot_item_events", "clickhouse_events_json"),
    "Apache Druid": ("orders",),
    "Apache Flink": ("payments",),
    "Kafka Streams": ("orders.raw",),
    "Sinks of Kafka Connect": ("clicks",),
    "Debezium": ("inventory.public.orders",),
    "MirrorMaker 2": ("orders",),
    "Spark Structured Streaming": ("clicks",),
}


def recipe(folder: Path, text: str) -> Path:
    (folder / "recipe.yaml").write_text(text)
    path = folder / "retentiond.yaml"
    path.write_text("kafka: {bootstrap.servers: localhost:9092}\npolicies: recipe.yaml\n")
    return path


def test_every_system_has_a_recipe() -> None:
    assert [title for title, _ in RECIPES] == list(ENABLED) == list(NEVER)
    assert PAGE.count("```yaml") == len(RECIPES)
    for _, text in RECIPES:
        assert text.startswith("owner: ")


@pytest.mark.parametrize(("title", "text"), RECIPES, ids=[title for title, _ in RECIPES])
def test_a_recipe_is_a_policy_file_that_enables_what_it_says(
    title: str, text: str, tmp_path: Path, command: Command
) -> None:
    path = recipe(tmp_path, text)
    done = command("check", "--no-secrets", "--config", path)
    assert (done.code, done.err) == (0, "")
    config: Config = load(path, None)
    for topic in ENABLED[title]:
        assert isinstance(config.policy_for(topic), TopicPolicy), topic
    for topic in NEVER[title]:
        assert config.policy_for(topic) is None, topic


def test_the_topics_of_other_systems_in_recipes_are_those_that_a_first_look_leaves_out() -> None:
    known = {title: [system_of(topic) for topic in NEVER[title]] for title in NEVER}
    for title in ("Kafka Streams", "Debezium", "MirrorMaker 2"):
        assert all(isinstance(each, KnownSystem) for each in known[title]), title
