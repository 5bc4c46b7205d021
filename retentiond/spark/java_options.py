"""What the JVM is started with: retentiond's options, and `spark.conf`'s.

A platform gives options to every Java by variables. Spark's launch script starts a small JVM first,
which would take them too, and its output is the command that follows: `-Xms256m` ends that JVM, and
an agent's line garbles the command. So no JVM of retentiond's sees the variables.
"""

from __future__ import annotations

import os
import pwd
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"

VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

OTHER_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "OPENJ9_JAVA_OPTIONS")
"""They reach Java in ways of their own, and stay as they are."""

LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"

CLASS_ARCHIVE = Path(sys.prefix) / "share" / "retentiond" / "spark-classes.jsa"
"""What `scripts/devkit/class_archive.py` makes once for an installation, if somebody runs it."""

TEMPORARY_FILES = "-Djava.io.tmpdir="
"""Where Java and Spark put all that doesn't fit into memory, libraries and sockets, unless a
setting says where."""

ESCAPES_IN_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
"""Escapes for an argument in quotes, in a file of arguments for Java."""


def without_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a JVM."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}


def java_arguments(conf: Mapping[str, str], folder: Path) -> Iterator[str]:
    """All of them, in Java's order: of two that contradict each other it takes the last. ``folder``
    is for its temporary files, and the home of a user who has none.

    Raises ValueError for options that are none.
    """
    given = " ".join(conf[name] for name in (DEFAULT_OPTIONS, JAVA_OPTIONS) if name in conf)
    if not has_name():
        yield from (f"-Duser.home={folder}", f"-Duser.name={user_name()}")
    yield f"{TEMPORARY_FILES}{folder}"
    for option in shlex.split(f"{given} {archived_classes(given)} {LOGGING}"):
        if option.startswith("-Xmx"):
            raise ValueError(f"{JAVA_OPTIONS} sets -Xmx, which is spark.driver.memory's to set")
        yield option


def has_name() -> bool:
    """Whether the system knows a name for this user. Where it knows none, Java takes "?" for name
    and home; Spark can't use such a home, and Hadoop doesn't start without a name."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def user_name() -> str:
    """The name for a user without one: what Hadoop's own variable says, else ours."""
    return os.environ.get("HADOOP_USER_NAME") or "retentiond"


def argument_file(arguments: Iterator[str]) -> str:
    """The text of a file that Java reads them from."""
    return "".join(f'"{each.translate(ESCAPES_IN_QUOTES)}"\n' for each in arguments)


def archived_classes(given: str) -> str:
    """The options for the class archive, unless those that are ``given`` name one. A JVM of another
    Java or with other jars ignores it; the log options keep it from saying so."""
    has_its_own = "SharedArchiveFile" in given or "ArchiveClassesAtExit" in given
    if has_its_own or not CLASS_ARCHIVE.exists():
        return ""
    return f"-XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
