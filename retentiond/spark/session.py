"""The Spark session: made when it is needed, and again when it died.

A Spark Connect server may be gone at any moment. PySpark's client asks a server that is gone again
and again, for ten minutes and more; a cycle would hang as long. So the server must answer before a
session is made, and is asked again for a few seconds only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from retentiond.errors import ConfigError, SparkUnavailable
from retentiond.formatting import without_parameters
from retentiond.spark import tuning
from retentiond.spark.environment import (
    MASTER_SETTING,
    forget_another_spark,
    is_local,
    say_variables,
)
from retentiond.spark.jvm import EXIT_S, Jvm
from retentiond.spark.tuning import APPLICATION, LOOPBACK, SMALL_JOBS, hide_pandas, show_pandas

WORKER_PYTHON = "spark.pyspark.python"

CONNECT_SCHEME = "sc://"

SERVER_ANSWER_S = 5.0  # to accept a connection

CONNECT_RETRIES = 4
"""After 0.05, 0.2, 0.8 and 3.2 s."""

STOP_S = 2.0  # `stop` waits so long for a session that is just being made, or at work

STOPPED_MEANWHILE = "Spark was stopped meanwhile"

TIMEOUT_S = 120.0

ANSWER_S = 10.0
"""For a session that does nothing; then it is replaced."""

JVM_DEATH_S = 1.0
"""How long after a failed plan its JVM may turn out to have died."""

JAVA_CAUSE = "Caused by: "

SPARK_FAILURES = (PySparkException, Py4JError, OSError)
"""What Spark raises when it is Spark that doesn't work."""


