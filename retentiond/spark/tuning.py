"""A small and quick Spark: its settings, a Spark of the jars that a plan needs, and no pandas.

PySpark and pyarrow import pandas wherever it is installed, only to see whether they were given one
of its tables: a seventh of the daemon's own memory, and half a second of its start. PySpark's
client of Spark Connect does need it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pyspark

from retentiond.spark.environment import JAVA_OPTIONS
from retentiond.spark.jvm import DRIVER_HOST

SMALL_JOBS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # planning again costs more than a small job
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    # A larger table (below 48 MB by default) would become rows in the plan itself, which every
    # rule of the optimizer walks; a smaller one spares a job.
    "spark.sql.execution.arrow.localRelationThreshold": "1m",
    # What is in one part stays there: Spark takes a table whose size it does not know for one of
    # exabytes, and anything of more than 128 MB would be shuffled before a join.
    "spark.sql.defaultSizeInBytes": str(2**30),
    "spark.sql.maxSinglePartitionBytes": str(2**63 - 1),
    "spark.sql.session.timeZone": "UTC",
}
"""What any session understands, over Spark Connect too."""

APPLICATION = {
    "spark.app.name": "retentiond",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "5",  # these bound what the listeners remember for ever
    "spark.ui.retainedStages": "5",
    "spark.ui.retainedTasks": "50",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.driver.memory": "1g",
    # Each task clears a page for each of its hash tables; 16 MB of them for a few kB of data
    # would triple the heap.
    "spark.buffer.pageSize": "1m",
    # Each broadcast begins a thread until there are so many, 128 by default; large plans have some.
    "spark.sql.broadcastExchange.maxThreadThreshold": "16",
    # One plan is more than the 100 classes that Spark keeps by default: it would compile all of
    # them again each time, which takes three times as long as the plan itself.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Else every step of building a plan asks the JVM three times who called it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    JAVA_OPTIONS: " ".join(
        (
            "-XX:+UseSerialGC",
            # A heap that grows as it must: Java would begin with a 64th of the host's memory, and
            # keep two thirds more than it needs.
            "-Xms64m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40",
            # What a plan is made of outlives a collection or two: it would be taken for lasting,
            # and every sixth plan would wait for a collection of all that there is.
            "-XX:SurvivorRatio=3",
            # What Java's compilers leave behind goes back to the host every ten seconds, in 2 ms; a
            # Java that can't do that (17.0.9 and newer can) is to start all the same.
            "-XX:+IgnoreUnrecognizedVMOptions",
            "-XX:+UnlockExperimentalVMOptions -XX:TrimNativeHeapInterval=10000",
            # Out of memory in one thread, Spark may wait for its answer for ever: a dead JVM is
            # told.
            "-XX:+ExitOnOutOfMemoryError",
        )
    ),
}
"""What a driver of its own is started with."""

SINGLE_PLAN = {JAVA_OPTIONS: f"{APPLICATION[JAVA_OPTIONS]} -XX:TieredStopAtLevel=1"}
"""Settings for a single plan: Java's optimizing compiler would take as much time again, and end too
late."""

LARGE_PLANS = {
    JAVA_OPTIONS: f"{APPLICATION[JAVA_OPTIONS]} -XX:Tier4InvocationThreshold=100000 "
    "-XX:Tier4MinInvocationThreshold=12000 -XX:Tier4CompileThreshold=300000 "
    "-XX:Tier4BackEdgeThreshold=800000 -XX:NewRatio=1 -XX:MinHeapFreeRatio=70 "
    "-XX:MaxHeapFreeRatio=90"
}
"""Settings for few plans over millions of rows: only what runs for all of them is worth being
optimized. By Java's own thresholds, a twentieth of these, the compiler took a third of a question's
time. The heap grows at once to what rows need that live as long as a task."""

LOOPBACK = {
    DRIVER_HOST: "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Else a plan's rows leave by a port that takes the first client that comes, whoever it is:
    # one that still looks for a server that had this port before would end the plan.
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Settings for a master in the same JVM: nobody else has business with it."""

SPARK_HOME = Path(sys.prefix) / "share" / "retentiond" / f"spark-{pyspark.__version__}"
"""What `scripts/devkit/class_archive.py` makes once for an installation, if somebody runs it."""

MASTERS_WITHOUT_UNUSED_JARS = ("local", "spark://")
"""How the masters begin whose drivers do without them."""


def spark_environment(master: str) -> Mapping[str, str]:
    """The environment in which PySpark starts this lean Spark for such a master; empty if it is
    not there, or if its links lead nowhere."""
    is_there = (SPARK_HOME / "bin" / "spark-submit").exists()
    return (
        {"SPARK_HOME": str(SPARK_HOME)}
        if is_there and master.startswith(MASTERS_WITHOUT_UNUSED_JARS)
        else {}
    )


class _Hidden(MetaPathFinder):
    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
        return None


_HIDDEN = _Hidden()


def hide_pandas() -> None:
    """From now on the whole process works as if pandas were not installed."""
    if _HIDDEN not in sys.meta_path:
        sys.meta_path.insert(0, _HIDDEN)


def show_pandas() -> None:
    if _HIDDEN in sys.meta_path:
        sys.meta_path.remove(_HIDDEN)
