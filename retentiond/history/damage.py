"""What of a history is damaged: files that can't be read, and commits of the table's log.

A damaged file costs its own entries and no others. It is left where it is, because a backup may
bring it back. A damaged commit of the log is put aside and replaced by one that says nothing, so
that the commits behind it count again; what it had made visible is lost.
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
"""The end of the name of a damaged commit that is put aside."""

EMPTY_COMMIT = json.dumps({"commitInfo": {"operation": "REPLACE DAMAGED COMMIT"}}) + "\n"

LAST_CHECKPOINT = "_last_checkpoint"
"""Names the newest checkpoint. The library gives up where that one isn't there."""

CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint\..*parquet")


def damage_by_size(path: Path, size_bytes: int) -> str | None:
    """Why a file of a folder is damaged, as its size tells; None where it tells nothing."""
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        return "it is missing"
    return None if found == size_bytes else f"it has {found} bytes instead of {size_bytes}"


STORE_ERROR = re.compile(
    r"generic (?!local)\w+ error|permission|denied|forbidden|credential", re.IGNORECASE
)


def damage_of_error(error: Exception) -> str | None:
    """What reading a file says of it; None where the store failed, which says nothing of it."""
    text = " ".join(str(error).split())
    if re.search("not found|no such file", text, re.IGNORECASE):
        return "it is missing"
    if STORE_ERROR.search(text):
        return None
    return f"it can't be read (…{text[-100:]})"


def has_empty_commit(place: Path) -> bool:
    """Whether the log has an empty commit. The library takes it for one that says nothing."""
    return any(each.stat().st_size == 0 for each in (place / LOG).glob("*.json"))


def mend_log(place: Path, first_commit: Callable[[Path], object]) -> tuple[Path, ...]:
    """Puts damaged commits and checkpoints of the log aside; their paths. None where nothing can be
    mended. ``first_commit`` makes a table with the log's first commit in a folder. Raises OSError.
    """
    log, mended = place / LOG, []
    commits = {int(each.stem): each for each in log.glob(f"{'[0-9]' * 20}.json")}
    checkpoints: dict[int, list[Path]] = {}
    for each in log.iterdir():
        if found := CHECKPOINT_FILE.fullmatch(each.name):
            checkpoints.setdefault(int(found[1]), []).append(each)
    for version in sorted(checkpoints, reverse=True):
        damaged = [each for each in checkpoints[version] if not _is_parquet(each)]
        if not damaged:
            break
        mended += [_put_aside(each) for each in damaged]
        del checkpoints[version]
    if not any(checkpoints.get(version) for version in _hinted(log)):
        (log / LAST_CHECKPOINT).unlink(missing_ok=True)  # without it the log is listed
    first = max(checkpoints, default=-1) + 1
    if not commits or (first == 0 and min(commits) > 1):
        return tuple(mended)  # what the missing ones told, nobody knows
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
    """A table whose log is one's own and whose files are those of the place: who only reads mends
    no log of others."""
    shutil.copytree(place / LOG, folder / LOG)
    for each in place.iterdir():
        if each.name != LOG:
            (folder / each.name).symlink_to(each)


def _hinted(log: Path) -> tuple[int, ...]:
    """The version of the checkpoint that the hint names."""
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
    return bool(lines) and all(isinstance(each, dict) for each in lines)


def _is_parquet(path: Path) -> bool:
    import pyarrow.parquet as pq  # noqa: PLC0415 - 50 MB that a daemon has no use for

    try:
        pq.read_table(path)
    except (OSError, pa.ArrowException):
        return False
    return True
