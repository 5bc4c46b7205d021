"""``retentiond run --once`` and ``audit`` on a real broker: a dry run, a real one, refusals."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from retentiond.state.state_dir import state_lock
from tests.contract.real import RealDriver
from tests.support.brokers.command import Done, consumed, run, settings, write
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka

pytestmark = pytest.mark.broker

OUTCOME_FIELDS = {"outcome", "low_watermark", "error"}


def log_start(admin: AdminClient, topic: str, partition: int = 0) -> int:
    """The broker's own answer."""
    at = ConfluentPartition(topic, partition)
    answer = admin.list_offsets(
        {at: OffsetSpec.earliest()}, isolation_level=IsolationLevel.READ_UNCOMMITTED
    )
    return int(answer[at].result(30).offset)


@pytest.fixture(scope="module")
def driver(own_kafka: OwnKafka) -> Iterator[RealDriver]:
    """A broker with an authorizer, which lets everybody do what no ACL speaks of."""
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": authorizer, "allow.everyone.if.no.acl.found": "true"}
    with own_kafka(config=config) as kafka, closing(RealDriver(kafka)) as driver:
        yield driver


def populate(driver: RealDriver, *topics: str) -> None:
    """Ten records each, of which two groups have read seven and nine."""
    for topic in topics:
        driver.create_topic(topic)
        driver.produce(topic, [driver.now_ms] * 10)
        driver.commit("billing", {(topic, 0): 7})
        driver.commit("search", {(topic, 0): 9})


ONCE = ("run", "--once", "--output", "json", "--config")


class Runs(NamedTuple):
    """The same cluster, first run dry, then for real, then once more, as a table."""

    dry: Done
    log_start_after_dry: int
    real: Done
    log_start: int
    again: Done
    log_start_after_again: int
    audit: Done


