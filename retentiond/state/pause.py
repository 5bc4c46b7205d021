"""The pause: while its file is there, nothing is deleted.

It survives restarts, needs no running daemon, and can be pulled with nothing but a shell:
``touch STATE_DIR/paused``. A file that can't be read pauses too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from retentiond.formatting import printable
from retentiond.state.state_dir import remove, write_json

NAME = "paused"

UNSAID = "no reason was given"


@dataclass(frozen=True, slots=True)
class Pause:
    """Why nothing is deleted; since when (RFC 3339) and by whom, where that is known."""

    reason: str
    since: str | None = None
    by: str | None = None

    def __str__(self) -> str:
        since = f" since {self.since}" if self.since else ""
        by = f" by {self.by}" if self.by else ""
        # Whoever pauses chooses the words, and a terminal shows them.
        return printable(f"paused{since}{by}: {' '.join(self.reason.split())}")


def read_pause(state_dir: Path) -> Pause | None:
    """None: deletions may go on."""
    path = state_dir / NAME
    try:
        text = path.read_text(errors="replace")
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
        return Pause(" ".join(text.split()) or UNSAID)
    return Pause(str(reason or UNSAID), _text(since), _text(by))


def write_pause(state_dir: Path, pause: Pause) -> None:
    """On disk when it returns. Raises `StateError`."""
    write_json(state_dir / NAME, asdict(pause), ", so nothing is paused")


def remove_pause(state_dir: Path) -> None:
    """Raises `StateError`."""
    remove(state_dir / NAME, ", so it stays paused")


def _text(written: object) -> str | None:
    return None if written is None else str(written)
