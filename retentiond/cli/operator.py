"""Who gives a command, for the audit log."""

from __future__ import annotations

import getpass
import os
import time

from retentiond.state.actions import Action


def operator() -> str:
    """The user's name; in a container a user may have none, and is a number then."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return f"uid {os.getuid()}"


def action(what: str, subject: str | None, detail: str) -> Action:
    """Of now."""
    return Action(time.time_ns() // 1_000_000, operator(), what, subject, detail)
