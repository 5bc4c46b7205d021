"""``retentiond pause``, ``resume`` and ``backup``, which need no running daemon."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from retentiond.cli.options import ConfigPath, Debug, load, set_up
from retentiond.cli.output.printing import Printer, next_cycle
from retentiond.cli.output.streams import say_aside
from retentiond.errors import ConfigError, StateError, UsageError
from retentiond.fields import rfc3339
from retentiond.state.operator_actions import (
    NO_REASON,
    Pause,
    action_now,
    read_pause,
    record_action,
    remove_pause,
    write_pause,
)
from retentiond.state.state_dir import holder_of


def pause(
    reason: Annotated[
        str,
        typer.Argument(help="The reason; it is shown with every deletion that the pause holds."),
    ] = NO_REASON,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Stop the daemon's deletions until `retentiond resume`, also after a restart.

    Example: retentiond pause "incident 4711: consumers are being replayed"
    """
    state_dir, _ = _state_dir(set_up(config, debug))
    reason = os.fsencode(reason).decode("utf-8", "replace")  # a plain locale knows no other letters
    pausing = action_now("pause", None, reason)
    paused = Pause(reason, rfc3339(pausing.at_ms), pausing.operator)
    write_pause(state_dir, paused)
    try:
        record_action(state_dir, pausing)
    except StateError as error:
        raise StateError(
            f"nothing is deleted any more, but the audit log does not say so: {error}"
        ) from error
    if holder_of(state_dir) is None:
        Printer().say(
            f"{state_dir} is {paused}. "
            "No daemon has it now, and one with another state_dir goes on deleting."
        )
    else:
        Printer().say(f"Nothing is deleted any more: {paused}.")


def resume(config: ConfigPath = None, debug: Debug = False) -> None:
    """End the pause: unless dry_run is true, the next cycle deletes again.

    Example: retentiond resume
    """
    state_dir, dry_run = _state_dir(set_up(config, debug))
    before = read_pause(state_dir)
    if before is None:
        Printer().say("It was not paused.")
        return
    resuming = action_now("resume", None, before.reason)
    record_action(state_dir, resuming)  # before anything is deleted again
    if (now := read_pause(state_dir)) != before:
        raise UsageError(f"it was paused again meanwhile, and stays {now}; resume it again")
    remove_pause(state_dir)
    Printer().say(f"{next_cycle(dry_run)} It was {before}.")


def _state_dir(path: Path) -> tuple[Path, bool | None]:
    """The configuration's ``state_dir``, and its ``dry_run``; None if that is not known.

    A mistake elsewhere in the configuration, as in the file of one team, keeps nobody from pausing:
    the daemon goes on with the configuration before. Raises `ConfigError`.
    """
    try:
        config = load(path)
    except ConfigError as error:
        from retentiond.config.reader import state_dir_alone

        try:
            state_dir = state_dir_alone(path, os.environ)
        except ConfigError:
            raise error from None
        say_aside(f"warning: {error}")
        return state_dir, None
    return config.state_dir, config.dry_run


def backup(
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
    state_dir = load(set_up(config, debug)).state_dir
    from retentiond.state.backup import back_up

    names = back_up(state_dir, folder)
    Printer().say(f"{folder} has {', '.join(names)} of {state_dir}.")
