"""Where state is kept by default: in the system's folder, or among the user's own files (XDG)."""

from __future__ import annotations

import os
from pathlib import Path

from retentiond.errors import StateError, UsageError

SYSTEM_STATE_DIR = Path("/var/lib/retentiond")

GROUPS_NAME = "groups.db"  # only a daemon, or a cycle of `run --once`, leaves it in its folder


def daemon_state_dir(system: Path = SYSTEM_STATE_DIR) -> Path:
    """``system`` where it is, whoever owns it, or where this user can make it; else the user's own.

    Everybody on a host with such a folder comes to the same place: a pause by another user is
    heeded or refused. A daemon's memory stays in use where it is: what it remembers of groups that
    have vanished must not be lost because another folder has appeared. Raises `UsageError` where
    there are two.
    """
    if (remembered := _user_memory(system)) is not None:
        return remembered
    if system.exists() or os.access(system.parent, os.W_OK | os.X_OK):
        return system
    try:
        return user_state_dir()
    except UsageError:
        return system


def _user_memory(system: Path) -> Path | None:
    """The user's own folder, where a daemon has kept its memory there."""
    try:
        own = user_state_dir()
    except UsageError:
        return None
    if not (own / GROUPS_NAME).exists():
        return None
    if (system / GROUPS_NAME).exists():
        raise UsageError(
            f"a daemon has kept its state in {system} and in {own}; "
            "say with state_dir which one is meant"
        )
    return own


def user_state_dir() -> Path:
    """``$XDG_STATE_HOME/retentiond``, else ``~/.local/state/retentiond``. Raises `UsageError`."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):  # the specification passes over a relative one
        return Path(base) / "retentiond"
    try:
        return Path.home() / ".local" / "state" / "retentiond"
    except RuntimeError as error:
        raise UsageError("there is no home directory; name one with --state-dir") from error


def make_state_dir(state_dir: Path) -> None:
    """Makes the directory for its owner alone. Raises `StateError`."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"state_dir {state_dir} can't be made ({error.strerror}), and without an audit log "
            "nothing is deleted; choose another one with --state-dir"
        ) from error
