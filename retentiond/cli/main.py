"""The command line: the commands by name, and where errors become a sentence and a code.

The help imports all of them, because it shows what each says about itself, and so does a shell's
completion. So a command's file imports what its options need and no more; what its work needs
(Spark, both Kafka clients, pydantic) takes up to a second, and is imported when it runs.

Exit codes: 0 done; 1 the cycle failed, or left undone what it had planned, or ``doctor`` found a
problem; 2 usage or configuration; 3 ``--exit-code`` found what the command looks for; 130 Ctrl-C.
Results go to stdout, logs to stderr. A reader of stdout that goes before the end (``| head -1``)
changes no code; a result that can't be written, to a full disk or a closed stdout, ends with 1. A
full disk below stderr changes nothing: the log is no result.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from retentiond import __version__
from retentiond.cli.options import INTERRUPTED, ConfigPath, Debug
from retentiond.cli.output.streams import any_streams, say_aside
from retentiond.errors import RetentiondError

COMMANDS = {
    "run": "run:run",
    "plan": "plan:plan",
    "explain": "explain:explain",
    "check": "check:check",
    "doctor": "doctor:doctor",
    "audit": "audit:audit",
    "simulate": "past.simulate:simulate",
    "recommend": "past.recommend:recommend",
    "report": "past.report:report",
    "pause": "pause:pause",
    "resume": "pause:resume",
    "groups": "groups:app",
    "backup": "pause:backup",
    "delete-records": "delete_records:delete_records",
    "orphans": "orphans:orphans",
}
"""Where each is: a file of this folder, and in it a function or a Typer of further commands."""


class Commands(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(COMMANDS)  # the names, from which Typer suggests

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        file, _, attribute = COMMANDS[cmd_name].partition(":")
        found = getattr(importlib.import_module(f"retentiond.cli.{file}"), attribute)
        made = typer.Typer(rich_markup_mode="rich", add_completion=False)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=cmd_name)
        else:
            made.command(name=cmd_name, help=_flowing(found))(found)
        command = typer.main.get_command(made)
        return command.commands[cmd_name] if isinstance(command, TyperGroup) else command


def _flowing(command: Callable[..., None]) -> str:
    """What it says about itself, a line for each paragraph: it breaks where the terminal does."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


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
    context.obj = {"config": config, "debug": debug}


def main() -> None:
    """Runs a command; every error of retentiond's own ends as one sentence on stderr."""
    with any_streams():
        _run()


def _run() -> None:
    try:
        app(standalone_mode=True)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            say_aside("interrupted")
        raise
    except RetentiondError as error:
        if "--debug" in sys.argv:
            traceback.print_exc()
        say_aside(str(error))
        sys.exit(error.exit_code)
