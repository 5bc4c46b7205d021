"""``retentiond run --once`` and ``audit`` on a real broker: a dry run, a real one, refusals."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourceType

from retentiond.state.state_dir import state_lock
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import Done, configure, run
from tests.support.brokers.guarded import ENOUGH, Guarded, rule
from tests.support.command_here import run_here

pytestmark = pytest.mark.broker

OUTCOME_FIELDS = {"outcome", "low_watermark", "error"}

ONCE = ("run", "--once", "--output", "json", "--config")

HELD, ORDERS, BILLING, SEARCH = (
    f"{each}-{uuid.uuid4().hex[:4]}" for each in ("held", "orders", "billing", "search")
)


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
    driver.filled_topic(ORDERS, {BILLING: 7, SEARCH: 9})
    driver.filled_topic(HELD)
    servers, broker = driver.broker.bootstrap_servers, driver.broker
    configure(folder, servers, ORDERS, HELD).rename(folder / "dry.yaml")
    configure(folder, servers, ORDERS, HELD, dry_run=False).rename(folder / "real.yaml")
    return Runs(
        dry=run_here(*ONCE, "dry.yaml", cwd=folder),
        log_start_after_dry=log_start(broker, ORDERS),
        real=run(*ONCE, "real.yaml", cwd=folder),  # in a process of its own
        log_start=log_start(broker, ORDERS),
        again=run_here(
            *("run", "--once", "--config", "real.yaml"), cwd=folder, environment={"COLUMNS": "120"}
        ),
        log_start_after_again=log_start(broker, ORDERS),
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
    assert (held.split()[0], orders.split()[0]) == (f"{HELD}-0", f"{ORDERS}-0")
    assert " hold: no_group " in held
    assert " nothing: not_consumed " in orders
    assert BILLING in orders
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
        configure(tmp_path, "127.0.0.1:1", http={"host": "127.0.0.1", "port": port})
        done = run("run", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"retentiond: http.port: 127.0.0.1:{port} can't be listened on (Address already in use); "
        "choose another port\n"
    )


def test_a_state_dir_that_cannot_be_made_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    configure(tmp_path, "127.0.0.1:1", state_dir=str(tmp_path / "file" / "state"))
    done = run_here("run", "--once", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"retentiond: state_dir {tmp_path / 'file' / 'state'} can't be ")
    assert done.err.count("\n") == 1
