"""How the files of ``state_dir`` are made and opened: a commit is on disk when it returns."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Of a file that is there. Raises `sqlite3.Error`."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


@contextmanager
def created(path: Path, schema: str, version: int) -> Iterator[sqlite3.Connection]:
    """A new file, to be filled in the block, for its owner's eyes only.

    It is built beside its place and appears there as a whole and after the block. A file that
    another process has put there meanwhile stays, and this one is dropped. Raises `OSError` and
    `sqlite3.Error`.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        connection = sqlite3.connect(unfinished, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(f"BEGIN; {schema} PRAGMA user_version = {version}; COMMIT;")
            yield connection
        finally:
            connection.close()
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        unfinished.unlink()
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
