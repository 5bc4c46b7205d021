"""The command line: one file a command, one place where errors become a sentence and a code.

Exit codes: 0 done; 1 the cycle failed, or a deletion did, or ``doctor`` found a problem; 2 usage
or configuration; 3 ``plan --exit-code`` found something to delete. Results go to stdout, logs
to stderr.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from retentiond import __version__
from retentiond.cli.lazy import Commands
from retentiond.cli.options import ConfigPath, Debug, Settings
from retentiond.errors import ConfigError, RetentiondError, StateError, UsageError

app = typer.Typer(
    name="retentiond",
    cls=Commands,
    help="Consumed retention for Apache Kafka: deletes records once every group has read them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"retentiond {__version__}")
        raise typer.Exit


@app.callback()
def common(
    context: typer.Context,
    config: ConfigPath = None,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    context.obj = Settings(config, debug)


def main() -> None:
    """Runs a command; every error of retentiond's own ends as one sentence on stderr."""
    try:
        app(standalone_mode=True)
    except RetentiondError as error:
        if "--debug" in sys.argv:
            traceback.print_exc()
        print(f"retentiond: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, ConfigError | UsageError | StateError) else 1)
