"""What ``retentiond pause`` and ``resume`` do."""

from __future__ import annotations

from pathlib import Path

from retentiond.cli.operator import action
from retentiond.cli.table import printer, say
from retentiond.observe.report import rfc3339
from retentiond.state.actions import record
from retentiond.state.pause import Pause, read_pause, remove_pause, write_pause


def pause_deletions(state_dir: Path, reason: str) -> None:
    pulling = action("pause", None, reason)
    pulled = Pause(reason, rfc3339(pulling.at_ms), pulling.operator)
    write_pause(state_dir, pulled)
    record(state_dir, pulling)
    say(printer(), f"Nothing is deleted any more: {pulled}.")


def resume_deletions(state_dir: Path) -> None:
    before = read_pause(state_dir)
    if before is None:
        say(printer(), "It was not paused.")
        return
    record(state_dir, action("resume", None, before.reason))  # before anything is deleted again
    remove_pause(state_dir)
    say(printer(), f"The next cycle deletes again. It was {before}.")
