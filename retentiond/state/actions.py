"""What operators did by hand, in the audit log."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from retentiond.state.audit_file import AUDIT_NAME, open_for_writing, unusable
from retentiond.state.state_dir import connect

COLUMNS = "at_ms, operator, action, subject, detail"


@dataclass(frozen=True, slots=True)
class Action:
    """``action``: pause, resume, forget, accept, or a request of delete-records or a removal of
    orphans, and its outcome.

    ``subject``: the group that was forgotten, or the id of the request.
    """

    at_ms: int
    operator: str
    action: str
    subject: str | None
    detail: str


def record_action(state_dir: Path, action: Action) -> None:
    """On disk when it returns; a running daemon goes on meanwhile. Raises `StateError`."""
    with _explained(state_dir), closing(open_for_writing(state_dir)) as connection:
        connection.execute(
            f"INSERT INTO actions ({COLUMNS}) VALUES (?, ?, ?, ?, ?)", astuple(action)
        )


def read_actions(state_dir: Path) -> tuple[Action, ...]:
    """Oldest first. Raises `StateError` when there is no audit log or it can't be read."""
    with (
        _explained(state_dir),
        closing(connect(state_dir / AUDIT_NAME, read_only=True)) as connection,
    ):
        rows = connection.execute(f"SELECT {COLUMNS} FROM actions ORDER BY id")
        return tuple(Action(*row) for row in rows)


@contextmanager
def _explained(state_dir: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise unusable(state_dir / AUDIT_NAME, error) from error
