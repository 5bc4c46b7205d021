"""The place of a history, a folder or an object store, and what its errors mean.

A damaged file costs its own entries and no others. It is left in place, because a backup may bring
it back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from retentiond.errors import HistoryUnavailable

STORE = {"timeout": "30s", "connect_timeout": "5s"}

SECRETS = ("SECRET", "TOKEN", "KEY", "PASSWORD", "SAS")
"""Environment variables with one of these in their name are never shown."""

TERMINAL_CODES = re.compile(r"\x1b\[[0-9;]*m|[\u21b3]")

AS_NAMED = {"__globPaths__": "false"}
"""An option of Spark's reader: a path is a name, and no glob."""

STORE_ERROR = re.compile(
    r"generic (?!local)\w+ error|permission|denied|forbidden|credential", re.IGNORECASE
)

MOST_CHARS = 300  # of another library's error


def location(path: str | Path) -> str:
    """The place as deltalake names it: an absolute folder, or a URL of s3, gs, az, …"""
    text = str(path)
    if "://" not in text:
        return str(Path(text).absolute())
    return f"s3://{text.removeprefix('s3a://')}" if text.startswith("s3a://") else text


def is_remote(place: str) -> bool:
    return "://" in place


def uri_for_spark(path: str) -> str:
    """A file as Spark takes it: without a scheme it would be one of Hadoop's default file system.
    Hadoop decodes no ``%``, and takes a name as it is."""
    return path if is_remote(path) else f"file://{path}"


def store_options(place: str) -> dict[str, str] | None:
    """The options of an object store. Credentials come from the environment alone."""
    return dict(STORE) if is_remote(place) else None


@contextmanager
def panics_raised() -> Iterator[None]:
    """A panic of deltalake is no `Exception`, and no name of its class can be imported."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DeltaError(f"deltalake has failed: {error}") from error


@contextmanager
def errors_explained(place: str) -> Iterator[None]:
    """Turns errors of the store and of files into `HistoryUnavailable`."""
    try:
        with panics_raised():
            yield
    except HistoryUnavailable:
        raise
    except TableNotFoundError as error:
        if not is_remote(place):
            _refuse_denied(place)
        raise HistoryUnavailable(f"there is no history in {place} yet", kind="missing") from error
    except CommitFailedError as error:
        raise HistoryUnavailable(
            f"another process has written to the history in {place} at the same time",
            kind="conflict",
        ) from error
    except (OSError, DeltaError, pa.ArrowException, ValueError) as error:
        kind, remedy = _cause(error, place)
        raise HistoryUnavailable(
            f"the history in {place} can't be used ({shown(error)}); {remedy}", kind=kind
        ) from error


def _refuse_denied(place: str) -> None:
    """A folder that this user may not look into would seem to have no history."""
    folder, access = Path(place).absolute(), os.R_OK | os.X_OK
    while not os.path.exists(folder):
        folder, access = folder.parent, os.X_OK
    if not os.access(folder, access):
        raise HistoryUnavailable(
            f"the history in {place} can't be used ({folder}: Permission denied); run the command "
            "as the daemon's user",
            kind="not allowed",
        )


def _cause(error: Exception, place: str) -> tuple[str, str]:
    text = str(error).lower()
    if re.search("no space|quota|os error 28|errno 28", text):
        return "full", "make room, or set history.max_bytes"
    if re.search("corrupt|magic bytes|not a parquet|thrift|contiguous commit", text):
        return _damaged(place)
    if re.search(r"nosuchbucket|not found", text):
        return "missing", "make the bucket or the folder, or set history.path"
    if re.search(r"permission|read-only|denied|forbidden|credential|\b40[13] ", text):
        return "not allowed", "let retentiond's user write there, or set history.path"
    if isinstance(error, OSError) or "generic" in text:
        return "unreachable", "see that it is there, or set history.path"
    return _damaged(place)


def _damaged(place: str) -> tuple[str, str]:
    if is_remote(place):
        return "damaged", "set history.path to another one, and a new history begins there"
    return "damaged", f"move {place} aside, and a new history begins"


def shown(error: object) -> str:
    """The error's text on one line, without secrets from the environment."""
    text = " ".join(TERMINAL_CODES.sub("", str(error)).split())
    for name, value in os.environ.items():
        if len(value) >= 4 and any(word in name.upper() for word in SECRETS):
            text = text.replace(value, "…")
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"


def damage_by_size(path: Path, size_bytes: int) -> str | None:
    """Why a file is damaged, by its size; None if the size is right."""
    try:
        actual_bytes = path.stat().st_size
    except FileNotFoundError:
        return "it is missing"
    if actual_bytes == size_bytes:
        return None
    return f"it has {actual_bytes} bytes instead of {size_bytes}"


def damage_of_error(error: Exception) -> str | None:
    """Why a file is damaged, by the error of reading it. None if the store failed, which proves
    nothing about the file."""
    text = " ".join(str(error).split())
    if re.search("not found|no such file", text, re.IGNORECASE):
        return "it is missing"
    if STORE_ERROR.search(text):
        return None
    return f"it can't be read (…{text[-100:]})"
