"""``retentiond check``: is the configuration right, and what does it mean?"""

from __future__ import annotations

from typing import Annotated

import typer

from retentiond.cli.options import ConfigPath, Debug, load, set_up
from retentiond.cli.output.printing import printer, say
from retentiond.errors import UsageError

INTERNAL = "internal to Kafka, so nothing is ever deleted from it."


def check(
    context: typer.Context,
    example: Annotated[
        bool,
        typer.Option(
            "--example", help="Print a configuration to start from, with every setting explained."
        ),
    ] = False,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", help="Print the JSON Schema of the configuration, as editors take it."
        ),
    ] = False,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Validate the configuration, offline, and say in words what each entry of topics means.

    Example: retentiond check --config retentiond.yaml

    Example: retentiond check --example > retentiond.yaml
    """
    if example and schema:
        raise UsageError("choose --example or --schema")
    if example or schema:
        from retentiond.config.reader import EXAMPLE, SCHEMA, shipped

        typer.echo(shipped(EXAMPLE if example else SCHEMA), nl=False)
        return
    path = set_up(context, config, debug)
    loaded = load(path)
    from retentiond.config import describe
    from retentiond.kafka.interface import INTERNAL_TOPICS

    console = printer()
    for entry, sentence in describe(loaded):
        say(console, f"{entry}: {INTERNAL if entry in INTERNAL_TOPICS else sentence}")
    mode = "deletes nothing (dry_run)" if loaded.dry_run else "DELETES RECORDS"
    say(
        console,
        f"{path} is valid. Every {loaded.schedule.interval_ms / 1000:g} s retentiond {mode}.",
    )
