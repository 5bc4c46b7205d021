"""Keeps Spark's classes for a quicker start. The Python of the installation runs this file.

Java maps such a file (class-data sharing) in place of finding, unpacking and verifying twenty
thousand classes: a first plan takes two thirds of the time. It is made once for an installation,
in half a minute, by a plan and the three questions about the past: what they need is in it. It
holds for the jars that Spark had then, so those that nobody needs are left out before.

Whenever a name is in no jar, Java has opened every one of them to find that out, and keeps the
table of contents of each for good. For each kind of table that a jar brings along, Spark loads what
it takes to read it. Without Hive, Kubernetes and machine learning the JVM is 45 MB smaller, and
starts a second sooner.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from retentiond.config import TopicPolicy
from retentiond.decide.plan import decide
from retentiond.errors import RetentiondError
from retentiond.history.ask.past import open_past
from retentiond.history.ask.question import questions
from retentiond.history.ask.recommend import recommend
from retentiond.history.ask.replay import Replay
from retentiond.history.ask.report import report, without_retentiond
from retentiond.history.ask.simulate import simulate
from retentiond.history.schema import SCHEMA, CommitState, RowKind
from retentiond.history.table import HistoryTable
from retentiond.model import GroupKind, Reason
from retentiond.snapshot import (
    COMMIT_SCHEMA,
    GroupReading,
    GroupTopic,
    PartitionReading,
    Snapshot,
    TopicReading,
)
from retentiond.spark import tuning
from retentiond.spark.environment import CLASS_ARCHIVE, JAVA_OPTIONS
from retentiond.spark.jvm import PYSPARK
from retentiond.spark.session import SparkSessions
from retentiond.spark.tuning import SINGLE_PLAN
from retentiond.tell import logs

MASTER = "local[2]"

MINUTE_S = 60

HISTORY_MS = 10 * MINUTE_S * 1000

WRITING_S = 120.0
"""The JVM writes it as its last act."""


UNUSED_JARS = (
    # Hive's catalogue of tables
    *("hive-", "spark-hive", "datanucleus-", "derby"),
    # Kubernetes as a master
    *("kubernetes-", "spark-kubernetes", "volcano-", "vertx-"),
    # machine learning (jts stays: Parquet's reader refers to it)
    *("spark-mllib", "breeze", "spire", "cats-", "arpack", "JTransforms"),
    # the server of Spark Connect, the Scala shell, and standby masters
    *("spark-connect", "spark-repl", "scala-compiler", "curator-", "zookeeper"),
)
"""How the names of the jars begin that are left out. What is small stays, whatever it is for."""


def make_spark_home(home: Path) -> None:
    """Makes a folder of links to PySpark's Spark, without the unused jars. Raises OSError."""
    unfinished = home.with_name(f".{home.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "jars").mkdir(parents=True)
    for part in ("bin", "python"):
        (unfinished / part).symlink_to(PYSPARK / part)
    for jar in (PYSPARK / "jars").glob("*.jar"):
        if not jar.name.startswith(UNUSED_JARS):
            (unfinished / "jars" / jar.name).symlink_to(jar)
    shutil.rmtree(home, ignore_errors=True)
    os.rename(unfinished, home)


def make(archive: Path) -> None:
    """Raises `SparkUnavailable`, and OSError where the archive is not written."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".part")
    options = f"{SINGLE_PLAN[JAVA_OPTIONS]} -XX:ArchiveClassesAtExit={unfinished} -Xlog:cds=off"
    sessions = SparkSessions(MASTER, {JAVA_OPTIONS: options}, exit_s=WRITING_S)
    try:
        decide(sessions, example())
        with tempfile.TemporaryDirectory() as folder, sessions.use() as session:
            ask(session, example_history(folder))
    finally:
        sessions.stop()
    unfinished.rename(archive)


def ask(session: SparkSession, table: HistoryTable) -> None:
    """Each question about the past, under a policy by which a reader missed something."""
    policy = TopicPolicy(enabled=True, consumed_retention_ms=0)
    past = open_past(table, MASTER, 0, HISTORY_MS)
    asked = questions(["topic"], lambda _: policy, lambda _: policy)
    simulate(Replay(past, session, asked))
    recommend(Replay(past, session, asked), 1, partial(Replay, past, session))
    report(Replay(past, session, [without_retentiond(each) for each in asked]))


def example_history(folder: str) -> HistoryTable:
    """A group reads ten records a minute, and goes back in the last."""
    table = HistoryTable.open_or_create(folder)
    for entry, offset in enumerate((10, 20, 5), start=1):
        at = datetime.fromtimestamp(entry * MINUTE_S, UTC)
        row = {"day": f"{at:%Y-%m-%d}", "entry": entry, "at": at, "cluster_id": "example"}
        of_topic = {**row, "topic": "topic", "partition": 0}
        cycle = {**row, "kind": RowKind.CYCLE, "complete": True, "dry_run": True}
        partition = {
            **of_topic,
            "kind": RowKind.PARTITION,
            "topic_id": "id",
            "log_start_offset": 0,
            "high_watermark": 10 * entry,
            "last_stable_offset": 10 * entry,
            "size_bytes": 1000 * entry,
            "reason": Reason.TOO_YOUNG,
            "groups": 1,
            "min_committed_offset": offset,
        }
        commit = {
            **of_topic,
            "kind": RowKind.COMMIT,
            "group": "group",
            "committed_offset": offset,
            "state": CommitState.READ,
        }
        cycle["is_whole"] = entry == 1
        rows = [cycle, partition, commit]
        table.append("example", entry, pa.Table.from_pylist(rows, schema=SCHEMA))
    table.refresh()
    return table


def example() -> Snapshot:
    """A group has read one partition and is silent on another: a plan of it takes both steps."""
    commit = {
        "group_id": 0,
        "partition_id": 0,
        "is_committed": True,
        "offset": 5,
        "is_replaced": False,
        "is_stale": False,
        "remembered_offset": 6,
    }
    return Snapshot(
        cluster_id="example",
        taken_at_ms=0,
        topics=(
            TopicReading(
                "topic", TopicPolicy(enabled=True), "id", False, frozenset({"delete"}), None
            ),
        ),
        partitions=tuple(PartitionReading(0, number, 0, 9, 9, 9) for number in range(2)),
        groups=(GroupReading("group", GroupKind.CLASSIC, "Stable"),),
        commits=pa.Table.from_pylist([commit], schema=COMMIT_SCHEMA),
        readers=frozenset({GroupTopic(0, 0)}),
        problems=(),
    )


def main() -> int:
    logs.configure()
    try:
        make_spark_home(tuning.SPARK_HOME)
        make(CLASS_ARCHIVE)
    except (RetentiondError, OSError) as error:
        print(f"Spark's classes are not kept: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
