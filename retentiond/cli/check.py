"""``retentiond check``: is the configuration right, and what does it mean?"""

from __future__ import annotations

import typer

from retentiond.cli.options import ConfigPath, Debug, load, set_up
from retentiond.cli.output.table import printer, say


def check(context: typer.Context, config: ConfigPath = None, debug: Debug = False) -> None:
    """Validate the configuration, offline, and say in words what each entry of topics means.

    Example: retentiond check --config retentiond.yaml
    """
    path = set_up(context, config, debug)
    loaded = load(path)
    from retentiond.config import describe

    console = printer()
    for entry, sentence in describe(loaded):
        say(console, f"{entry}: {sentence}")
    mode = "deletes nothing (dry_run)" if loaded.dry_run else "DELETES RECORDS"
    say(
        console,
        f"{path} is valid. Every {loaded.schedule.interval_ms / 1000:g} s retentiond {mode}.",
    )
