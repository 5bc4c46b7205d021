"""What the JVM is started with: retentiond's options, `spark.conf`'s, and those that the platform
gives to every Java.

A platform sets them by variables (an agent, a trust store, a collector). Spark's launch script
starts a small JVM first, which would take them too, and its output is the command that follows:
`-Xms256m` ends that JVM, and an agent's line garbles the command. So no JVM sees the variables, and
the real one gets their options. Memory and its collector are left out: `spark.driver.memory` and
`spark.driver.extraJavaOptions` set these, and Java refuses two collectors.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"

OPTIONS_BEFORE_COMMAND_LINE = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""The variables whose options Java puts before those of a command line, in this order."""

OPTIONS_AFTER_COMMAND_LINE = "_JAVA_OPTIONS"
"""The one whose options come last, and so win."""

VARIABLES = (*OPTIONS_BEFORE_COMMAND_LINE, OPTIONS_AFTER_COMMAND_LINE)

OTHER_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "OPENJ9_JAVA_OPTIONS")
"""They reach Java in ways of their own, and stay as they are."""

MEMORY = re.compile(
    r"-X?m[snx]\d.*|-XX:[+-](Use\w*GC|AggressiveHeap)"
    r"|-XX:((Initial|Min|Max|Soft)\w*(Heap|RAM)|(Max)?NewSize)\w*=.*"
)
"""Options of the heap's size, and of its collector."""

LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"

CLASS_ARCHIVE = Path(sys.prefix) / "share" / "retentiond" / "spark-classes.jsa"
"""What `scripts/devkit/class_archive.py` makes once for an installation, if somebody runs it."""

TEMPORARY_FILES = "-Djava.io.tmpdir="
"""Where Java and Spark put all that doesn't fit into memory, libraries and sockets, unless a
setting says where."""

ESCAPES_IN_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
"""Escapes for an argument in quotes, in a file of arguments for Java."""


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """``first`` and ``last``: before and after all others. ``files``: of further options, which
    Java reads only where a command line names them. ``left_out``: those of memory. ``variables``:
    which are set."""

    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


def platform_options(environment: Mapping[str, str]) -> PlatformOptions:
    """Raises ValueError, which names the variable, where a quotation has no end."""
    given = {name: _split(name, environment[name]) for name in VARIABLES if environment.get(name)}
    first = [option for name in OPTIONS_BEFORE_COMMAND_LINE for option in given.get(name, ())]
    last = given.get(OPTIONS_AFTER_COMMAND_LINE, [])
    return PlatformOptions(
        first=tuple(each for each in first if _is_passed_on(each)),
        last=tuple(each for each in last if _is_passed_on(each)),
        files=tuple(each for each in (*first, *last) if each.startswith("@")),
        left_out=tuple(each for each in (*first, *last) if MEMORY.fullmatch(each)),
        variables=tuple(given),
    )


def _is_passed_on(option: str) -> bool:
    return not (option.startswith("@") or MEMORY.fullmatch(option))


def _split(name: str, text: str) -> list[str]:
    """Splits as Java does: at blanks outside of quotations, in which nothing is escaped."""
    parts = shlex.shlex(text, posix=True, punctuation_chars=False)
    parts.whitespace_split, parts.escape, parts.commenters = True, "", ""
    try:
        return list(parts)
    except ValueError as error:
        raise ValueError(f"{name} has a quotation without an end") from error


def without_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process that gets the options otherwise, or gets none."""
    return {name: value for name, value in environment.items() if name not in VARIABLES}


def java_arguments(
    conf: Mapping[str, str], folder: Path, platform: PlatformOptions
) -> Iterator[str]:
    """All of them, in Java's order: of two that contradict each other it takes the last. ``folder``
    is for its temporary files, and the home of a user who has none.

    Raises ValueError for options that are none.
    """
    given = " ".join(conf[name] for name in (DEFAULT_OPTIONS, JAVA_OPTIONS) if name in conf)
    if not has_name():
        yield from (f"-Duser.home={folder}", f"-Duser.name={user_name()}")
    yield from platform.first
    yield f"{TEMPORARY_FILES}{folder}"
    for option in shlex.split(f"{given} {archived_classes(given)} {LOGGING}"):
        if option.startswith("-Xmx"):
            raise ValueError(f"{JAVA_OPTIONS} sets -Xmx, which is spark.driver.memory's to set")
        yield option
    yield from platform.last


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
