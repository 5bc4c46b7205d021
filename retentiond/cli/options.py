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


CONSUMED_RETENTION = "24h"
"""Of a look without a configuration, unless another is given."""

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        help="Look at this cluster without a configuration: host:port,…",
        show_default=False,
    ),
]

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="With --bootstrap-server: Java properties of an AdminClient, for a secure cluster.",
        show_default=False,
    ),
]


class AuditOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


OutputFormat = Annotated[
    Output, typer.Option("--output", "-o", help="How the result is printed to stdout.")
]


@dataclass(frozen=True, slots=True)
class Settings:
    """The shared options as they were given before the command's name."""

    config: Path | None
    debug: bool
