"""``retentiond groups``: who is remembered, and how an operator lets go of one."""

from __future__ import annotations

from typing import Annotated

import typer

from retentiond.cli.configured import load, set_up
from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat

app = typer.Typer(no_args_is_help=False)

Confirmed = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback(invoke_without_command=True)
def groups(
    context: typer.Context,
    config: ConfigPath = None,
    output: OutputFormat = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Show every remembered group, and since when it has vanished.

    Example: retentiond groups --output json | jq '.[] | select(.vanished_since)'
    """
    if context.invoked_subcommand is not None:
        return
    state_dir = load(set_up(context, config, debug)).state_dir
    from retentiond.cli.groups_known import show_groups  # noqa: PLC0415 - slow: see lazy.py

    show_groups(state_dir, output)


@app.command()
def forget(
    context: typer.Context,
    group: Annotated[str, typer.Argument(help="The group's id.")],
    yes: Confirmed = False,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Let go of a group that has vanished: what only it had yet to read may be deleted.

    One that still commits is remembered again by the next cycle.

    Example: retentiond groups forget reports-2019 --yes
    """
    state_dir = load(set_up(context, config, debug)).state_dir
    from retentiond.cli.groups_known import forget_group  # noqa: PLC0415 - slow: see lazy.py

    forget_group(state_dir, group, yes=yes)


@app.command()
def accept(
    context: typer.Context, yes: Confirmed = False, config: ConfigPath = None, debug: Debug = False
) -> None:
    """Go on without what was remembered and is lost, as `retentiond groups` says.

    Example: retentiond groups accept
    """
    state_dir = load(set_up(context, config, debug)).state_dir
    from retentiond.cli.groups_known import accept_losses  # noqa: PLC0415 - slow: see lazy.py

    accept_losses(state_dir, yes=yes)