@pytest.fixture(scope="module")
def runs(driver: RealDriver, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("run")
    populate(driver, "orders")
    driver.create_topic("held")
    driver.produce("held", [driver.now_ms] * 10)
    document = settings(
        driver.broker.bootstrap_servers,
        folder / "state",
        topics=[consumed("orders"), consumed("held")],
    )
    write(folder / "dry.yaml", document)
    write(folder / "real.yaml", {**document, "dry_run": False})
    admin = driver.broker.admin()
    return Runs(
        dry=run_here(*ONCE, "dry.yaml", cwd=folder),
        log_start_after_dry=log_start(admin, "orders"),
        real=run(*ONCE, "real.yaml", cwd=folder),  # in a process of its own
        log_start=log_start(admin, "orders"),
        again=run_here(
            *("run", "--once", "--config", "real.yaml"), cwd=folder, environment={"COLUMNS": "80"}
        ),
        log_start_after_again=log_start(admin, "orders"),
        audit=run_here("audit", "--output", "json", "--config", "real.yaml", cwd=folder),
    )


def test_a_dry_run_deletes_nothing_and_says_so(runs: Runs) -> None:
    assert runs.dry.code == 0
    assert runs.log_start_after_dry == 0
    assert runs.dry.plan["dry_run"] is True
    held, orders = runs.dry.plan["partitions"]
    assert (held["verdict"], held["outcome"]) == ("hold", "not_attempted")
    assert (orders["verdict"], orders["outcome"]) == ("delete", "not_attempted")
    assert (orders["low_watermark"], orders["error"]) == (None, None)


def test_a_dry_run_shows_the_very_rows_that_a_run_deletes(runs: Runs) -> None:
    """Since when a commit stands is known from the second cycle that sees it."""

    def rows(done: Done) -> list[dict[str, object]]:
        left_out = {*OUTCOME_FIELDS, "binding_since", "dry_run"}
        return [
            {name: value for name, value in row.items() if name not in left_out}
            for row in done.plan["partitions"]
        ]

    assert rows(runs.dry) == rows(runs.real)
    dry, real = (
        [row["dry_run"] for row in done.plan["partitions"]] for done in (runs.dry, runs.real)
    )
    assert (dry, real) == ([True, True], [False, False])
    since = [done.plan["partitions"][1]["binding_since"] for done in (runs.dry, runs.real)]
    assert since == [None, runs.dry.plan["planned_at"]]
    assert [row["reason"] for row in rows(runs.dry)] == ["no_group", "consumed"]


def test_a_run_deletes_what_it_planned(runs: Runs) -> None:
    assert runs.real.code == 0
    assert runs.log_start == 7
    orders = runs.real.plan["partitions"][1]
    assert (orders["cutoff"], orders["records"]) == (7, 7)
    assert (orders["outcome"], orders["low_watermark"], orders["error"]) == ("deleted", 7, None)


def test_the_next_run_finds_nothing_more_to_delete(runs: Runs) -> None:
    assert runs.again.code == 0
    assert runs.log_start_after_again == 7
    (line,) = runs.again.log
    assert (line["delete"], line["records_deleted"], line["deletions"]) == (0, 0, {})
    assert len(runs.audit.audit) == 1


def test_without_another_wish_a_run_prints_a_table(runs: Runs) -> None:
    _, held, orders, *_, summary = runs.again.out.splitlines()
    assert held.split() == ["held-0", "-", "hold:", "no_group", "-"]
    assert orders.split() == ["orders-0", "-", "nothing:", "not_consumed", "billing"]
    assert summary == "2 partitions of 2 topics: 0 of 0 records deleted; 1 held."


def test_stdout_is_json_and_stderr_is_the_log(runs: Runs) -> None:
    for done in (runs.dry, runs.real):
        assert done.plan["cycle_id"]
        (line,) = done.log
        assert (line["event"], line["cycle_id"]) == ("retentiond.cycle", done.plan["cycle_id"])
    assert runs.real.log[0]["records_deleted"] == 7


def test_the_audit_log_has_the_real_deletion_with_its_evidence(runs: Runs) -> None:
    assert (runs.audit.code, runs.audit.err) == (0, "")
    (deletion,) = runs.audit.audit
    planned = runs.real.plan["partitions"][1]
    same = planned.keys() - {"detail", "size_bytes", "remote_bytes"}
    assert {name: deletion[name] for name in same} == {name: planned[name] for name in same}
    assert deletion["cycle_id"] == runs.real.plan["cycle_id"]
    assert deletion["evidence"] == {"billing": 7, "search": 9}


def test_a_refused_deletion_ends_with_1_and_the_others_are_done(
    driver: RealDriver, tmp_path: Path
) -> None:
    populate(driver, "forbidden", "permitted")
    forbid(driver.broker.admin(), "forbidden", AclOperation.DELETE)
    document = settings(
        driver.broker.bootstrap_servers,
        tmp_path / "state",
        dry_run=False,
        topics=[consumed("forbidden"), consumed("permitted")],
    )
    write(tmp_path / "retentiond.yaml", document)
    done = run_here(*ONCE, "retentiond.yaml", cwd=tmp_path)
    assert done.code == 1
    forbidden, permitted = done.plan["partitions"]
    assert (forbidden["verdict"], forbidden["outcome"]) == ("delete", "failed")
    assert forbidden["error"].startswith("TOPIC_AUTHORIZATION_FAILED: ")
    assert forbidden["low_watermark"] is None
    assert permitted["outcome"] == "deleted"
    admin = driver.broker.admin()
    assert [log_start(admin, topic) for topic in ("forbidden", "permitted")] == [0, 7]
    audited = run_here("audit", "--output", "json", cwd=tmp_path).audit
    assert [(row["topic"], row["outcome"]) for row in audited] == [
        ("forbidden", "failed"),
        ("permitted", "deleted"),
    ]
    # The plan offers the whole command, with the cluster's address; the audit log has the answer.
    assert f"--bootstrap-server {driver.broker.bootstrap_servers} " in forbidden["error"]
    refused, deleted = (row["error"] for row in audited)
    assert refused.startswith("TOPIC_AUTHORIZATION_FAILED: grant this principal DELETE")
    assert deleted is None


def forbid(admin: AdminClient, topic: str, operation: AclOperation) -> None:
    """This operation and no other one, for everybody."""

    def acl(what: AclOperation, permission: AclPermissionType) -> AclBinding:
        pattern = ResourcePatternType.LITERAL
        return AclBinding(ResourceType.TOPIC, topic, pattern, "User:*", "*", what, permission)

    acls = [
        acl(AclOperation.ALL, AclPermissionType.ALLOW),
        acl(operation, AclPermissionType.DENY),
    ]
    for created in admin.create_acls(acls).values():
        created.result(30)


@pytest.fixture
def unreachable(tmp_path: Path) -> Iterator[Path]:
    """A folder with a configuration whose broker is a port that nobody listens on."""
    with closing(socket.socket()) as bound:  # nor can anybody begin to
        bound.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{bound.getsockname()[1]}"
        write(tmp_path / "retentiond.yaml", settings(servers, tmp_path / "state"))
        yield tmp_path


def test_an_unreachable_broker_ends_with_1_and_one_sentence(unreachable: Path) -> None:
    commands = (["plan"], ["run", "--once"])
    with ThreadPoolExecutor() as threads:  # each waits 10 s for the broker
        ran = list(threads.map(lambda command: run(*command, cwd=unreachable), commands))
    for done in ran:
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("retentiond: 127.0.0.1:")
        assert "check kafka.bootstrap.servers" in done.err
        assert done.err.count("\n") == 1


def test_a_second_daemon_on_the_same_state_is_refused(unreachable: Path) -> None:
    with state_lock(unreachable / "state"):
        for runs in (run, run_here):
            done = runs("run", *(["--once"] if runs is run_here else []), cwd=unreachable)
            assert (done.code, done.out) == (2, "")
            assert done.err.startswith(f"retentiond: {unreachable / 'state'} is already in use by ")
            assert done.err.endswith("; stop it or choose another state_dir\n")


def test_a_port_in_use_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        http = {"host": "127.0.0.1", "port": port}
        document = settings("127.0.0.1:1", tmp_path / "state", http=http)
        write(tmp_path / "retentiond.yaml", document)
        done = run("run", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"retentiond: http.port: 127.0.0.1:{port} can't be listened on (Address already in use); "
        "choose another port\n"
    )


def test_a_state_dir_that_cannot_be_made_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    write(tmp_path / "retentiond.yaml", settings("127.0.0.1:1", tmp_path / "file" / "state"))
    done = run_here("run", "--once", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: state_dir {tmp_path / 'file' / 'state'} can't be ")
    assert done.err.count("\n") == 1


def test_a_client_that_cannot_be_made_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    document = settings("127.0.0.1:1", tmp_path / "state")
    document["kafka"] |= {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}
    write(tmp_path / "retentiond.yaml", document)
    done = run_here("plan", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "kafka" in done.err
    assert done.err.count("\n") == 1
