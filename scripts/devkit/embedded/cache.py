"""A per-user folder of fetched things, safe against parallel and interrupted fetches."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_root() -> Path:
    """``$RETENTIOND_KAFKA_CACHE``, else ``retentiond/kafka`` in the user's cache folder."""
    if own := os.environ.get("RETENTIOND_KAFKA_CACHE"):
        return Path(own).expanduser()
    user_cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(user_cache).expanduser() / "retentiond" / "kafka"


def ensure(directory: Path, fetch: Callable[[Path], None]) -> Path:
    """``directory``, filled by ``fetch(empty folder)`` if it isn't there yet.

    One process fetches, the others wait for it. The folder gets its name only when ``fetch``
    has returned: what is there is whole. A killed fetch leaves a remnant under another name,
    which the next one removes.
    """
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f".{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the kernel, also when we are killed
        if not directory.is_dir():
            _fetch_and_rename(directory, fetch)
    return directory


def _fetch_and_rename(directory: Path, fetch: Callable[[Path], None]) -> None:
    prefix = f".{directory.name}.part-"
    for remnant in directory.parent.glob(f"{prefix}*"):
        shutil.rmtree(remnant)
    part = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
    try:
        fetch(part)
        part.rename(directory)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
