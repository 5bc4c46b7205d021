"""``retentiond pause`` and ``resume``: the brake, which needs no running daemon."""

from __future__ import annotations

import getpass
import time
from typing import Annotated

import typer

from retentiond.cli.options import ConfigPath, Debug, load, set_up
from retentiond.cli.table import printer, say
from retentiond.observe.report import rfc3339
from retentiond.state.actions import Action, record
from retentiond.state.pause import UNSAID, Pause, remove_pause, write_pause


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
    now_ms = time.time_ns() // 1_000_000
    pulled = Pause(reason, rfc3339(now_ms), getpass.getuser())
    write_pause(state_dir, pulled)
    record(state_dir, Action(now_ms, pulled.by or "", "pause", None, reason))
    say(printer(), f"Nothing is deleted any more: {pulled}.")


def resume(context: typer.Context, config: ConfigPath = None, debug: Debug = False) -> None:
    """Let the next cycle delete again.

    Example: retentiond resume
    """
    state_dir = load(set_up(context, config, debug)).state_dir
    before = remove_pause(state_dir)
    if before is None:
        say(printer(), "It was not paused.")
        return
    now_ms = time.time_ns() // 1_000_000
    record(state_dir, Action(now_ms, getpass.getuser(), "resume", None, before.reason))
    say(printer(), f"The next cycle deletes again. It was {before}.")
