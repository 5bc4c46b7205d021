"""The variables of the environment that Spark heeds beside its settings, and which are wrong.

Spark's launcher and its session say of a wrong one what became of it, and never its name.
"""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

PREFIXES = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")

APPLICATION = "pyspark-shell"
"""What PYSPARK_SUBMIT_ARGS ends with: PySpark's name for a Python program."""


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
    there = next((each for each in (folder, *folder.absolute().parents) if each.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _is_own(address: str) -> bool:
    try:
        kind, _, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as tried:
            tried.bind(place)
    except (OSError, UnicodeError):
        return False
    return True
