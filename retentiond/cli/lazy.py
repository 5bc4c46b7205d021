"""The commands by name, each imported when it is asked for.

The help imports all of them, because it shows what each says about itself, and so does a shell's
completion. So a command's file imports what its options need and no more; what its work needs
(Spark, both Kafka clients, pydantic) takes up to a second, and is imported when it runs.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = {
    "run": "run:run",
    "plan": "plan:plan",
    "explain": "explain:explain",
    "check": "check:check",
    "doctor": "doctor:doctor",
    "audit": "audit:audit",
    "pause": "pause:pause",
    "resume": "pause:resume",
    "groups": "groups:app",
    "delete-records": "delete_records:delete_records",
    "orphans": "orphans:orphans",
}
"""Where each is: a file of this folder, and in it a function or a Typer of further commands."""


class Commands(TyperGroup):
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
