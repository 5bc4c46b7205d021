"""The JVM below PySpark: what it says is caught, and once it is dead it is forgotten.

PySpark keeps one JVM for a whole process in class attributes, never looks whether it still
lives, and lets it write to the process's stderr, which is for JSON lines. So this file, and no
other, touches those attributes.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import structlog
from py4j.java_gateway import java_import
from pyspark import SparkContext, accumulators
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from retentiond.errors import SparkUnavailable
from retentiond.spark.environment import (
    APPLICATION,
    DEFAULT_OPTIONS,
    HOSTS_SETTINGS,
    JAVA_OPTIONS,
    MASTER_SETTING,
    OTHER_VARIABLES,
    JvmFolder,
    argument_file,
    has_name,
    heeded_variables,
    is_local,
    java_arguments,
    say_wrong,
    user_name,
    without_variables,
)

PYSPARK = Path(pyspark.__file__).parent

EXIT_S = 3.0  # a JVM that has nothing to do takes far less

HARMLESS_LINES = (
    "WARNING: Using incubator",
    "Setting default log level",
    "To adjust logging level",
    "at ",
    "... ",
    "Error: Could not create the Java Virtual Machine",
    "Error: A fatal exception has occurred",
    "Error occurred during initialization of VM",
    "agent library failed ",
)
"""How lines begin that explain no death: those of every start, and of every end; and where in Java
it was."""

CONNECTION_FILE = "connection"
"""Says where the JVM listens; PySpark's own way of being told."""

POLL_S = 0.05  # how often it is looked for

LAST_OUTPUT_S = 1.0  # for the last words of a JVM that has ended

DRIVER_HOST = "spark.driver.host"

SOCKET_DIR = "spark.python.unix.domain.socket.dir"

SOCKET_NAME_LENGTH = 43
"""Of the sockets that Spark makes in a folder."""

LONGEST_SOCKET_PATH = 103
"""Linux takes 107 characters, macOS 103."""

SETTINGS, OPTIONS = "settings", "options"
"""Names of the files that the JVM reads at its start."""

FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
"""For glibc below the JVM, whose compiler's and pools' threads would each keep memory aside."""


IMPORTED_CLASSES = (
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)
"""Classes that PySpark names without their packages, some fifty times for a plan. Unless they are
imported by their full names, Java looks for them in all of Spark's jars each time."""


