"""``python -m retentiond.spark.class_archive``: keeps Spark's classes for a quicker start.

Java maps such a file (class-data sharing) in place of finding, unpacking and verifying twenty
thousand classes: a first plan takes two thirds of the time. It is made once for an installation,
in half a minute, by a plan: what a plan needs is in it. It holds for the jars that Spark had then,
so those that no plan needs are left out before.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from retentiond.config import TopicPolicy
from retentiond.decide.plan import decide
from retentiond.errors import RetentiondError
from retentiond.model import GroupKind
from retentiond.snapshot import (
    COMMIT_SCHEMA,
    GroupReading,
    GroupTopic,
    PartitionReading,
    Snapshot,
    TopicReading,
)
from retentiond.spark import packaging
from retentiond.spark.jvm import CLASS_ARCHIVE, JAVA_OPTIONS
from retentiond.spark.session import ONCE, SparkSessions
from retentiond.tell import logs

WRITING_S = 120.0
"""The JVM writes it as its last act."""


def make(archive: Path) -> None:
    """Raises `SparkUnavailable`, and OSError where the archive is not written."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".part")
    options = f"{ONCE[JAVA_OPTIONS]} -XX:ArchiveClassesAtExit={unfinished} -Xlog:cds=off"
    sessions = SparkSessions("local[2]", {JAVA_OPTIONS: options}, exit_s=WRITING_S)
    try:
        decide(sessions, example())
    finally:
        sessions.stop()
    unfinished.rename(archive)


def example() -> Snapshot:
    """A group has read one partition and is silent on another: a plan of it takes both steps."""
    commits = pa.Table.from_pylist(
        [{"group_id": 0, "partition_id": 0, "offset": 5}], schema=COMMIT_SCHEMA
    )
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
        commits=commits,
        remembered=commits,
        readers=frozenset({GroupTopic(0, 0)}),
        problems=(),
    )


def main() -> int:
    logs.configure()
    try:
        packaging.make(packaging.HOME)
        make(CLASS_ARCHIVE)
    except (RetentiondError, OSError) as error:
        print(f"Spark's classes are not kept: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
