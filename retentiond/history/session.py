"""A Spark session for one question about the past: larger jobs than a plan's."""

from __future__ import annotations

from retentiond.config import Spark
from retentiond.spark.session import SparkSessions

LONGEST_S = 24 * 3600.0
"""A question takes as long as it takes; whoever asks is there to end it."""

LARGE_JOBS = {
    "spark.sql.shuffle.partitions": "32",
    # A log's moments are in memory at once, up to so many; else each would be written to disk.
    "spark.sql.windowExec.buffer.in.memory.threshold": "50000",
    "spark.sql.files.maxPartitionBytes": "16m",
}


def sessions_for(spark: Spark) -> SparkSessions:
    return SparkSessions(spark.master, {**LARGE_JOBS, **spark.conf}, timeout_s=LONGEST_S)
