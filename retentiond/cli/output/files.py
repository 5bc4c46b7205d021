"""Files that commands write: each is there as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retentiond.errors import UsageError
from retentiond.state.state_dir import sync


def refuse_unfit(path: Path, option: str) -> None:
    """Raises `UsageError` where no new file can be made, before the work of minutes."""
    if path.exists() or path.is_symlink():
        raise _exists(path, option)
    refuse_without_folder(path)


def refuse_without_folder(path: Path) -> None:
    """Raises `UsageError`."""
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for {path.name}; make it first")


@contextmanager
def new_file(path: Path, option: str) -> Iterator[Path]:
    """A path to write to. At the end the file gets its own name, and replaces none that has it.

    Raises `UsageError`.
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        try:
            yield unfinished
            _put_in_place(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except FileExistsError as error:
        raise _exists(path, option) from error
    except OSError as error:
        raise _unwritable(path, error) from error


def _put_in_place(unfinished: Path, path: Path) -> None:
    """On disk, under its name. Raises OSError."""
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError(path) from None
        unfinished.rename(path)
    sync(path.parent)


def replace_file(path: Path, text: str) -> None:
    """Replaces what the file holds, wholly or not at all. Raises `UsageError`."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_text(text, encoding="utf-8")  # a device or a pipe is not replaced
            return
        try:
            unfinished.write_text(text, encoding="utf-8")
            if path.exists():
                shutil.copymode(path, unfinished)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from error


def _exists(path: Path, option: str) -> UsageError:
    return UsageError(f"{path} exists and is not overwritten; give {option} another name")


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} can't be written ({error.strerror or error}); choose another")
