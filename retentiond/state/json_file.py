"""JSON files that are replaced as a whole, on disk when they are written."""

from __future__ import annotations

import json
import os
from pathlib import Path

from retentiond.errors import StateError


def write_json(path: Path, document: object, consequence: str) -> None:
    """Makes the directory (mode 0700) if there is none. Raises `StateError`, whose sentence ends
    with the ``consequence``."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with unfinished.open("w") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync(path.parent)
    except OSError as error:
        raise StateError(f"{path} can't be written ({error.strerror}){consequence}") from error


def remove(path: Path, consequence: str) -> None:
    """Whether it is there or not. Raises as `write_json`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{path} can't be removed ({error.strerror}){consequence}") from error


def sync(directory: Path) -> None:
    """What was made, renamed or removed in it is so on disk. Raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
