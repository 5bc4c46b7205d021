"""The one port, asked as Prometheus, Kubernetes and a script would."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client.registry import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retentiond.errors import ConfigError
from retentiond.model import Outcome
from retentiond.tell import logs, port
from retentiond.tell.metrics.registry import Exposition, Metrics
from retentiond.tell.port import bind
from retentiond.tell.report import CycleReport
from retentiond.tell.web import DaemonStatus, Server, application
from tests.support.builders.page_visitor import INTERVAL_MS, Visitor
from tests.support.builders.reports import PLANNED_AT_MS, outcome, report, row, turned_down
from tests.support.command_here import logging_kept
from tests.support.waiting import eventually


def taking(seconds: float) -> CycleReport:
    return replace(report(), seconds={"gather": seconds})


@pytest.fixture
def site(tmp_path: Path) -> Visitor:
    return Visitor(tmp_path)


def test_a_process_that_answers_is_alive_whatever_its_cycles_do(site: Visitor) -> None:
    site.status.problem = "KafkaUnavailable"
    assert (site.get("/healthz").status_code, site.get("/healthz").text) == (200, "ok\n")


DOWN = "a broker is down"
NOT_YET = "no complete cycle yet"


@pytest.mark.parametrize(
    ("published", "status", "text"),
    [
        ([], 503, NOT_YET),
        ([report()], 200, "ready"),
        *(
            (
                [report([row("orders")], [outcome("orders", what=what)])],
                200,
                f"ready; 1 of 1 deletions not done: why it is {what}",
            )
            for what in (Outcome.FAILED, Outcome.UNKNOWN, Outcome.NOT_ATTEMPTED)
        ),
        ([report(paused="paused by root: incident 12")], 200, "ready; paused by root: incident 12"),
        ([report(problems=(DOWN, "moved"))], 503, f"{NOT_YET}; {DOWN}; moved"),
        (
            [report([turned_down()])],  # the guard left nothing of it
            503,
            f"{NOT_YET}; 1 of 1 deletions not done: the guard turned it down: a group is gone",
        ),
        # One incomplete cycle does not make it unready at once.
        (
            [report(), report(problems=(DOWN,), planned_at_ms=PLANNED_AT_MS + 1)],
            200,
            f"ready; {DOWN}",
        ),
        # Nor does one that failed, and its trouble takes the place of what the last report has.
        (
            [report([row("orders")], [outcome("orders", what=Outcome.FAILED)]), "disk is full"],
            200,
            "ready; disk is full",
        ),
        # The latest trouble is the reason that is given.
        ([report(problems=(DOWN,)), "KafkaUnavailable"], 503, f"{NOT_YET}; KafkaUnavailable"),
        (["KafkaUnavailable", report(problems=(DOWN,))], 503, f"{NOT_YET}; {DOWN}"),
    ],
)
def test_readiness_after_cycles_and_failures(
    site: Visitor, published: list[CycleReport | str], status: int, text: str
) -> None:
    for each in published:
        if isinstance(each, str):
            site.status.problem = each
        else:
            site.status.publish(each)
    assert (site.get("/readyz").status_code, site.get("/readyz").text) == (status, f"{text}\n")


def test_it_stays_ready_for_three_intervals_and_no_longer(site: Visitor) -> None:
    site.status.publish(taking(2))
    site.now_ms += 3 * INTERVAL_MS - 2_001
    assert site.get("/readyz").status_code == 200
    site.now_ms += 2
    assert site.get("/readyz").status_code == 503
    assert site.get("/readyz").text == "no complete cycle within 3 intervals\n"


def test_cycles_that_take_longer_than_three_intervals_are_ready_for_three_times_as_long(
    site: Visitor,
) -> None:
    took_s = 5 * INTERVAL_MS // 1000
    for _ in range(3):
        site.status.publish(taking(took_s))
        site.now_ms += took_s * 1000 + INTERVAL_MS  # the next one has come to its end
        assert site.get("/readyz").status_code == 200
    site.status.publish(taking(took_s))
    site.now_ms += 2 * took_s * 1000 + 1
    assert site.get("/readyz").status_code == 503
    assert site.get("/readyz").text == ("no complete cycle within 3 times what the last one took\n")


def test_a_cycle_that_gives_no_sign_any_more_is_no_life(site: Visitor) -> None:
    site.status.heartbeat(at_work=True)
    site.now_ms += 300_000
    assert site.get("/healthz").status_code == 200
    site.now_ms += 1
    assert site.get("/healthz").status_code == 503
    assert site.get("/healthz").text == "the cycle under way has given no sign for 300 s\n"
    site.status.heartbeat(at_work=True)
    assert site.get("/healthz").status_code == 200


def test_a_daemon_whose_cycles_do_not_begin_any_more_does_not_live(site: Visitor) -> None:
    site.status.heartbeat(at_work=False)
    site.now_ms += 300_000 + INTERVAL_MS
    assert site.get("/healthz").status_code == 200
    site.now_ms += 1
    assert site.get("/healthz").text == f"no cycle has begun for {300 + INTERVAL_MS // 1000} s\n"


def test_the_last_plan_is_served_with_its_outcomes(site: Visitor) -> None:
    site.status.publish(report([row("orders", 0)], [outcome("orders", 0)]))
    response = site.get("/api/plan")
    assert response.headers["content-type"] == "application/json"
    assert response.json()["cycle_id"] == "0123456789ab"
    (partition,) = response.json()["partitions"]
    assert (partition["cutoff"], partition["outcome"]) == (100, "deleted")


def test_openmetrics_is_served_to_whoever_asks_for_it(site: Visitor) -> None:
    Metrics(site.registry, {"version": "1.2.3"}).observe_cycle(
        report([row("orders")], [outcome("orders")])
    )
    wanted = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    response = site.get("/metrics", accept=wanted)
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.")
    assert response.text.endswith("# EOF\n")
    assert '\nretentiond_records_deleted_total{topic="orders"} 90.0\n' in response.text


@contextmanager
def serving(host: str) -> Iterator[Server]:
    app = application(DaemonStatus(INTERVAL_MS), Exposition(CollectorRegistry()))
    made = Server(app, bind(host, 0))
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving("127.0.0.1") as made:
        yield made


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_server_answers_on_its_port_and_is_gone_after_its_stop(host: str) -> None:
    shown = f"[{host}]" if ":" in host else host
    with serving(host) as server:
        assert httpx.get(f"http://{shown}:{server.port}/healthz").text == "ok\n"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, server.port), timeout=5)


def test_a_page_that_ends_with_a_bug_leaves_its_traceback_in_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def page(request: Request) -> Response:
        raise KeyError("nowhere")

    server = Server(Starlette(routes=[Route("/", page)]), bind("127.0.0.1", 0))
    with logging_kept():
        logs.configure()
        server.start()
        try:
            answer = httpx.get(f"http://127.0.0.1:{server.port}/")
        finally:
            server.stop()
    lines = map(json.loads, capsys.readouterr().err.splitlines())  # the client logs, too
    (exception,) = [line["exception"] for line in lines if line["level"] == "error"]
    assert answer.status_code == 500
    assert "KeyError: 'nowhere'" in exception


def test_a_client_that_keeps_its_connection_open_does_not_delay_the_stop(server: Server) -> None:
    with httpx.Client() as client:
        client.get(f"http://127.0.0.1:{server.port}/healthz")
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(timeout=2.5)
        assert not stopping.is_alive()


def idle(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.long
def test_connections_are_bounded_and_the_oldest_make_room(server: Server) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with ExitStack() as stack:
        connections = [stack.enter_context(idle(server)) for _ in range(300)]
        assert httpx.get(f"http://127.0.0.1:{server.port}/healthz").text == "ok\n"
        assert all(map(is_closed, connections[:200]))
        mine = len(connections)
        eventually(lambda: len(os.listdir("/proc/self/fd")) - before - mine <= 101)


def test_a_connection_that_asks_nothing_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "REQUEST_S", 0.2)
    with idle(server) as silent:
        assert is_closed(silent)


def test_a_port_in_use_is_an_error_of_the_configuration() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            bind("127.0.0.1", port)
    assert str(caught.value) == (
        f"http.port: 127.0.0.1:{port} can't be listened on (Address already in use); "
        "choose another port"
    )
