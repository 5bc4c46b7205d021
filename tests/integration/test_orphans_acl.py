"""What an authorizer hides from ``retentiond orphans`` is never taken for gone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType

from tests.support.brokers.command import run
from tests.support.brokers.guarded import CLUSTER, EVERY_TOPIC, Guarded, guarded_kafka, rule

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


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """A topic that is there, and a folder of one that never was."""
    with guarded_kafka() as made:
        made.driver.create_topic("orders")
        made.driver.produce("orders", [made.driver.now_ms])
        (log_dir,) = made.driver.broker.nodes[0].log_dirs
        shutil.copytree(log_dir / "orders-0", log_dir / "gone-0")
        yield made


def look(
    guarded: Guarded, folder: Path, rules: Sequence[AclBinding], *, code: int = 0
) -> dict[str, Any]:
    """With ``--remove``, at once and whatever the records' age."""
    guarded.grant(*rules)
    broker = guarded.driver.broker
    (log_dir,) = broker.nodes[0].log_dirs
    config = folder / "client.properties"
    config.write_text(PROPERTIES)
    done = run(
        "orphans",
        *("--bootstrap-server", broker.bootstrap_servers, "--command-config", config),
        *("--log-dir", log_dir, "--state-dir", folder / "state", "--output", "json"),
        *("--remove", "--yes", "--after", "0s", "--retention", "1000d"),
        cwd=folder,
    )
    assert (done.code, done.err) == (code, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def folders(look: dict[str, Any], kind: str) -> set[str]:
    return {each["folder"] for each in look[kind]}


def test_with_the_documented_rights_the_reading_is_complete(
    guarded: Guarded, tmp_path: Path
) -> None:
    found = look(guarded, tmp_path, ENOUGH)
    assert found["complete"]
    assert folders(found, "orphans") == {"gone-0"}


@pytest.mark.parametrize("visible", [(), (rule((ResourceType.TOPIC, "orders")),)])
def test_a_topic_that_may_not_be_seen_is_left_alone(
    guarded: Guarded, tmp_path: Path, visible: tuple[AclBinding, ...]
) -> None:
    found = look(guarded, tmp_path, (rule(CLUSTER), CONFIGS, *visible))
    assert folders(found, "orphans") == set()
    assert folders(found, "left_alone") == ({"gone-0"} if visible else {"gone-0", "orders-0"})
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
    broker = guarded.driver.broker
    (log_dir,) = broker.nodes[0].log_dirs
    config = tmp_path / "client.properties"
    config.write_text(PROPERTIES)
    done = run(
        "orphans",
        *("--bootstrap-server", broker.bootstrap_servers, "--command-config", config),
        *("--log-dir", log_dir, "--state-dir", tmp_path / "state"),
        cwd=tmp_path,
    )
    assert done.code == 1
    assert "grant DESCRIBE_CONFIGS on the cluster, or give --retention" in done.out
