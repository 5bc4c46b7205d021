"""``retentiond run --once`` and ``audit`` on a real broker: a dry run, a real one, refusals."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType

from retentiond.state.state_dir import state_lock
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import configure, run
from tests.support.brokers.guarded import ENOUGH, Guarded, rule
from tests.support.command_here import run_here

pytestmark = pytest.mark.broker

ONCE = ("run", "--once", "--output", "json", "--config")

HELD, ORDERS, BILLING, SEARCH = (
    f"{each}-{uuid.uuid4().hex[:4]}" for each in ("held", "orders", "billing", "search")
)


def test_a_dry_run_a_run_and_the_next_one(driver: RealDriver, tmp_path: Path) -> None:
    """The dry one shows the very rows of which the real one deletes. Since when a commit stands is
    known from the second cycle that sees it."""
    driver.filled_topic(ORDERS, {BILLING: 7, SEARCH: 9})
    driver.filled_topic(HELD)
    servers, broker = driver.broker.bootstrap_servers, driver.broker
    for name, is_dry in (("dry.yaml", True), ("real.yaml", False)):
        configure(tmp_path, servers, ORDERS, HELD, dry_run=is_dry).rename(tmp_path / name)

    dry = run_here(*ONCE, "dry.yaml", cwd=tmp_path)
    held, orders = dry.plan["partitions"]
    assert (dry.code, log_start(broker, ORDERS)) == (0, 0)
    assert [(each["verdict"], each["reason"]) for each in (held, orders)] == [
        ("hold", "no_group"),
        ("delete", "consumed"),
    ]
    nothing = {"outcome": "not_attempted", "low_watermark": None, "error": None}
    for each in (held, orders):
        assert each.items() >= {**nothing, "binding_since": None, "dry_run": True}.items()

    real = run(*ONCE, "real.yaml", cwd=tmp_path)  # in a process of its own
    assert (real.code, log_start(broker, ORDERS)) == (0, 7)
    deleted = {"outcome": "deleted", "low_watermark": 7, "error": None}
    since = {"binding_since": dry.plan["planned_at"]}
    assert real.plan["partitions"] == [
        held | {"dry_run": False},
        orders | {"dry_run": False, **deleted, **since},
    ]
    for done in (dry, real):
        (line,) = done.log
        assert (line["event"], line["cycle_id"]) == ("retentiond.cycle", done.plan["cycle_id"])
    assert real.log[0]["records_deleted"] == 7

    again = run_here("run", "--once", "--config", "real.yaml", cwd=tmp_path)
    (line,) = again.log
    assert (again.code, line["records_deleted"], log_start(broker, ORDERS)) == (0, 0, 7)
    assert again.out.endswith("2 partitions of 2 topics: 0 of 0 records deleted; 1 held.\n")

    audit = run_here("audit", "--output", "json", "--config", "real.yaml", cwd=tmp_path)
    (deletion,) = audit.audit
    planned = real.plan["partitions"][1]
    same = planned.keys() - {"detail", "size_bytes"}
    assert {name: deletion[name] for name in same} == {name: planned[name] for name in same}
    assert deletion["cycle_id"] == real.plan["cycle_id"]
    assert deletion["evidence"] == {BILLING: 7, SEARCH: 9}


def test_a_refused_deletion_ends_with_1_and_the_others_are_done(
    guarded: Guarded, tmp_path: Path, topic_name: str
) -> None:
    topics = [f"{topic_name}-{each}" for each in ("forbidden", "permitted")]
    for topic in topics:
        guarded.driver.filled_topic(topic, {topic_name: 7})
    at = (ResourceType.TOPIC, topics[0])
    guarded.grant(*ENOUGH, rule(at, AclOperation.DELETE, AclPermissionType.DENY))
    servers = guarded.section["bootstrap.servers"]
    configure(tmp_path, servers, *topics, dry_run=False, kafka=guarded.section)
    done = run_here(*ONCE, "retentiond.yaml", cwd=tmp_path)
    guarded.driver.delete_group(topic_name)
    assert done.code == 1
    forbidden, permitted = done.plan["partitions"]
    assert (forbidden["verdict"], forbidden["outcome"]) == ("delete", "failed")
    assert forbidden["error"].startswith("TOPIC_AUTHORIZATION_FAILED: ")
    assert forbidden["low_watermark"] is None
    assert permitted["outcome"] == "deleted"
    assert [log_start(guarded.driver.broker, topic) for topic in topics] == [0, 7]
    audited = run_here("audit", "--output", "json", cwd=tmp_path).audit
    assert [(row["topic"], row["outcome"]) for row in audited] == [
        (topics[0], "failed"),
        (topics[1], "deleted"),
    ]
    # The plan offers the whole command, with the cluster's address; the audit log has the answer.
    assert f"--bootstrap-server {servers} " in forbidden["error"]
    assert f"--topic {topics[0]} --operation Delete" in forbidden["error"]
    refused, deleted = (row["error"] for row in audited)
    assert refused.startswith("TOPIC_AUTHORIZATION_FAILED: grant this principal DELETE")
    assert deleted is None


@pytest.fixture
def unreachable(tmp_path: Path) -> Iterator[Path]:
    """A folder with a configuration whose broker is a port that nobody listens on."""
    with closing(socket.socket()) as bound:  # nor can anybody begin to
        bound.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{bound.getsockname()[1]}"
        configure(tmp_path, servers)
        yield tmp_path


def test_an_unreachable_broker_ends_with_1_and_one_sentence(unreachable: Path) -> None:
    for command in (["plan"], ["run", "--once"]):
        done = run_here(*command, cwd=unreachable)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("retentiond: 127.0.0.1:")
        assert "check kafka.bootstrap.servers" in done.err
        assert done.err.count("\n") == 1


def test_a_second_daemon_on_the_same_state_is_refused(unreachable: Path) -> None:
    with state_lock(unreachable / "state"):
        for how in ((), ("--once",)):
            done = run_here("run", *how, cwd=unreachable)
            assert (done.code, done.out) == (2, "")
            assert done.err.startswith(f"retentiond: {unreachable / 'state'} is already in use by ")
            assert done.err.endswith("; stop it or choose another state_dir\n")


def test_a_single_cycle_tells_which_policy_files_cant_be_read(unreachable: Path) -> None:
    """As the daemon does; its topics are on hold."""
    policies = [{"file": "teams/pay.yaml", "topics": ["pay.*"]}, "teams/*.yaml"]
    configure(unreachable, "127.0.0.1:1", policies=policies)
    teams = unreachable / "teams"
    teams.mkdir()
    (teams / "pay.yaml").write_text("owner: payments\ntopics: 7\n")
    for name in ("other.yaml", "other.yml"):
        (teams / name).write_text("owner: other\ntopics: [{name: other}]\n")
    done = run_here("run", "--once", cwd=unreachable)
    passed_over, unreadable = map(json.loads, done.err.splitlines()[:2])
    assert passed_over["event"] == "retentiond.policy_passed_over"
    assert passed_over["files"] == ["teams/other.yml"]
    assert unreadable["event"] == "retentiond.policy_unreadable"
    assert (unreadable["file"], unreadable["owner"]) == ("teams/pay.yaml", "payments")
    assert done.code == 1
