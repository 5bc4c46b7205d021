"""Options that several commands share, given before or after the command's name.

Imported by every command, so this file imports next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_CONFIG = Path("retentiond.yaml")

CONFIG_VARIABLE = "RETENTIOND_CONFIG"

ConfigPath = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help=f"The configuration file; by default ${CONFIG_VARIABLE}, else {DEFAULT_CONFIG}.",
        show_default=False,
    ),
]

Debug = Annotated[
    bool, typer.Option("--debug", help="Log more, and show tracebacks.", show_default=False)
]


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


OutputFormat = Annotated[
    Output, typer.Option("--output", "-o", help="How the result is printed to stdout.")
]


@dataclass(frozen=True, slots=True)
class Settings:
    """The shared options as they were given before the command's name."""

    config: Path | None
    debug: bool
