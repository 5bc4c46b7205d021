"""Spark, Java and the port: what the daemon needs of this host beside its state directory."""

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
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from retentiond.doctor.finding import Finding, Level, ok
from retentiond.model import Failure

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
    yield ok("Spark", f"PySpark {spark}, for {master}; --spark starts it and tries it out")
    remedy = f"install Java {LEAST_JAVA} or newer, or set JAVA_HOME"
    if master.startswith(CONNECT):
        yield ok("Java", "is not needed here: the Spark Connect server has its own")
    elif isinstance(java, Failure):
        yield Finding(Level.PROBLEM, "Java", f"{java.message}: Spark can't start", remedy)
    elif java < LEAST_JAVA:
        yield Finding(Level.PROBLEM, "Java", f"is {java}: Spark needs {LEAST_JAVA}", remedy)
    else:
        yield ok("Java", f"is {java}")


@dataclass(frozen=True, slots=True)
class Port:
    """``error``: why nothing can listen there, as an errno; None: it is free. ``is_ours``: a
    retentiond answers there; ``asks_for_password``: whoever answers wants one."""

    host: str
    number: int
    error: int | None = None
    is_ours: bool = False
    asks_for_password: bool = False


def look_at_port(host: str, port: int) -> Port:
    """Listens there for a moment, as the daemon would."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except socket.gaierror:
            return Port(host, port, errno.EADDRNOTAVAIL)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return Port(host, port, error.errno or 0)
        else:
            return Port(host, port)
    status, body = _answer(host, port)
    return Port(host, port, errno.EADDRINUSE, OUR_METRIC in body, status == 401)


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


def check_port(port: Port) -> Iterator[Finding]:
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
