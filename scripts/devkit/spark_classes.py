"""``python -m devkit.spark_classes``: keeps the classes of a plan for the JVMs of the tests.

Java reads such an archive (``-XX:SharedArchiveFile``) in place of thousands of classes, each
unpacked and verified: a plan by itself takes two thirds of the time. It is made once, in twenty
seconds; a JVM that it doesn't fit passes over it without a word.
"""

import hashlib
import subprocess
from pathlib import Path

import pyspark

from devkit.bench.decisions import snapshot
from retentiond.observe import logs
from retentiond.plan import jvm
from retentiond.plan.plan import decide
from retentiond.plan.session import ONCE, SparkSessions

FOLDER = Path(__file__).resolve().parents[2] / "build"

DUMP_S = 120.0
"""A JVM writes the archive as its last act."""


def archive() -> Path:
    """Where it is, or would be, for the Java and the Spark of now."""
    java = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    made_of = hashlib.sha256(java + pyspark.__version__.encode()).hexdigest()[:12]
    return FOLDER / f"spark-classes-{made_of}.jsa"


def options() -> str:
    """What lets a JVM read it; "" where there is none."""
    made = archive()
    return (
        f"-XX:SharedArchiveFile={made} -Xlog:cds=off -Xlog:cds+dynamic=off" if made.exists() else ""
    )


def make(target: Path) -> None:
    """Plans once in a JVM of its own, which writes the archive when it ends."""
    FOLDER.mkdir(exist_ok=True)
    unfinished = target.with_suffix(".part")
    jvm.EXIT_S = DUMP_S
    writes = {jvm.JAVA_OPTIONS: f"{ONCE[jvm.JAVA_OPTIONS]} -XX:ArchiveClassesAtExit={unfinished}"}
    sessions = SparkSessions("local[2]", writes)
    try:
        decide(sessions, snapshot(20, 5))
    finally:
        sessions.stop()
    unfinished.rename(target)


if __name__ == "__main__":
    logs.configure()
    if not archive().exists():
        make(archive())
