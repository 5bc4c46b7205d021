"""``retentiond pause`` and ``resume``: the brake, which needs no running daemon."""

from __future__ import annotations

from typing import Annotated

import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.options import ConfigPath, Debug
from retentiond.state.pause import UNSAID


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
    from retentiond.cli.pausing import pause_deletions  # noqa: PLC0415 - slow: see lazy.py

    pause_deletions(state_dir, reason)


def resume(context: typer.Context, config: ConfigPath = None, debug: Debug = False) -> None:
    """Let the next cycle delete again.

    Example: retentiond resume
    """
    state_dir = load(set_up(context, config, debug)).state_dir
    from retentiond.cli.pausing import resume_deletions  # noqa: PLC0415 - slow: see lazy.py

    resume_deletions(state_dir)