class SparkSessions:
    """One session at a time, for any thread. ``conf`` beats the settings above; ``driver``: what
    else a driver of its own is started with, such as `SINGLE_PLAN`; ``exit_s``: see `Jvm`.

    ``timeout_s`` is how long a plan may take, the start of a session included. Spark itself waits
    without end for a JVM, or a server, that has stopped; past that time the connection is cut.
    """

    def __init__(
        self,
        master: str,
        conf: Mapping[str, str],
        *,
        driver: Mapping[str, str] | None = None,
        exit_s: float = EXIT_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Raises `ConfigError` where such a master needs what is not installed."""
        self._master = master
        self._conf = conf
        self._driver = driver or {}
        self._exit_s = exit_s
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._jvm: Jvm | None = None
        self._session: SparkSession | None = None
        self._stopped = False
        if master.startswith(CONNECT_SCHEME):
            if importlib.util.find_spec("grpc") is None:
                raise ConfigError(
                    "Spark Connect is not installed; install retentiond[connect]",
                    path="spark.master",
                )
            show_pandas()
        else:
            hide_pandas()
            forget_another_spark(master)

    def begin(self) -> None:
        """Has a JVM on its way, so that it starts while the caller sees to something else. Raises
        `SparkUnavailable`."""
        with self._lock:
            if self._jvm is None and not self._master.startswith(CONNECT_SCHEME):
                self._jvm = self._launched()

    def start(self) -> None:
        """Makes the session if there is none. Raises `SparkUnavailable`."""
        with self._lock, self._in_time() as over:
            self._living(over)

    @contextmanager
    def use(self) -> Iterator[SparkSession]:
        """The session. When Spark fails in the block, the next use starts a new one.

        Raises `SparkUnavailable` in place of Spark's own errors.
        """
        with self._lock, self._in_time() as over:
            session = self._living(over)
            try:
                yield session
            except SPARK_FAILURES as error:
                unavailable = SparkUnavailable(self._sentence(error))
                self._end()
                raise unavailable from error

    @contextmanager
    def _in_time(self) -> Iterator[threading.Event]:
        """Yields what is set when the time for a plan is over. Raises `SparkUnavailable` then,
        whatever has become of what was under way."""
        try:
            with self._cut_after(self.timeout_s) as over:
                yield over
        except Exception as error:
            if not (over.is_set() or self._stopped):
                raise
            self._end()
            if self._stopped:
                raise SparkUnavailable(STOPPED_MEANWHILE) from error
            raise SparkUnavailable(
                f"Spark has not answered within {self.timeout_s:g} s (spark.timeout), so it was "
                "given up; the next cycle starts another session"
            ) from error

    @contextmanager
    def _cut_after(self, seconds: float) -> Iterator[threading.Event]:
        """Cuts the connection then, which ends whatever waits for an answer, and sets the event."""
        over = threading.Event()

        def give_up() -> None:
            over.set()
            self._cut()

        timer = threading.Timer(seconds, give_up)
        timer.name, timer.daemon = "spark-timeout", True
        timer.start()
        try:
            yield over
        finally:
            timer.cancel()
            timer.join()

    def abandon(self) -> None:
        """Cuts the connection at once, so that nothing is left behind by a process that ends."""
        self._stopped = True
        if (jvm := self._jvm) is not None:
            jvm.discard()
        else:
            self._cut()

    def _cut(self) -> None:
        """Also from another thread than the one that waits. What is cut is of no use any more."""
        if (jvm := self._jvm) is not None:
            jvm.kill()
        elif (session := self._session) is not None:
            with contextlib.suppress(Exception):  # gRPC raises what it likes
                session.client._channel.close()  # nothing public does without an answer

    def interrupt(self) -> None:
        """Ends the session for good, from another thread than the one that waits for its answer.
        Unlike one that is cut off, the JVM has the time to remove its files."""
        self._stopped = True
        if (jvm := self._jvm) is not None:
            jvm.end()
        else:
            self._cut()

    def stop(self) -> None:
        """Ends the session for good; one that is just being made, or at work, is cut off."""
        self._stopped = True
        if self._lock.acquire(timeout=STOP_S):
            try:
                self._end()
            finally:
                self._lock.release()
        else:
            self._cut()

    def _living(self, over: threading.Event) -> SparkSession:
        """``over``: it is too late to make another."""
        if self._session is not None and not self._answers(self._session):
            self._end()
        if over.is_set():
            raise SparkUnavailable("too late")  # which `_in_time` puts into words
        if self._session is None:
            self._session = self._make()
        if self._stopped:
            self._end()
            raise SparkUnavailable(STOPPED_MEANWHILE)
        return self._session

    def _answers(self, session: SparkSession) -> bool:
        if self._jvm and not (self._jvm.exit_code is None and self._jvm.is_pysparks):
            return False
        with self._cut_after(ANSWER_S):
            try:
                session.conf.get("spark.sql.shuffle.partitions")
            except SPARK_FAILURES:
                return False
        return True

    def _make(self) -> SparkSession:
        try:
            if self._master.startswith(CONNECT_SCHEME):
                self._session = _connected(self._master)
                for name, value in {**SMALL_JOBS, **self._conf}.items():
                    self._session.conf.set(name, value)
                return self._session
            if self._jvm is None:
                self._jvm = self._launched()
            self._jvm.connect()
            builder = SparkSession.builder.master(self._master)
            for name, value in self._settings.items():
                builder = builder.config(name, value)
            return builder.getOrCreate()
        except SPARK_FAILURES as error:
            said = "" if self._master.startswith(CONNECT_SCHEME) else say_variables(os.environ)
            unavailable = SparkUnavailable(
                f"there is no Spark session at {without_parameters(self._master)}: "
                f"{self._reason(error)}{'; ' * bool(said)}{said}"
            )
            self._end()
            raise unavailable from error
        except SparkUnavailable:
            self._end()
            raise

    def _launched(self) -> Jvm:
        python = self._settings.get(WORKER_PYTHON) or (
            sys.executable if is_local(self._master) else None
        )
        if python:
            os.environ.setdefault("PYSPARK_PYTHON", python)  # else the first on the PATH
        return Jvm(self._settings, tuning.spark_environment(self._master), self._exit_s)

    @property
    def _settings(self) -> dict[str, str]:
        local = {**LOOPBACK, MASTER_SETTING: self._master} if is_local(self._master) else {}
        return {**SMALL_JOBS, **APPLICATION, **self._driver, **local, **self._conf}

    def _end(self) -> None:
        if self._jvm is not None:
            self._jvm.end()  # and only then forgotten: who interrupts meanwhile waits for it
        elif self._session is not None:
            with contextlib.suppress(*SPARK_FAILURES):
                self._session.stop()
        self._session = self._jvm = None

    def _sentence(self, error: Exception) -> str:
        if self._jvm and (code := self._jvm.exit_code_within(JVM_DEATH_S)) is not None:
            words = f", saying {self._jvm.last_words!r}" if self._jvm.last_words else ""
            return f"Spark's JVM ended with exit code {code}{words}; the next cycle starts another"
        return f"Spark could not work the plan out: {self._reason(error)}"

    def _reason(self, error: Exception) -> str:
        """In Spark's own words, while there is a JVM to ask: an error of Java's is only a reference
        to it."""
        try:
            text = str(error)
        except SPARK_FAILURES:  # it has just ended
            words = self._jvm.last_words if self._jvm else ""
            return words or f"Spark's JVM ended before it could be asked ({type(error).__name__})"
        return _in_one_line(text) or repr(error)


def _connected(url: str) -> SparkSession:
    """A new session at a server. Raises `SparkUnavailable`, and what PySpark raises."""
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - brings pandas

    _await_server(url)
    # The error that follows says as much, and stderr is for JSON lines.
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    session = SparkSession.builder.remote(url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=CONNECT_RETRIES)])
    return session


def _await_server(url: str) -> None:
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, which ships no types
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - brings pandas

    channel = DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=SERVER_ANSWER_S)
    except grpc.FutureTimeoutError as error:
        raise SparkUnavailable(
            f"no Spark Connect server answers at {without_parameters(url)}: "
            "start it, or correct spark.master"
        ) from error
    finally:
        channel.close()


def _in_one_line(text: str) -> str:
    """Java's message, which PySpark puts behind a colon on the second line, and what caused it in
    the end; the first line where there is neither."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = next((line[2:] for line in lines if line.startswith(": ")), lines[0] if lines else "")
    causes = [line.removeprefix(JAVA_CAUSE) for line in lines if line.startswith(JAVA_CAUSE)]
    return f"{message} (caused by: {causes[-1]})" if causes else message
