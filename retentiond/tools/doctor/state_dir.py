"""The state directory on this host, and the groups that it remembers."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retentiond.formatting import say_bytes
from retentiond.memory.remembered import Remembered
from retentiond.state.pause import Pause, read_pause
from retentiond.state.state_dir import holder_of
from retentiond.tools.doctor.finding import Finding, Level, ok

LEAST_BYTES = 1 << 30

TOO_FEW_BYTES = 64 << 20
"""The audit log of a few large cycles."""


@dataclass(frozen=True, slots=True)
class StateDir:
    """``base``: the folder itself, or what is there of the path to it. ``owner`` and ``user`` are
    numeric ids; ``holder``: who has locked it."""

    path: Path
    base: Path
    is_folder: bool  # of the base
    is_writable: bool
    owner: int
    user: int
    mode: int
    free_bytes: int
    holder: str | None
    pause: Pause | None

    @property
    def exists(self) -> bool:
        return self.base == self.path


def read_state_dir(path: Path) -> StateDir:
    """Writes nothing. Raises ``OSError`` where not even that can be looked at."""
    base = next(each for each in (path, *path.absolute().parents) if each.exists())
    found = base.stat()
    return StateDir(
        path=path,
        base=base,
        is_folder=base.is_dir(),
        is_writable=os.access(base, os.W_OK | os.X_OK),
        owner=found.st_uid,
        user=os.geteuid(),
        mode=stat.S_IMODE(found.st_mode),
        free_bytes=shutil.disk_usage(base).free,
        holder=holder_of(path),
        pause=read_pause(path),
    )


def check_remembered(known: Remembered, cluster_id: str, path: Path) -> Iterator[Finding]:
    """It is of this cluster, and whole."""
    if known.lost:
        yield Finding(
            Level.PROBLEM,
            "state_dir",
            f"nothing is deleted: {known.lost}",
            "bring the file back, or see `retentiond groups accept`",
        )
    if known.cluster_id not in (None, cluster_id):
        yield Finding(
            Level.PROBLEM,
            "state_dir",
            f"{path} belongs to cluster {known.cluster_id}, and this is cluster {cluster_id}, so "
            "every cycle is refused",
            "correct bootstrap.servers, or give each cluster a state_dir of its own",
        )


def check_state_dir(found: StateDir) -> Iterator[Finding]:
    if not found.is_folder:
        yield Finding(
            Level.PROBLEM,
            "state_dir",
            f"{found.path} can't be made: {found.base} is no folder",
            "choose another state_dir",
        )
    elif not found.is_writable:
        yield Finding(
            Level.PROBLEM,
            "state_dir",
            f"{found.base} can't be written to by this user (id {found.user}), and without an "
            "audit log nothing is deleted",
            f"chown it to the daemon's user, who owns it now is id {found.owner}; or run doctor "
            "as that user",
        )
    elif not found.exists:
        yield ok("state_dir", f"{found.path} is not there yet, and can be made")
    else:
        yield from _of_a_folder(found)
    yield from _disk(found)
    if found.pause is not None:
        yield Finding(
            Level.WARNING, "pause", f"nothing is deleted: {found.pause}", "retentiond resume"
        )


def _of_a_folder(found: StateDir) -> Iterator[Finding]:
    if found.holder is not None:
        yield ok("state_dir", f"{found.path} is in use by {found.holder}, which is as it should be")
    else:
        yield ok("state_dir", f"{found.path} can be written to; no daemon holds it now")
    if found.owner != found.user:
        yield Finding(
            Level.WARNING,
            "state_dir",
            f"{found.path} belongs to the user with id {found.owner}, and this one has id "
            f"{found.user}: files that one writes the other may not",
            "run doctor, and every command that writes there, as the daemon's user",
        )
    if found.mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding(
            Level.WARNING,
            "state_dir",
            f"others may write to {found.path} (mode {found.mode:o}), and what is remembered "
            "there decides what is deleted",
            f"chmod 700 {found.path}",
        )


def _disk(found: StateDir) -> Iterator[Finding]:
    left = f"{say_bytes(found.free_bytes)} are left on the disk of {found.base}"
    if found.free_bytes >= LEAST_BYTES:
        yield ok("disk", left)
        return
    yield Finding(
        Level.PROBLEM if found.free_bytes < TOO_FEW_BYTES else Level.WARNING,
        "disk",
        f"only {left}: a deletion that can't be recorded is not made",
        "make room, or move state_dir to another disk",
    )
