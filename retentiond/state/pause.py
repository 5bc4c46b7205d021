"""The brake: a file in ``state_dir`` that holds every deletion until it is gone.

It survives restarts, needs no running daemon, and can be pulled with nothing but a shell:
``touch STATE_DIR/paused``. A file that can't be read pauses too.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from retentiond.errors import StateError

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
        return f"paused{since}{by}: {self.reason}"


def read_pause(state_dir: Path) -> Pause | None:
    """None: deletions may go on."""
    try:
        text = (state_dir / NAME).read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Pause(f"{state_dir / NAME} can't be read ({error.strerror})")
    try:
        written = json.loads(text)
        return Pause(str(written["reason"] or UNSAID), str(written["since"]), str(written["by"]))
    except (ValueError, KeyError, TypeError):  # written by hand
        return Pause(text.strip() or UNSAID)


def write_pause(state_dir: Path, pause: Pause) -> None:
    """On disk when it returns. Raises `StateError`."""
    path = state_dir / NAME
    unfinished = path.with_name(f"{NAME}.new")
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with unfinished.open("w") as file:
            json.dump(asdict(pause), file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except OSError as error:
        raise StateError(f"can't write {path} ({error.strerror}), so nothing is paused") from error


def remove_pause(state_dir: Path) -> Pause | None:
    """What it was; None if nothing was paused. Raises `StateError`."""
    pause = read_pause(state_dir)
    try:
        (state_dir / NAME).unlink(missing_ok=True)
    except OSError as error:
        raise StateError(
            f"can't remove {state_dir / NAME} ({error.strerror}), so it stays paused"
        ) from error
    return pause
