"""What operators did by hand, in the audit log."""

from __future__ import annotations

import getpass
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from retentiond.clock import now_ms, uptime
from retentiond.state.audit_age import observed_ms
from retentiond.state.audit_file import AUDIT_NAME, open_for_writing, unusable
from retentiond.state.state_dir import connect

PAGE_ROWS = 100
"""One may name thousands of partitions."""

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


def action_now(action: str, subject: str | None, detail: str) -> Action:
    """By this process's user; in a container a user may have no name, and is a number then."""
    try:
        operator = getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        operator = f"uid {os.getuid()}"
    return Action(now_ms(), operator, action, subject, detail)


def record_action(state_dir: Path, action: Action) -> None:
    """On disk when it returns; a running daemon goes on meanwhile. Raises `StateError`."""
    with _explained(state_dir), closing(open_for_writing(state_dir)) as connection:
        age = observed_ms(connection, uptime())
        connection.execute(
            f"INSERT INTO actions ({COLUMNS}, observed_ms) VALUES (?, ?, ?, ?, ?, ?)",
            (*astuple(action), age),
        )


def read_actions(state_dir: Path) -> tuple[Action, ...]:
    """All of them, as `actions_in` reads them."""
    return tuple(actions_in(state_dir))


def actions_in(state_dir: Path) -> Iterator[Action]:
    """Oldest first, some at a time. Raises `StateError` when there is no audit log or it can't be
    read."""
    query = f"SELECT id, {COLUMNS} FROM actions WHERE id > ? ORDER BY id LIMIT {PAGE_ROWS}"
    after = 0
    with (
        _explained(state_dir),
        closing(connect(state_dir / AUDIT_NAME, read_only=True)) as connection,
    ):
        while page := connection.execute(query, (after,)).fetchall():
            yield from (Action(*row) for _, *row in page)
            after = page[-1][0]


def count_actions(state_dir: Path) -> int:
    """How many there are. Raises `StateError` as `actions_in` does."""
    with (
        _explained(state_dir),
        closing(connect(state_dir / AUDIT_NAME, read_only=True)) as connection,
    ):
        return int(connection.execute("SELECT count(*) FROM actions").fetchone()[0])


@contextmanager
def _explained(state_dir: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise unusable(state_dir / AUDIT_NAME, error) from error
