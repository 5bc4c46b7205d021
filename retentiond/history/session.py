"""A Spark session for a question about the past: larger jobs than a plan's, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pyspark.sql import SparkSession

from retentiond.config import Spark
from retentiond.spark.session import CONNECT, LARGE, SPARK_FAILURES, SparkSessions

LONGEST_S = 24 * 3600.0
"""A question takes as long as it takes; whoever asks is there to end it."""

END_S = 10.0
"""How long the JVM may take to remove what it has put on disk, which is more than a plan's."""

PARTS = "spark.sql.shuffle.partitions"

LARGE_JOBS = {
    PARTS: "32",
    # A log's moments are in memory at once, up to so many; else each would be written to disk.
    "spark.sql.windowExec.buffer.in.memory.threshold": "50000",
    "spark.sql.files.maxPartitionBytes": "16m",
    # Rows that are together by topic are joined there, also by topic, partition and moment.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}


def sessions_for(spark: Spark) -> SparkSessions:
    conf = {**LARGE_JOBS, **spark.conf}
    return SparkSessions(spark.master, conf, driver=LARGE, exit_s=END_S, timeout_s=LONGEST_S)


ROWS_OF_A_PART = 4_000_000
"""Of all kinds. What is sorted of them, the partitions' rows, then fits into memory."""

FEWEST_PARTS = 4


def divide(session: SparkSession, spark: Spark, rows: int) -> None:
    """Into as many parts as so many rows of history are worth, unless the settings say: each part
    takes its time, also an empty one, and one that is too large goes by the disk."""
    if PARTS not in spark.conf:
        session.conf.set(PARTS, str(max(FEWEST_PARTS, -(-rows // ROWS_OF_A_PART))))


class Tasks(NamedTuple):
    """So far: how many of Spark's tasks are done, of how many that are known."""

    done: int
    known: int


def tasks_of(session: SparkSession, master: str) -> Callable[[], Tasks]:
    """Tells how far the session is, from any thread; Spark Connect's server does not."""
    if master.startswith(CONNECT):
        return lambda: Tasks(0, 0)
    stages: dict[int, Tasks] = {}
    tracker = session.sparkContext.statusTracker()

    def look() -> Tasks:
        with suppress(*SPARK_FAILURES):  # it may be ending
            active = set(tracker.getActiveStageIds())
            for number in active:
                if stage := tracker.getStageInfo(number):
                    stages[number] = Tasks(stage.numCompletedTasks, stage.numTasks)
            for number in stages.keys() - active:
                stages[number] = Tasks(stages[number].known, stages[number].known)
        return Tasks(
            sum(each.done for each in stages.values()), sum(each.known for each in stages.values())
        )

    return look
