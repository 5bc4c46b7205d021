"""Options that several commands share, given before or after the command's name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from retentiond import config as configuration
from retentiond.config import Config
from retentiond.errors import ConfigError
from retentiond.kafka.properties import translate
from retentiond.observe import logs

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


def set_up(context: typer.Context, config: Path | None, debug: bool) -> Path:
    """Starts logging; the path of the configuration file.

    An option beats the environment wherever it stands, so the variable is read here and not by
    typer, which would take it for an option after the command's name.
    """
    before: Settings = context.obj
    logs.configure(debug=debug or before.debug)
    return config or before.config or Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG)


def load(path: Path) -> Config:
    """The configuration, checked for both Kafka clients too. Raises `ConfigError`."""
    config = configuration.load(path)
    try:
        translate(config.kafka)
    except ConfigError as error:
        raise ConfigError(error.message, path=error.path, file=str(path)) from error
    return config
