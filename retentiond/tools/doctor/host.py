"""Checks the HTTP port and the state directory."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from retentiond.config.config import AuditLog
from retentiond.errors import StateError
from retentiond.formatting import say_about, say_bytes
from retentiond.memory.remembered import Remembered
from retentiond.state.audit_file import entry_bytes, oldest_entry_s
from retentiond.state.operator_actions import read_pause
from retentiond.state.state import check_stored, try_state
from retentiond.tell.port import bound_socket
from retentiond.tools.doctor.finding import Finding, Level, ok, problem, warning


def check_port(host: str, port: int, holder: str | None) -> Iterator[Finding]:
    """Binds the port for a moment, as the daemon would. ``holder``: the process that has locked the
    state, and so has the port, too."""
    where = f"{host}:{port}"
    if port == 0:
        yield ok("port", "any free one (http.port is 0)")
        return
    try:
        bound_socket(host, port, socket.socket).close()
    except OSError as error:
        is_no_address = isinstance(error, socket.gaierror)
        why = errno.EADDRNOTAVAIL if is_no_address else error.errno or 0
        if why == errno.EADDRINUSE and holder is not None:
            yield ok("port", f"{where} is taken, and {holder} runs")
            return
        yield problem(
            "port",
            f"{where} can't be listened on ({os.strerror(why)}), so the daemon can't start",
            "choose another http.host or http.port, or end what listens there",
        )
    else:
        yield ok("port", f"{where} is free")


FREE_WARNING_BYTES = 1 << 30

FREE_PROBLEM_BYTES = 64 << 20
"""Enough for the audit log of a few large cycles."""


LEAST_LOG_BYTES = 16 << 20
LEAST_LOG_MS = 6 * 3_600_000
"""A smaller or younger audit log says nothing about how it grows."""


def check_audit(path: Path, wanted: AuditLog, now_ms: int) -> Iterator[Finding]:
    """``audit.max_bytes`` is enough for ``audit.keep``, as far as the log's growth tells."""
    size, oldest_s = entry_bytes(path), oldest_entry_s(path)
    if size is None or oldest_s is None or wanted.max_bytes is None:
        return
    age_ms = now_ms - round(oldest_s * 1000)
    if size < LEAST_LOG_BYTES or age_ms < LEAST_LOG_MS:
        return
    enough_ms = age_ms * wanted.max_bytes // size
    room = f"audit.max_bytes ({say_bytes(wanted.max_bytes)}) is enough for about"
    is_short = wanted.keep_ms is None or enough_ms < wanted.keep_ms
    sentence = f"{room} {say_about(enough_ms)} of deletions as they were made here"
    if not is_short:
        yield ok("audit log", sentence)
        return
    promise = "for ever" if wanted.keep_ms is None else f"for {say_about(wanted.keep_ms)}"
    yield warning(
        "audit log",
        f"{sentence}, and audit.keep promises to keep them {promise}",
        "raise audit.max_bytes, or lower audit.keep to what you need",
    )


def check_remembered(known: Remembered, cluster_id: str, path: Path) -> Iterator[Finding]:
    """The memory of groups is about this cluster, and nothing of it is lost."""
    if known.lost:
        yield problem(
            "state_dir",
            f"nothing is deleted: {known.lost}",
            "bring the file back, or see `retentiond groups accept`",
        )
    if known.cluster_id not in (None, cluster_id):
        yield problem(
            "state_dir",
            f"{path} belongs to cluster {known.cluster_id}, and this is cluster {cluster_id}, so "
            "every cycle is refused",
            "correct bootstrap.servers, or give each cluster a state_dir of its own",
        )


def check_state_dir(path: Path, holder: str | None) -> Iterator[Finding]:
    """The daemon can use the state directory. Unless one is at work in it, a state is made beside
    it for a moment, to try its file system. ``holder``: the process that has locked the state.
    Raises ``OSError`` if the directory can't be looked at."""
    # The folder itself, or the deepest existing folder on the path to it.
    base = next(place for place in (path, *path.absolute().parents) if place.exists())
    status, user = base.stat(), os.geteuid()
    is_usable = base.is_dir() and os.access(base, os.W_OK | os.X_OK)
    refusal: StateError | None = None
    try:
        check_stored(path)
        if is_usable and holder is None:
            try_state(path, base)
    except StateError as error:
        refusal = error
    if not base.is_dir():
        yield problem(
            "state_dir", f"{path} can't be made: {base} is no folder", "choose another state_dir"
        )
    elif not is_usable:
        yield problem(
            "state_dir",
            f"{base} can't be written to by this user (id {user}), and without an audit log "
            "nothing is deleted",
            f"chown it to the daemon's user (it belongs to id {status.st_uid} now), or run doctor "
            "as that user",
        )
    elif refusal is not None:
        yield problem("state_dir", *_with_remedy(str(refusal)))
    elif base != path:
        yield ok("state_dir", f"{path} is not there yet, and can be made")
    else:
        if holder is not None:
            yield ok("state_dir", f"{path} is in use by {holder}, which is as it should be")
        else:
            yield ok("state_dir", f"{path} can be written to; no daemon holds it now")
        yield from _owners(path, status, user)
    yield from _disk(base)
    if (pause := read_pause(path)) is not None:
        yield warning("pause", f"nothing is deleted: {pause}", "retentiond resume")


def _with_remedy(refusal: str) -> tuple[str, str | None]:
    """A `StateError`'s sentence, and what to do, which follows its last semicolon."""
    sentence, semicolon, remedy = refusal.rpartition("; ")
    return (sentence, remedy) if semicolon else (refusal, None)


def _owners(path: Path, status: os.stat_result, user: int) -> Iterator[Finding]:
    """Nobody but this user can write to it."""
    if status.st_uid != user:
        yield warning(
            "state_dir",
            f"{path} belongs to the user with id {status.st_uid}, and this one has id {user}: "
            "neither may be able to write the other's files",
            "run doctor, and every command that writes there, as the daemon's user",
        )
    # Group 0 is root's group, or the group of a container's user that the image doesn't know.
    by_others = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid else 0)
    if status.st_mode & by_others:
        yield warning(
            "state_dir",
            f"others may write to {path} (mode {stat.S_IMODE(status.st_mode):o}), and what is "
            "remembered there decides what is deleted",
            f"chmod 700 {path}",
        )


def _disk(base: Path) -> Iterator[Finding]:
    free_bytes = shutil.disk_usage(base).free
    left = f"{say_bytes(free_bytes)} are left on the disk of {base}"
    if free_bytes >= FREE_WARNING_BYTES:
        yield ok("disk", left)
        return
    yield Finding(
        Level.PROBLEM if free_bytes < FREE_PROBLEM_BYTES else Level.WARNING,
        "disk",
        f"only {left}: a deletion that can't be recorded is not made",
        "make room, or move state_dir to another disk",
    )
