"""Checks Spark, and Java, which Spark needs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from retentiond.config import Spark
from retentiond.errors import SparkUnavailable
from retentiond.formatting import without_parameters
from retentiond.model import Failure
from retentiond.spark.environment import VARIABLES, without_variables
from retentiond.state.state_dir import holder_of
from retentiond.tools.doctor.finding import Finding, ok, problem, warning

LEAST_JAVA = 17

CONNECT = "sc://"


def java_version() -> int | Failure:
    """The version of the Java that Spark would start: in JAVA_HOME, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return Failure("NO_JAVA", "there is no java on the PATH, and JAVA_HOME is not set")
    try:
        output = subprocess.run(
            [java, "-version"],
            env=without_variables(os.environ),
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Failure("NO_JAVA", f"{java} can't be run ({error})")
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None:
        return Failure("NO_JAVA", f"{java} -version does not tell its version")
    return int(version[1])


def spark_version() -> str:
    """PySpark's version, read without importing PySpark, which takes a second."""
    return importlib.metadata.version("pyspark")


def check_spark(master: str) -> Iterator[Finding]:
    """Spark can be started. `try_spark` shows whether it works."""
    yield ok("Spark", f"PySpark {spark_version()}, for {without_parameters(master)}")
    java = java_version()
    remedy = f"install Java {LEAST_JAVA} or newer, or set JAVA_HOME"
    if master.startswith(CONNECT):
        yield ok("Java", "is not needed here: the Spark Connect server has its own")
    elif isinstance(java, Failure):
        yield problem("Java", f"{java.message}: Spark can't start", remedy)
    elif java < LEAST_JAVA:
        yield problem("Java", f"is {java}: Spark needs {LEAST_JAVA}", remedy)
    else:
        yield ok("Java", f"is {java}")


def spark_tried(spark: Spark, state_dir: Path, wanted: bool | None) -> Iterator[Finding]:
    """Spark works. Beside a running daemon, Spark is started only if that is ``wanted``: the
    daemon's own Spark works, and a second one may need more memory than the container has."""
    holder = None if wanted else holder_of(state_dir)
    if wanted or (wanted is None and holder is None):
        yield from try_spark(spark)
    elif wanted is None:
        yield ok("Spark", f"was not started beside {holder}; --spark starts it all the same")


def try_spark(spark: Spark) -> Iterator[Finding]:
    """Starts Spark and runs a job of one row."""
    from retentiond.spark.session import SparkSessions  # noqa: PLC0415 - slow, seldom used
    from retentiond.spark.tuning import SINGLE_PLAN  # noqa: PLC0415 - as above

    timeout_s = spark.timeout_ms / 1000
    sessions = SparkSessions(spark.master, spark.conf, driver=SINGLE_PLAN, timeout_s=timeout_s)
    place = without_parameters(spark.master)
    began = time.monotonic()
    try:
        with sessions.use() as session:
            version = str(session.version)
            session.range(1).collect()
    except SparkUnavailable as error:
        yield problem("Spark", str(error), "correct spark.master, spark.conf, or Java")
        return
    finally:
        sessions.stop()
    if version != spark_version():
        yield warning(
            "Spark",
            f"{place} is Spark {version}, and PySpark here is {spark_version()}",
            "use the same version on both sides",
        )
    yield ok("Spark", f"{place} works; start and first job took {time.monotonic() - began:.0f} s")


def check_java_options(master: str, environment: Mapping[str, str]) -> Iterator[Finding]:
    """No environment variable of the platform gives options to every Java."""
    given = [name for name in VARIABLES if environment.get(name)]
    if master.startswith(CONNECT) or not given:
        return
    names = " and ".join(given)
    yield warning(
        "Java",
        f"this platform gives options to every Java in {names}; Spark's JVM does not get them",
        "if it needs some (an agent, a trust store), set spark.driver.extraJavaOptions in "
        "spark.conf",
    )