class Jvm:
    """A JVM of this process's own, one at a time. Raises `SparkUnavailable`.

    It is on its way at once, and at work after `connect`. ``environment``: variables that it gets
    where they are not set; ``exit_s``: how long it may take to end after its last connection was
    closed.

    Everybody on the host sees a command line, so none holds a setting: they are in files that only
    this user reads, for as long as it takes to start. The JVM's own files are beside them, so that
    they go with it whatever its end: one that is killed removes none.
    """

    def __init__(
        self, conf: Mapping[str, str], environment: Mapping[str, str], exit_s: float = EXIT_S
    ) -> None:
        self._said: deque[str] = deque(maxlen=20)
        self._exit_s = exit_s
        self._ending = threading.Lock()
        self._has_ended = False
        self._gateway: Any = None
        try:
            self._owned = JvmFolder()
        except OSError as error:
            raise SparkUnavailable(
                f"Spark has no folder for its temporary files ({error.strerror or error}): "
                "see that TMPDIR, or /tmp, is there, can be written and has space"
            ) from error
        self._folder = self._owned.path
        reading, writing = os.pipe()
        self._listener = threading.Thread(
            target=self._listen, args=(reading,), name="spark-jvm", daemon=True
        )
        self._listener.start()
        home = os.environ.get("SPARK_HOME") or environment.get("SPARK_HOME")
        local = is_local(conf.get(MASTER_SETTING, ""))
        is_foreign = local and bool(os.environ.get("SPARK_HOME"))
        try:
            submit = [
                f"{home or PYSPARK}/bin/spark-submit",
                *(() if local else ("--load-spark-defaults",)),
                *("--properties-file", self._written_settings(conf)),
                *_submit_arguments(conf[MASTER_SETTING] if local else None),
            ]
            self._process = subprocess.Popen(
                submit,
                env={
                    **FEW_ARENAS,
                    # Before Spark reads the driver's host it looks up this machine's name, which
                    # a container's may have no address for.
                    **({"SPARK_LOCAL_IP": conf[DRIVER_HOST]} if DRIVER_HOST in conf else {}),
                    **environment,
                    **without_variables(os.environ),
                    # By default that is a folder of SPARK_HOME, and an operator's has settings.
                    **({HOSTS_SETTINGS: str(self._folder / "no-defaults")} if is_foreign else {}),
                    "SPARK_CONNECT_MODE": "0",
                    "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._folder / CONNECTION_FILE),
                },
                stdin=subprocess.PIPE,  # it ends when nobody holds the other end
                stdout=writing,
                stderr=writing,
                process_group=0,  # a terminal's Ctrl-C is for retentiond, which ends it
            )
        except (OSError, ValueError) as error:
            os.close(writing)
            self._owned.remove()
            raise self._not_started(error) from error
        os.close(writing)

    def connect(self) -> None:
        """Waits until it is at work, and has PySpark know it."""
        try:
            port, secret = self._where_it_listens()
        except (OSError, EOFError) as error:
            raise self._not_started(error) from error
        finally:
            for name in (SETTINGS, OPTIONS, CONNECTION_FILE):
                (self._folder / name).unlink(missing_ok=True)
        with _environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            self._gateway = launch_gateway()  # type: ignore[no-untyped-call] # has no types
        _forget()  # else PySpark would go on with another that lives, and call it this one
        for name in IMPORTED_CLASSES:
            java_import(self._gateway.jvm, name)  # type: ignore[no-untyped-call] # has no types
        if not has_name():
            hadoop = self._gateway.jvm.org.apache.hadoop.security.UserGroupInformation
            hadoop.setLoginUser(hadoop.createRemoteUser(user_name()))
        SparkContext._ensure_initialized(gateway=self._gateway)
        # Nothing here uses accumulators, and their server shows a traceback when the JVM goes.
        for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
            server.handle_error = lambda *_: None  # type: ignore[method-assign]  # on purpose

    def _where_it_listens(self) -> tuple[int, str]:
        """Port and secret. Raises EOFError where it ends before it says so."""
        said = self._folder / CONNECTION_FILE
        while not said.exists():
            if self._process.poll() is not None:
                self._listener.join(LAST_OUTPUT_S)
                raise EOFError(f"exit code {self._process.returncode}")
            time.sleep(POLL_S)
        with said.open("rb") as info:
            port = read_int(info)  # type: ignore[no-untyped-call] # has no types
            secret = UTF8Deserializer().loads(info)  # type: ignore[no-untyped-call] # has no types
        return int(port), str(secret)

    def _written_settings(self, conf: Mapping[str, str]) -> str:
        """The file of them; Java's options go to one of their own, whose name Java is given.

        Raises ValueError for options that are none.
        """
        arguments = java_arguments(conf, self._folder)
        file = self._written(OPTIONS, argument_file(arguments))
        is_short = len(str(self._folder)) + SOCKET_NAME_LENGTH <= LONGEST_SOCKET_PATH
        sockets = {} if is_short else {SOCKET_DIR: "/tmp"}
        settings = {**sockets, **conf, DEFAULT_OPTIONS: "", JAVA_OPTIONS: shlex.quote(f"@{file}")}
        return self._written(
            SETTINGS,
            "".join((f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())),
        )

    def _written(self, name: str, text: str) -> str:
        file = self._folder / name
        file.touch(0o600)
        file.write_text(text, "utf-8")
        return str(file)

    def _not_started(self, error: Exception) -> SparkUnavailable:
        named = (*OTHER_VARIABLES, *heeded_variables(os.environ))
        reaching = [name for name in dict.fromkeys(named) if os.environ.get(name)]
        also = "".join(f", and at the variable {name}, which reaches it too" for name in reaching)
        said = say_wrong(os.environ)
        return SparkUnavailable(
            f"Spark's JVM did not start ({self.last_words or error}): "
            f"{said}{'; else ' * bool(said)}see that Java 17 or newer is on the PATH or at "
            f"JAVA_HOME, and at spark.conf{also}"
        )

    @property
    def is_pysparks(self) -> bool:
        """Whether PySpark speaks to it, and not to one that was connected after it."""
        return self._gateway is not None and SparkContext._gateway is self._gateway

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
        return self._said[-1] if self._said else ""

    def kill(self) -> None:
        """At once, also one that is stopped: nobody waits for its answer any longer."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def discard(self) -> None:
        """Kills it, and leaves nothing of it on disk; for a process that is about to end."""
        self.kill()
        self.exit_code_within(self._exit_s)
        self._owned.remove()

    def end(self) -> None:
        """Ends it, whatever state it is in, and lets PySpark start another. Whoever comes second
        waits for the first."""
        with self._ending:
            if self._has_ended:
                return
            if self._gateway is None:
                self.kill()  # it has nothing to see to
            else:
                with contextlib.suppress(Exception):  # py4j raises what it likes at a dead socket
                    self._gateway.shutdown()
            if self._process.stdin:
                with contextlib.suppress(OSError):
                    self._process.stdin.close()  # it ends when nobody holds the other end
            try:
                self._process.wait(self._exit_s)
            except subprocess.TimeoutExpired:
                self.kill()
                self._process.wait()
            self._owned.remove()
            if self.is_pysparks:
                _forget()
            self._has_ended = True

    def _listen(self, reading: int) -> None:
        with os.fdopen(reading, errors="replace") as lines:
            for line in lines:
                if text := line.strip():
                    if not text.startswith(HARMLESS_LINES):
                        self._said.append(text)
                    structlog.get_logger().debug("spark.jvm", said=text)


def _submit_arguments(master: str | None) -> list[str]:
    """Those of the environment. ``master``: which of several masters counts; it has no secret.

    Raises ValueError for arguments that are none."""
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", APPLICATION))
    if master is None or APPLICATION not in arguments:
        return arguments
    at = arguments.index(APPLICATION)
    return [*arguments[:at], "--master", master, *arguments[at:]]


def _escaped(text: str) -> str:
    """For a file of Java's properties: every character that means something there, or might, as the
    number of its UTF-16 unit."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(
        chr(unit)
        if chr(unit).isascii() and (chr(unit).isalnum() or chr(unit) in "._-")
        else f"\\u{unit:04x}"
        for unit in units
    )


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    added = {name: value for name, value in more.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _forget() -> None:
    """Takes PySpark's word back that it has a JVM, a context and a session."""
    context = SparkContext._active_spark_context
    server = getattr(context, "_accumulatorServer", None)  # a context that is being made has none
    if server is not None:
        server.shutdown()
        server.server_close()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
