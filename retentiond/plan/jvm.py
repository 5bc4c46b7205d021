"""The JVM below PySpark: what it says is caught, and once it is dead it is forgotten.

PySpark keeps one JVM for a whole process in class attributes, never looks whether it still
lives, and lets it write to the process's stderr, which is for JSON lines. So this file, and no
other, touches those attributes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from py4j.java_gateway import java_import
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from retentiond.errors import SparkUnavailable

EXIT_S = 3.0
"""A JVM that has nothing to do at its end takes far less."""

LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"

CLASS_ARCHIVE = Path(sys.prefix) / "share" / "retentiond" / "spark-classes.jsa"
"""What `retentiond.class_archive` makes once for an installation, if somebody has it do so."""

CHATTER = (
    "WARNING: Using incubator",
    "Setting default log level",
    "To adjust logging level",
    "at ",
    "... ",
)
"""How lines begin that explain no death: those of every start, and where in Java it was."""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

DRIVER_HOST = "spark.driver.host"

FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""For glibc below the JVM, whose compiler's and pools' threads would each keep memory aside."""


NAMED_OFTEN = (
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)
"""Classes that PySpark names without their packages, some fifty times for a plan. Unless they are
imported by their full names, Java looks for them in all of Spark's jars each time."""


class Jvm:
    """A JVM of this process's own, one at a time. Raises `SparkUnavailable`.

    ``environment``: variables that it gets where they are not set; ``exit_s``: how long it may
    take to end after its last connection was closed.
    """

    def __init__(
        self, conf: Mapping[str, str], environment: Mapping[str, str], exit_s: float = EXIT_S
    ) -> None:
        self._said: deque[str] = deque(maxlen=20)
        self._exit_s = exit_s
        given = conf.get(JAVA_OPTIONS, "")
        java_options = f"{given} {_archived_classes(given)} {LOGGING}".strip()
        all_conf = {**conf, JAVA_OPTIONS: java_options}
        reading, writing = os.pipe()
        listener = threading.Thread(
            target=self._listen, args=(reading,), name="spark-jvm", daemon=True
        )
        listener.start()
        try:
            with _environment({**FEW_ARENAS, **_own_address(conf), **environment}):
                self._gateway: Any = launch_gateway(  # type: ignore[no-untyped-call] # has no types
                    SparkConf(loadDefaults=False).setAll(list(all_conf.items())),
                    {"stderr": writing, "stdout": writing},
                )
        except (PySparkRuntimeError, OSError) as error:
            os.close(writing)
            listener.join()
            raise SparkUnavailable(
                f"Spark's JVM did not start ({self.last_words or error}): "
                "see that Java 17 or newer is on the PATH or at JAVA_HOME, and at spark.conf"
            ) from error
        os.close(writing)
        self._process: subprocess.Popen[bytes] = self._gateway.proc
        for name in NAMED_OFTEN:
            java_import(self._gateway.jvm, name)  # type: ignore[no-untyped-call] # has no types
        SparkContext._ensure_initialized(gateway=self._gateway)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when one has killed it."""
        return self._process.poll()

    def exit_code_within(self, seconds: float) -> int | None:
        """As `exit_code`, of a JVM whose connection may have ended just before itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    @property
    def last_words(self) -> str:
        """The last line that it wrote, or ""."""
        return self._said[-1] if self._said else ""

    def end(self) -> None:
        """Ends it, whatever state it is in, and lets PySpark start another."""
        with contextlib.suppress(Exception):  # py4j raises what it likes at a dead socket
            self._gateway.shutdown()
        if self._process.stdin:
            with contextlib.suppress(OSError):
                self._process.stdin.close()  # it ends when nobody holds the other end
        try:
            self._process.wait(self._exit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _forget()

    def _listen(self, reading: int) -> None:
        with os.fdopen(reading, errors="replace") as lines:
            for line in lines:
                if text := line.strip():
                    if not text.startswith(CHATTER):
                        self._said.append(text)
                    structlog.get_logger().debug("spark.jvm", said=text)


def _own_address(conf: Mapping[str, str]) -> dict[str, str]:
    """Before Spark reads the driver's host it looks up this machine's name, which a container's
    may have no address for."""
    return {"SPARK_LOCAL_IP": conf[DRIVER_HOST]} if DRIVER_HOST in conf else {}


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """This process's variables with those that are not set, for as long."""
    added = {name: value for name, value in more.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _archived_classes(given: str) -> str:
    """Unless the options that are ``given`` name an archive of their own. A JVM that it does not
    fit, being another Java or with other jars, passes over it; without these logs, in silence."""
    has_its_own = "SharedArchiveFile" in given or "ArchiveClassesAtExit" in given
    if has_its_own or not CLASS_ARCHIVE.exists():
        return ""
    return f"-XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"


def _forget() -> None:
    """Takes PySpark's word back that it has a JVM, a context and a session."""
    context = SparkContext._active_spark_context
    server = context._accumulatorServer if context else None
    if server is not None:
        server.shutdown()
        server.server_close()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
