"""Spark's own servers out of the pip package, and processes to plan in.

A process can hold one kind of Spark session only, so each scenario gets a process of its own,
in an empty folder and with its stderr in a file.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ParamSpec, TypeVar

import psutil
import pyspark

from devkit.embedded.ports import LOOPBACK, PortReservations
from retentiond.tell import logs
from tests.support.waiting import eventually

HOME = Path(pyspark.__file__).parent

P = ParamSpec("P")
T = TypeVar("T")


def in_a_process(
    folder: Path, scenario: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> tuple[T, str]:
    """What the scenario returns, and what was written to its stderr; it leaves no file behind."""
    work, stderr = folder / "work", folder / "stderr"
    work.mkdir()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, _settle, (work, stderr)) as process:
        answer = process.submit(scenario, *args, **kwargs).result()
    assert list(work.iterdir()) == []
    return answer, stderr.read_text()


def _settle(work: Path, stderr: Path) -> None:
    os.chdir(work)
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_CREAT), 2)
    logs.configure()


def jvms() -> list[psutil.Process]:
    """This process's JVMs, zombies included."""
    return [each for each in psutil.Process().children(recursive=True) if "java" in _name(each)]


def _name(process: psutil.Process) -> str:
    """Empty for a process that ended while the others were listed."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


@contextmanager
def running(folder: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of the pip package's programs; its whole process group is killed in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "512m",
    }
    with (folder / "output").open("ab") as output:
        process = subprocess.Popen(
            [str(HOME / "bin" / command[0]), *command[1:]],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # a test may have killed it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def await_port(process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    eventually(lambda: accepts(port) or process.poll() is not None, timeout_s=90)
    assert process.poll() is None, (folder / "output").read_text()


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and two workers of a core each; yields the master's URL."""
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        ports = stack.enter_context(PortReservations())
        port, page = ports.take(), ports.take()
        url = f"spark://{LOOPBACK}:{port}"
        address = ("--host", LOOPBACK, "--port", str(port), "--webui-port", str(page))
        master = stack.enter_context(
            running(folder / "master", "spark-class", f"{deploy}.master.Master", *address)
        )
        await_port(master, folder / "master", port)
        work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        local = ("--host", LOOPBACK, "--webui-port", "0", *work, url)
        for name in ("one", "other"):
            worker = running(folder / name, "spark-class", f"{deploy}.worker.Worker", *local)
            stack.enter_context(worker)
        eventually(lambda: '"aliveworkers" : 2' in read_page(f"{page}/json/"), timeout_s=90)
        yield url


@contextmanager
def connect_server(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A Spark Connect server that accepts connections. ``port`` is one of `PortReservations`."""
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": LOOPBACK,
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    confs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    program = "org.apache.spark.sql.connect.service.SparkConnectServer"
    with running(folder, "spark-submit", *confs, "--class", program, "spark-internal") as process:
        await_port(process, folder, port)
        yield process


def accepts(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((LOOPBACK, port)) == 0


def read_page(path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{path}", timeout=10) as answer:
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError):
        return ""
