"""What Spark's JVM has beside its settings: variables, Java's options, and a folder of its own.

Spark's launcher and its session say of a wrong variable what became of it, and never its name.

A platform gives options to every Java by variables. Spark's launch script starts a small JVM first,
which would take them too, and its output is the command that follows: `-Xms256m` ends that JVM, and
an agent's line garbles the command. So no JVM of retentiond's sees the variables.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shlex
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

PREFIXES = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")

APPLICATION = "pyspark-shell"
"""What PYSPARK_SUBMIT_ARGS ends with: PySpark's name for a Python program."""


MASTER_SETTING = "spark.master"

OF_ANOTHER_SPARK = (
    *("MASTER", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE"),
    *("SPARK_API_MODE", "SPARK_CONNECT_MODE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE"),
)
"""Variables by which a host or a notebook leads PySpark to a Spark of its own."""

HOSTS_SETTINGS = "SPARK_CONF_DIR"
"""The folder of the host's defaults (`spark-defaults.conf`, `spark-env.sh`)."""


def is_local(master: str) -> bool:
    """Whether such a master is in the driver's own JVM."""
    return master.startswith("local")


def forget_another_spark(master: str) -> None:
    """From now on the whole process works as if these variables were not set: its configuration
    says which Spark it uses. A local one has no use for the host's defaults either."""
    for name in (*OF_ANOTHER_SPARK, *((HOSTS_SETTINGS,) if is_local(master) else ())):
        os.environ.pop(name, None)


def heeded_variables(environment: Mapping[str, str]) -> list[str]:
    """The names of those that are set, sorted, but for what `SparkSessions` itself sets."""
    return sorted(
        name
        for name, value in environment.items()
        if value
        and name.startswith(PREFIXES)
        and not (name == "PYSPARK_PYTHON" and value == sys.executable)
    )


def say_variables(environment: Mapping[str, str]) -> str:
    """What to look at where Spark has not started: those that are wrong, else all."""
    names = heeded_variables(environment)
    return say_wrong(environment) or (f"Spark also heeds {', '.join(names)}" if names else "")


def say_wrong(environment: Mapping[str, str]) -> str:
    """The variables that are wrong; empty: none seems to be."""
    wrong = [*_wrong(environment)]
    told = f"{'; '.join(wrong)}: correct or unset {'it' if len(wrong) == 1 else 'them'}"
    return told if wrong else ""


def _wrong(environment: Mapping[str, str]) -> Iterator[str]:
    given = {name: value for name, value in environment.items() if value}
    for name, program in (("JAVA_HOME", "java"), ("SPARK_HOME", "spark-submit")):
        if name in given and shutil.which(program, path=str(Path(given[name], "bin"))) is None:
            yield f"{name} is {given[name]!r}, where there is no bin/{program}"
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if name in given and shutil.which(given[name]) is None:
            yield f"{name} is {given[name]!r}, which is no program"
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        if name in given and not os.access(given[name], os.R_OK | os.X_OK):
            yield f"{name} is {given[name]!r}, which is no folder that can be read"
    for folder in given.get("SPARK_LOCAL_DIRS", "").split(","):
        if folder and not _can_be_written(Path(folder)):
            yield f"SPARK_LOCAL_DIRS names {folder!r}, where nothing can be written"
    if "SPARK_LOCAL_IP" in given and not _is_own(given["SPARK_LOCAL_IP"]):
        yield f"SPARK_LOCAL_IP is {given['SPARK_LOCAL_IP']!r}, which is no address of this host"
    yield from _wrong_arguments(given.get("PYSPARK_SUBMIT_ARGS", APPLICATION))


def _wrong_arguments(text: str) -> Iterator[str]:
    try:
        arguments = shlex.split(text)
    except ValueError:
        yield "PYSPARK_SUBMIT_ARGS has a quotation without an end"
        return
    if APPLICATION not in arguments:
        yield f"PYSPARK_SUBMIT_ARGS does not end with {APPLICATION}"


def _can_be_written(folder: Path) -> bool:
    """Spark makes one that is missing."""
    there = next((base for base in (folder, *folder.absolute().parents) if base.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _is_own(address: str) -> bool:
    try:
        kind, _, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as tried:
            tried.bind(place)
    except (OSError, UnicodeError):
        return False
    return True


JAVA_OPTIONS = "spark.driver.extraJavaOptions"

DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"

VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

OTHER_VARIABLES = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "OPENJ9_JAVA_OPTIONS")
"""They reach Java in ways of their own, and stay as they are."""

LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
"""An address has no blank, no comma and no quotation mark, whatever the path has."""

CLASS_ARCHIVE = Path(sys.prefix) / "share" / "retentiond" / "spark-classes.jsa"
"""What `scripts/devkit/class_archive.py` makes once for an installation, if somebody runs it."""

TEMPORARY_FILES = "-Djava.io.tmpdir="
"""Where Java and Spark put all that doesn't fit into memory, libraries and sockets, unless a
setting says where."""

ESCAPES_IN_QUOTES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
"""Escapes for an argument in quotes, in a file of arguments for Java."""


def without_variables(environment: Mapping[str, str]) -> dict[str, str]:
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
    return "".join(f'"{argument.translate(ESCAPES_IN_QUOTES)}"\n' for argument in arguments)


def archived_classes(given: str) -> str:
    """The options for the class archive, unless those that are ``given`` name one. A JVM of another
    Java or with other jars ignores it; the log options keep it from saying so."""
    has_its_own = "SharedArchiveFile" in given or "ArchiveClassesAtExit" in given
    if has_its_own or not CLASS_ARCHIVE.exists():
        return ""
    archive = shlex.quote(f"-XX:SharedArchiveFile={CLASS_ARCHIVE}")
    return f"{archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


PREFIX, SUFFIX = "retentiond-spark-", ".locked"
"""Folders of other programs, and of a retentiond that locked none, have other names."""

NEW_FOLDER_PREFIX = "retentiond-new-"


class JvmFolder:
    """The JVM's folder for temporary files: a new one, after those of dead processes are gone.

    The process holds the kernel's lock on its folder until it ends, whatever its end. So a folder
    that can be locked belongs to nobody any more. A folder gets its name only when it is locked; a
    lock also keeps systemd from tidying it away. Raises OSError.
    """

    def __init__(self) -> None:
        parent = _parent()
        _remove_abandoned(parent)
        made = Path(tempfile.mkdtemp(prefix=NEW_FOLDER_PREFIX, dir=parent))
        self.path = parent / f"{PREFIX}{made.name.removeprefix(NEW_FOLDER_PREFIX)}{SUFFIX}"
        self._lock: int | None = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: none is tidied there
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            made.rename(self.path)
        except BaseException:
            self.remove()
            shutil.rmtree(made, ignore_errors=True)
            raise

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def _parent() -> Path:
    """Python's folder for temporary files. It may be gone since it was chosen: then it is made
    again, or another one is chosen."""
    chosen = Path(tempfile.gettempdir())
    if not chosen.is_dir():
        with contextlib.suppress(OSError):
            chosen.mkdir(0o700, parents=True)
            return chosen
        tempfile.tempdir = None
        chosen = Path(tempfile.gettempdir())
    return chosen


def _remove_abandoned(parent: Path) -> None:
    with contextlib.suppress(OSError):
        for path in parent.glob(f"{PREFIX}*{SUFFIX}"):
            with contextlib.suppress(OSError):  # another process was quicker
                folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    status = os.fstat(folder)
                    is_own = status.st_uid == os.geteuid()
                    if is_own and stat.S_IMODE(status.st_mode) == 0o700:
                        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(folder)
