"""``retentiond check``: is the configuration right, and what does it mean?"""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from retentiond.cli.options import ConfigPath, Debug, load, set_up
from retentiond.config import describe


def check(context: typer.Context, config: ConfigPath = None, debug: Debug = False) -> None:
    """Validate the configuration, offline, and say in words what each topic entry means.

    Example: retentiond check --config retentiond.yaml
    """
    path = set_up(context, config, debug)
    loaded = load(path)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for entry, sentence in describe(loaded):
        table.add_row(entry, sentence)
    console = Console(highlight=False)
    console.print(table)
    mode = "deletes nothing (dry_run)" if loaded.dry_run else "DELETES RECORDS"
    console.print(
        f"{path} is valid. Every {loaded.schedule.interval_ms / 1000:g} s retentiond {mode}."
    )
