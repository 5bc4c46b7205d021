"""``retentiond backup``: a whole copy of the state, while a daemon works on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.options import ConfigPath, Debug, load, set_up
from retentiond.cli.output.printing import printer, say


def backup(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that does not exist yet.")
    ],
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Copy the audit log and the remembered groups to a new folder, while a daemon works on them.

    The copy has a file `paused`: a daemon that starts with the copy deletes nothing until somebody
    has looked and run `retentiond resume`. The copy has no history.

    Example: retentiond backup /backup/2026-11-25
    """
    state_dir = load(set_up(context, config, debug)).state_dir
    from retentiond.state.backup import back_up

    names = back_up(state_dir, folder)
    say(printer(), f"{folder} has {', '.join(names)} of {state_dir}.")
