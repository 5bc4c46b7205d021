"""Java and the port, on the very host that the tests run on, and Spark without starting it."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retentiond.errors import SparkUnavailable
from retentiond.model import Failure
from retentiond.tools.doctor.finding import Level
from retentiond.tools.doctor.host import (
    OUR_METRIC,
    PortState,
    check_port,
    check_spark,
    java_version,
    read_port,
    try_spark,
)
from tests.support.builders.examined_clusters import bad, only
from tests.support.certificates import Authority, Issued

LOOPBACK = "127.0.0.1"


def java(folder: Path, said: str) -> None:
    (folder / "bin").mkdir()
    program = folder / "bin/java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.9" 2023-10-17', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
    ],
)
def test_the_java_at_java_home_is_asked_for_its_version(
    said: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_version() == version


def test_without_java_that_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert isinstance(java_version(), Failure)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert isinstance(java_version(), Failure)


def test_java_17_is_enough_and_an_older_one_a_problem() -> None:
    assert bad(check_spark("local[2]", "4.0.0", 17)) == []
    assert bad(check_spark("local[2]", "4.0.0", 11)) == [(Level.PROBLEM, "Java")]


def test_no_java_is_a_problem_but_for_spark_connect() -> None:
    missing = Failure("NO_JAVA", "there is no java")
    assert bad(check_spark("local[2]", "4.0.0", missing)) == [(Level.PROBLEM, "Java")]
    assert bad(check_spark("sc://spark:15002", "4.0.0", missing)) == []


@contextmanager
def server(body: bytes, status: int = 200, certificate: Issued | None = None) -> Iterator[int]:
    """Answers every request with that, in TLS with a certificate; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer((LOOPBACK, 0), Handler) as found:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certificate, certificate.key)
            found.socket = context.wrap_socket(found.socket, server_side=True)
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found.server_port
        found.shutdown()
        thread.join()


def test_a_free_port_is_ok_and_stays_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
    assert bad(check_port(read_port(LOOPBACK, port))) == []
    socket.create_server((LOOPBACK, port)).close()


def test_a_port_taken_by_a_retentiond_is_ok() -> None:
    with server(OUR_METRIC + b" 1\n") as port:
        (found,) = check_port(read_port("0.0.0.0", port))
    assert found.level is Level.OK
    assert "a retentiond" in found.sentence


def test_a_retentiond_that_speaks_tls_is_known_too(tmp_path: Path) -> None:
    with server(OUR_METRIC, certificate=Authority(tmp_path).issue("daemon")) as port:
        assert read_port(LOOPBACK, port).is_ours


def test_a_port_taken_by_something_else_is_a_problem() -> None:
    with server(b"hello") as port:
        assert bad(check_port(read_port(LOOPBACK, port))) == [(Level.PROBLEM, "port")]


def test_a_port_taken_by_something_that_asks_for_a_password_is_a_warning() -> None:
    with server(b"", 401) as port:
        assert bad(check_port(read_port(LOOPBACK, port))) == [(Level.WARNING, "port")]


def test_a_port_of_an_address_that_this_host_does_not_have_is_a_problem() -> None:
    found = read_port("192.0.2.1", 9477)
    assert found.error == errno.EADDRNOTAVAIL
    assert only(check_port(found)).level is Level.PROBLEM


def test_any_free_port_needs_no_check() -> None:
    assert bad(check_port(PortState("0.0.0.0", 0))) == []


class Sessions:
    """In place of Spark's; ``version`` None: there is no session."""

    def __init__(self, version: str | None) -> None:
        self.version = version
        self.stopped = False

    @contextmanager
    def use(self) -> Iterator[Any]:
        if self.version is None:
            raise SparkUnavailable("there is no Spark session at spark://nowhere")
        yield SimpleNamespace(
            version=self.version, range=lambda _: SimpleNamespace(collect=lambda: [0])
        )

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.1.0", []), ("4.0.0", [(Level.WARNING, "Spark")]), (None, [(Level.PROBLEM, "Spark")])],
)
def test_spark_is_tried_and_ended(
    version: str | None, expected: list[tuple[Level, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(version)
    monkeypatch.setattr("retentiond.spark.session.SparkSessions", lambda *_, **__: sessions)
    assert bad(try_spark("spark://nowhere", {}, "4.1.0", 1)) == expected
    assert sessions.stopped
