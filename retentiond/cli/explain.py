"""``retentiond explain``: why a partition, or a topic, stands where it does."""

from __future__ import annotations

from typing import Annotated

import typer

from retentiond.cli.configured import set_up, start_without_configuration
from retentiond.cli.options import (
    CONSUMED_RETENTION,
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    Debug,
    Output,
    OutputFormat,
)
from retentiond.errors import UsageError


def explain(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    place: Annotated[str, typer.Argument(metavar="TOPIC[:PARTITION]", help="What to explain.")],
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    consumed_retention: Annotated[
        str | None,
        typer.Option(
            "--consumed-retention",
            help=f"With --bootstrap-server: as in 90m or 7d; by default {CONSUMED_RETENTION}.",
            show_default=False,
        ),
    ] = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Say why a partition stands where it does, who binds it, and what to do; delete nothing.

    Example: retentiond explain orders.enriched

    Example: retentiond explain orders.enriched:3 --output json | jq .relevant_groups
    """
    from retentiond.cli import explaining  # noqa: PLC0415 - slow: see lazy.py

    at = explaining.parse_place(place)
    if bootstrap_server is not None:
        start_without_configuration(context, config, debug)
        source = explaining.unconfigured(at, bootstrap_server, consumed_retention, command_config)
    else:
        for option, given in {
            "--consumed-retention": consumed_retention,
            "--command-config": command_config,
        }.items():
            if given:
                raise UsageError(f"{option} goes with --bootstrap-server, without a configuration")
        source = explaining.configured(set_up(context, config, debug))
    explaining.explain_place(at, source, output)
