"""What the daemon needs of this host: Spark, Java and the port."""

from __future__ import annotations

import errno
import http.client
import importlib.metadata
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from retentiond.errors import SparkUnavailable
from retentiond.formatting import without_parameters
from retentiond.model import Failure
from retentiond.tools.doctor.finding import Finding, Level, ok

LEAST_JAVA = 17

CONNECT = "sc://"

TIMEOUT_S = 2.0

OUR_METRIC = b"retentiond_build_info"


def java_version() -> int | Failure:
    """Of the Java that Spark would start: that of JAVA_HOME, else the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return Failure("NO_JAVA", "there is no java on the PATH, and JAVA_HOME is not set")
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=10, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Failure("NO_JAVA", f"{java} can't be run ({error})")
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None:
        return Failure("NO_JAVA", f"{java} -version does not tell its version")
    return int(version[1])


def spark_version() -> str:
    """Of PySpark, without the second that importing it takes."""
    return importlib.metadata.version("pyspark")


def check_spark(master: str, spark: str, java: int | Failure) -> Iterator[Finding]:
    """Whether Spark can be started; that it works, `--spark` shows."""
    yield ok(
        "Spark",
        f"PySpark {spark}, for {without_parameters(master)}; --spark starts it and tries it out",
    )
    remedy = f"install Java {LEAST_JAVA} or newer, or set JAVA_HOME"
    if master.startswith(CONNECT):
        yield ok("Java", "is not needed here: the Spark Connect server has its own")
    elif isinstance(java, Failure):
        yield Finding(Level.PROBLEM, "Java", f"{java.message}: Spark can't start", remedy)
    elif java < LEAST_JAVA:
        yield Finding(Level.PROBLEM, "Java", f"is {java}: Spark needs {LEAST_JAVA}", remedy)
    else:
        yield ok("Java", f"is {java}")


def try_spark(
    master: str, conf: Mapping[str, str], client_version: str, timeout_s: float
) -> Iterator[Finding]:
    """Starts it and has it make one row. ``client_version`` is PySpark's."""
    from retentiond.spark.session import ONCE, SparkSessions  # noqa: PLC0415 - slow, seldom used

    sessions = SparkSessions(master, conf, driver=ONCE, timeout_s=timeout_s)
    place = without_parameters(master)
    began = time.monotonic()
    try:
        with sessions.use() as session:
            version = str(session.version)
            session.range(1).collect()
    except SparkUnavailable as error:
        yield Finding(
            Level.PROBLEM, "Spark", str(error), "correct spark.master, spark.conf, or Java"
        )
        return
    finally:
        sessions.stop()
    if version != client_version:
        yield Finding(
            Level.WARNING,
            "Spark",
            f"{place} is Spark {version}, and PySpark here is {client_version}",
            "use the same version on both sides",
        )
    yield ok("Spark", f"{place} works; start and first job took {time.monotonic() - began:.0f} s")


@dataclass(frozen=True, slots=True)
class PortState:
    """``error``: why nothing can listen there, as an errno; None: it is free. ``is_ours``: a
    retentiond answers there; ``asks_for_password``: whoever answers wants one."""

    host: str
    number: int
    error: int | None = None
    is_ours: bool = False
    asks_for_password: bool = False


def read_port(host: str, port: int) -> PortState:
    """Listens there for a moment, as the daemon would."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except socket.gaierror:
            return PortState(host, port, errno.EADDRNOTAVAIL)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return PortState(host, port, error.errno or 0)
        else:
            return PortState(host, port)
    status, body = _answer(host, port)
    return PortState(host, port, errno.EADDRINUSE, OUR_METRIC in body, status == 401)


def _answer(host: str, port: int) -> tuple[int | None, bytes]:
    """What whoever listens there says to a request for metrics, with TLS or without."""
    at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE  # it is only looked at who answers
    for client in (
        http.client.HTTPConnection(at, port, timeout=TIMEOUT_S),
        http.client.HTTPSConnection(at, port, timeout=TIMEOUT_S, context=unverified),
    ):
        with closing(client):
            try:
                client.request("GET", "/metrics")
                response = client.getresponse()
                return response.status, response.read()
            except (OSError, http.client.HTTPException):
                continue
    return None, b""


def check_port(port: PortState) -> Iterator[Finding]:
    where = f"{port.host}:{port.number}"
    if port.number == 0:
        yield ok("port", "any free one (http.port is 0)")
    elif port.error is None:
        yield ok("port", f"{where} is free")
    elif port.is_ours:
        yield ok("port", f"{where} is taken by a retentiond that runs")
    elif port.asks_for_password:
        yield Finding(
            Level.WARNING,
            "port",
            f"{where} is taken by a server that asks for a password: that may be a retentiond",
            "see that it is; else choose another http.port",
        )
    else:
        yield Finding(
            Level.PROBLEM,
            "port",
            f"{where} can't be listened on ({os.strerror(port.error)}), so the daemon can't start",
            "choose another http.host or http.port, or end what listens there",
        )
