"""What operators do by hand: the pause, and a record of each action in the audit log.

While the pause file exists, nothing is deleted. It survives restarts, needs no running daemon, and
a shell is enough to create it: ``touch STATE_DIR/paused``. A file that can't be read pauses too.
"""

from __future__ import annotations

import getpass
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from retentiond.clock import now_ms, uptime
from retentiond.errors import StateError
from retentiond.fields import SENTENCE, TEXT, TIME, WORD, described, said
from retentiond.formatting import printable
from retentiond.state.audit_file import AUDIT_NAME, open_for_writing, opened_for_reading, unusable
from retentiond.state.audit_pruning import observed_ms
from retentiond.state.state_dir import atomic_write, read_regular

PAUSE_NAME = "paused"

NO_REASON = "no reason was given"


@dataclass(frozen=True, slots=True)
class Pause:
    """Why nothing is deleted; if known, since when (RFC 3339) and who has paused."""

    reason: str
    since: str | None = None
    by: str | None = None

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        by = f" by {self.by}" if self.by else ""
        # The operator chooses the words, and a terminal shows them.
        return printable(f"paused{since}{by}: {' '.join(self.reason.split())}")


def read_pause(state_dir: Path) -> Pause | None:
    """None if deletions may go on."""
    path = state_dir / PAUSE_NAME
    try:
        text = read_regular(path).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError) as error:
        if not path.is_symlink():
            return None
        return Pause(f"{path} can't be read ({error.strerror})")
    except OSError as error:
        return Pause(f"{path} can't be read ({error.strerror})")
    try:
        written = json.loads(text)
        reason, since, by = (written[key] for key in ("reason", "since", "by"))
    except (ValueError, KeyError, TypeError, RecursionError):  # written by hand
        return Pause(" ".join(text.split()) or NO_REASON)
    return Pause(str(reason or NO_REASON), _as_text(since), _as_text(by))


def write_pause(state_dir: Path, pause: Pause) -> None:
    """Returns once the pause is on disk. Raises `StateError`."""
    content = json.dumps(asdict(pause)).encode()
    atomic_write(state_dir / PAUSE_NAME, content, ", so nothing is paused")


def remove_pause(state_dir: Path) -> None:
    """Raises `StateError`."""
    path = state_dir / PAUSE_NAME
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        sentence = f"{path} can't be removed ({error.strerror}), so it stays paused"
        raise StateError(sentence) from error


def _as_text(written: object) -> str | None:
    return None if written is None else str(written)


PAGE_ROWS = 100  # few, because an action may name thousands of partitions

COLUMNS = "at_ms, operator, action, subject, detail"


@described
class Action:
    """``action``: pause, resume, forget, forget-withdrawn (what was recorded before it was not done
    after all) or accept; or a request of delete-records or a removal of orphans, and its outcome.
    """

    at_ms: int = said(TIME, "when it was done", column="AT")
    operator: str = said(WORD, "who did it", column="BY")
    action: str = said(WORD, "what was done", column="ACTION")
    subject: str | None = said(
        TEXT, "the group that was forgotten, or the id of the request", column="SUBJECT"
    )
    detail: str = said(SENTENCE, "why, or on what", column="DETAIL", spare=True)


def action_now(action: str, subject: str | None, detail: str) -> Action:
    """An action of this process's user. A user without a name (in a container, say) is a number."""
    try:
        operator = getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        operator = f"uid {os.getuid()}"
    return Action(now_ms(), operator, action, subject, detail)


def record_action(state_dir: Path, *actions: Action) -> None:
    """Records the actions in one transaction, and returns once they are on disk. A running daemon
    goes on meanwhile. Raises `StateError`."""
    try:
        with closing(open_for_writing(state_dir)) as connection:
            recorded_at_ms = observed_ms(connection, uptime())
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                f"INSERT INTO actions ({COLUMNS}, observed_ms) VALUES (?, ?, ?, ?, ?, ?)",
                [(*astuple(action), recorded_at_ms) for action in actions],
            )
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise unusable(state_dir / AUDIT_NAME, error) from error


def actions_in(state_dir: Path) -> Iterator[Action]:
    """Oldest first, read in pages. Raises `StateError` if there is no audit log, or if it can't be
    read."""
    query = f"SELECT id, {COLUMNS} FROM actions WHERE id > ? ORDER BY id LIMIT {PAGE_ROWS}"
    after = 0
    with opened_for_reading(state_dir) as connection:
        while page := connection.execute(query, (after,)).fetchall():
            yield from (Action(*row) for _, *row in page)
            after = page[-1][0]


def count_actions(state_dir: Path) -> int:
    """Raises `StateError` as `actions_in` does."""
    with opened_for_reading(state_dir) as connection:
        return int(connection.execute("SELECT count(*) FROM actions").fetchone()[0])


def has_acted_since(state_dir: Path, at_ms: int) -> bool:
    """Whether an operator may have done something since then, which is so where nobody can tell."""
    try:
        with opened_for_reading(state_dir) as connection:
            query = "SELECT 1 FROM actions WHERE at_ms >= ? LIMIT 1"
            return connection.execute(query, (at_ms,)).fetchone() is not None
    except StateError:
        return True
