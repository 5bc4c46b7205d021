"""``retentiond pause`` and ``resume``: the brake, which needs no running daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.operator import action
from retentiond.cli.options import ConfigPath, Debug
from retentiond.cli.table import printer, say
from retentiond.observe.report import rfc3339
from retentiond.state.actions import record
from retentiond.state.pause import UNSAID, Pause, read_pause, remove_pause, write_pause


def pause(
    context: typer.Context,
    reason: Annotated[str, typer.Argument(help="Why; shown wherever a deletion is held.")] = UNSAID,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Delete nothing until `retentiond resume`, also after a restart.

    Example: retentiond pause "incident 4711: consumers are being replayed"
    """
    state_dir = load(set_up(context, config, debug)).state_dir
    pulling = action("pause", None, reason)
    pulled = Pause(reason, rfc3339(pulling.at_ms), pulling.operator)
    write_pause(state_dir, pulled)
    record(state_dir, pulling)
    say(printer(), f"Nothing is deleted any more: {pulled}.")


def resume(context: typer.Context, config: ConfigPath = None, debug: Debug = False) -> None:
    """Let the next cycle delete again.

    Example: retentiond resume
    """
    state_dir = load(set_up(context, config, debug)).state_dir
    before = read_pause(state_dir)
    if before is None:
        say(printer(), "It was not paused.")
        return
    record(state_dir, action("resume", None, before.reason))  # before anything is deleted again
    remove_pause(state_dir)
    say(printer(), f"The next cycle deletes again. It was {before}.")
