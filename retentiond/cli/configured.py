"""How a command finds, reads and checks its configuration file, and starts logging."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from retentiond.cli.options import CONFIG_VARIABLE, DEFAULT_CONFIG, Settings
from retentiond.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from retentiond.config import Config


def set_up(context: typer.Context, config: Path | None, debug: bool) -> Path:
    """Starts logging; the path of the configuration file.

    An option beats the environment wherever it stands, so the variable is read here and not by
    typer, which would take it for an option after the command's name.
    """
    before: Settings = context.obj
    start_logging(debug or before.debug)
    return config or before.config or Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG)


def start_without_configuration(context: typer.Context, config: Path | None, debug: bool) -> None:
    """Starts logging. The environment's configuration is passed over, one that is given is an
    error."""
    before: Settings = context.obj
    if config or before.config:
        raise UsageError("give either --config or --bootstrap-server, which goes without one")
    start_logging(debug or before.debug)


def start_logging(debug: bool) -> None:
    from retentiond.observe import logs  # noqa: PLC0415 - slow, and not for a command's help

    logs.configure(debug=debug)


def load(path: Path) -> Config:
    """The configuration, checked for both Kafka clients too. Raises `ConfigError`."""
    from retentiond import config as configuration  # noqa: PLC0415 - as above
    from retentiond.kafka.properties import translate  # noqa: PLC0415 - as above

    config = configuration.load(path)
    try:
        translate(config.kafka)
    except ConfigError as error:
        raise ConfigError(error.message, path=error.path, file=str(path)) from error
    return config
