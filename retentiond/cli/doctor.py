"""``retentiond doctor``: what would keep retentiond from working, and what to do about it."""

from __future__ import annotations

from typing import Annotated

import typer

from retentiond.cli.configured import set_up
from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat


def doctor(
    context: typer.Context,
    config: ConfigPath = None,
    output: OutputFormat = Output.TABLE,
    spark: Annotated[
        bool, typer.Option("--spark", help="Start Spark too, and have it work: takes 10 to 20 s.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Connect, and say what would keep retentiond from working, with the remedy of each.

    It changes nothing, on the cluster or here. Exit code 1 says that there is a problem.

    Example: retentiond doctor --output json | jq '.findings[] | select(.level != "ok")'
    """
    path = set_up(context, config, debug)
    from retentiond.cli.examining import examine_and_show  # noqa: PLC0415 - slow: see lazy.py

    if examine_and_show(path, output, with_spark=spark):
        raise typer.Exit(1)
