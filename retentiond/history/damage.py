"""Finds damage in a history: files that can't be read, and commits of the table's log.

A damaged file costs its own entries and no others. It is left in place, because a backup may bring
it back. A damaged commit of the log is put aside and replaced by an empty one, so that the later
commits count again. The entries that it had made visible are lost.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

LOG = "_delta_log"

DAMAGED_SUFFIX = ".damaged"
"""The suffix of a damaged file of the log that is put aside."""

EMPTY_COMMIT = json.dumps({"commitInfo": {"operation": "REPLACE DAMAGED COMMIT"}}) + "\n"

LAST_CHECKPOINT = "_last_checkpoint"
"""The file that names the newest checkpoint. deltalake fails if that checkpoint is missing."""

CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint\..*parquet")


def damage_by_size(path: Path, size_bytes: int) -> str | None:
    """Why a file is damaged, by its size; None if the size is right."""
    try:
        actual_bytes = path.stat().st_size
    except FileNotFoundError:
        return "it is missing"
    if actual_bytes == size_bytes:
        return None
    return f"it has {actual_bytes} bytes instead of {size_bytes}"


STORE_ERROR = re.compile(
    r"generic (?!local)\w+ error|permission|denied|forbidden|credential", re.IGNORECASE
)


def damage_of_error(error: Exception) -> str | None:
    """Why a file is damaged, by the error of reading it. None if the store failed, which proves
    nothing about the file."""
    text = " ".join(str(error).split())
    if re.search("not found|no such file", text, re.IGNORECASE):
        return "it is missing"
    if STORE_ERROR.search(text):
        return None
    return f"it can't be read (…{text[-100:]})"


def has_empty_commit(place: Path) -> bool:
    """Whether the log has an empty file as a commit. deltalake takes it for a commit without
    changes."""
    return any(commit.stat().st_size == 0 for commit in (place / LOG).glob("*.json"))


def mend_log(place: Path, first_commit: Callable[[Path], object]) -> tuple[Path, ...]:
    """Puts damaged commits and checkpoints of the log aside, and replaces the commits. Returns the
    paths of these files; none if nothing can be fixed. ``first_commit`` creates a table, with the
    log's first commit, in a folder. Raises OSError.
    """
    log, mended = place / LOG, []
    commits = {int(commit.stem): commit for commit in log.glob(f"{'[0-9]' * 20}.json")}
    checkpoints: dict[int, list[Path]] = {}
    for file in log.iterdir():
        if match := CHECKPOINT_FILE.fullmatch(file.name):
            checkpoints.setdefault(int(match[1]), []).append(file)
    for version in sorted(checkpoints, reverse=True):
        damaged = [file for file in checkpoints[version] if not _is_parquet(file)]
        if not damaged:
            break
        mended += [_put_aside(file) for file in damaged]
        del checkpoints[version]
    if not any(checkpoints.get(version) for version in _last_checkpoint(log)):
        (log / LAST_CHECKPOINT).unlink(missing_ok=True)  # then deltalake lists the log
    first = max(checkpoints, default=-1) + 1
    if not commits or (first == 0 and min(commits) > 1):
        return tuple(mended)  # the contents of the missing commits can't be known
    for version in range(first, max(commits) + 1):
        path = commits.get(version, log / f"{version:020}.json")
        if _is_commit(path):
            continue
        if path.exists():
            _put_aside(path)
        mended.append(path)
        if version:
            path.write_text(EMPTY_COMMIT)
        else:
            with tempfile.TemporaryDirectory() as folder:
                first_commit(Path(folder))
                shutil.copyfile(Path(folder) / LOG / path.name, path)
    return tuple(mended)


def copy_of_log(place: Path, folder: Path) -> None:
    """Makes a table with a copy of the log and links to the files, so that a process that only
    reads can fix the copy."""
    shutil.copytree(place / LOG, folder / LOG)
    for entry in place.iterdir():
        if entry.name != LOG:
            (folder / entry.name).symlink_to(entry)


def _last_checkpoint(log: Path) -> tuple[int, ...]:
    """The version of the newest checkpoint by `LAST_CHECKPOINT`; empty if it is not known."""
    try:
        return (int(json.loads((log / LAST_CHECKPOINT).read_bytes())["version"]),)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _put_aside(path: Path) -> Path:
    path.rename(path.with_name(path.name + DAMAGED_SUFFIX))
    return path


def _is_commit(path: Path) -> bool:
    try:
        lines = [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, ValueError):
        return False
    return bool(lines) and all(isinstance(line, dict) for line in lines)


def _is_parquet(path: Path) -> bool:
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 MB that a daemon doesn't need

    try:
        pq.read_table(path)
    except (OSError, pa.ArrowException):
        return False
    return True
