"""How a command finds, reads and checks its configuration file, and starts logging."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from retentiond import config as configuration
from retentiond.cli.options import CONFIG_VARIABLE, DEFAULT_CONFIG, Settings
from retentiond.config import Config
from retentiond.errors import ConfigError
from retentiond.kafka.properties import translate
from retentiond.observe import logs


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
