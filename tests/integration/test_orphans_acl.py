"""What an authorizer hides from ``retentiond orphans`` is never taken for gone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType

from tests.support.brokers.command import Document, Done
from tests.support.brokers.guarded import CLUSTER, EVERY_TOPIC, Guarded, rule
from tests.support.command_here import run_here

pytestmark = pytest.mark.broker

CONFIGS = rule(CLUSTER, AclOperation.DESCRIBE_CONFIGS)

TOPICS = rule(EVERY_TOPIC)

ENOUGH = (rule(CLUSTER), CONFIGS, TOPICS)
"""The rights that the documents ask for."""

PROPERTIES = """\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="retentiond" password="secret";
"""


@pytest.fixture(scope="module", autouse=True)
def gone(guarded: Guarded) -> None:
    """A topic that is there, and a folder of one that never was."""
    guarded.driver.create_topic("there")
    guarded.driver.produce("there", [guarded.driver.now_ms])
    (log_dir,) = guarded.driver.broker.nodes[0].log_dirs
    shutil.copytree(log_dir / "there-0", log_dir / "gone-0")


def orphans(guarded: Guarded, folder: Path, *options: str) -> Done:
    broker = guarded.driver.broker
    (log_dir,) = broker.nodes[0].log_dirs
    config = folder / "client.properties"
    config.write_text(PROPERTIES)
    return run_here(
        "orphans",
        *("--bootstrap-server", broker.bootstrap_servers, "--command-config", config),
        *("--log-dir", log_dir, "--state-dir", folder / "state", *options),
        cwd=folder,
    )


def look(guarded: Guarded, folder: Path, rules: Sequence[AclBinding], *, code: int = 0) -> Document:
    """With ``--remove``, at once and whatever the records' age."""
    guarded.grant(*rules)
    at_once = ("--remove", "--yes", "--after", "0s", "--retention", "1000d")
    done = orphans(guarded, folder, "--output", "json", *at_once)
    assert (done.code, done.err) == (code, "")
    return done.plan


def folders(look: Document, kind: str) -> set[str]:
    """Of this module's two."""
    return {each["folder"] for each in look[kind]} & {"gone-0", "there-0"}


def test_with_the_documented_rights_the_reading_is_complete(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = look(guarded, tmp_path, ENOUGH)
    assert found["complete"]
    assert folders(found, "orphans") == {"gone-0"}


@pytest.mark.parametrize("visible", [(), (rule((ResourceType.TOPIC, "there")),)])
def test_a_topic_that_may_not_be_seen_is_left_alone(
    guarded: Guarded, tmp_path: Path, visible: tuple[AclBinding, ...]
) -> None:
    found = look(guarded, tmp_path, (rule(CLUSTER), CONFIGS, *visible))
    assert folders(found, "orphans") == set()
    assert folders(found, "left_alone") == ({"gone-0"} if visible else {"gone-0", "there-0"})
    assert all("TOPIC_AUTHORIZATION_FAILED" in each["why"] for each in found["left_alone"])


def test_without_describe_on_the_cluster_nothing_is_removed(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = look(guarded, tmp_path, (CONFIGS, TOPICS), code=1)
    assert found["problems"] == ["the principal may not DESCRIBE the cluster; grant it"]
    (orphan,) = found["orphans"]
    assert (orphan["folder"], orphan["fate"]) == ("gone-0", "kept")


def test_without_describe_configs_the_broker_does_not_tell_its_retention(
    guarded: Guarded, tmp_path: Path
) -> None:
    guarded.grant(rule(CLUSTER), TOPICS)
    done = orphans(guarded, tmp_path)
    assert done.code == 1
    assert "grant DESCRIBE_CONFIGS on the cluster, or give --retention" in done.out
