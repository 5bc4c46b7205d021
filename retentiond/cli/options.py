"""Options that several commands share, and how a command comes to its configuration and engine.

Imported by every command, so this file imports next to nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentiond.errors import ConfigError, UsageError
from retentiond.formatting import parse_duration, parse_time

if TYPE_CHECKING:
    from retentiond.config import Config
    from retentiond.config.files import ConfigFiles
    from retentiond.daemon.engine import Engine
    from retentiond.kafka.settings.properties import ClientSettings


DEFAULT_CONFIG = Path("retentiond.yaml")

CONFIG_VARIABLE = "RETENTIOND_CONFIG"

SOMETHING_FOUND = 3
"""The exit code with ``--exit-code`` where there is what the command looks for."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as a shell has it."""


def _or_before(context: typer.Context, option: typer.CallbackParam, given: Any) -> Any:
    """What is given after the command's name, else what was given before it."""
    return given or (context.obj or {}).get(option.name, given)


ConfigPath = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        callback=_or_before,
        help=f"The configuration file; by default ${CONFIG_VARIABLE}, else {DEFAULT_CONFIG}.",
    ),
]

Debug = Annotated[
    bool, typer.Option("--debug", callback=_or_before, help="Log more, and show tracebacks.")
]

Fresh = Annotated[
    bool, typer.Option("--fresh", help="Read the cluster anew, also where a daemon could answer.")
]

Confirmed = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

SINCE = typer.Option("--since", help="From this time on: an age (2h, 7d) or a time.")
UNTIL = typer.Option("--until", help="Before this time: an age or a time; by default now.")

OUTPUT = typer.Option("--output", "-o", help="How the result is printed to stdout.")


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


WRITE_CONFIG = "--write-config"

OWNER = "--owner"

CONSUMED_RETENTION = "24h"
"""The consumed retention of a first look, unless another is given."""

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        help="Use this cluster, without a configuration: host:port,…",
    ),
]

ConsumedRetention = Annotated[
    str | None,
    typer.Option(
        "--consumed-retention",
        help="With --bootstrap-server: keep every record at least this long, as in 90m or "
        f"7d; by default {CONSUMED_RETENTION}.",
    ),
]

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="With --bootstrap-server: Java properties of an AdminClient, for a secure cluster.",
    ),
]


OutputFormat = Annotated[Output, OUTPUT]


def set_up(config: Path | None, debug: bool, server: str | None = None) -> Path:
    """Starts logging; the path of the configuration file. ``server``: the cluster of
    --bootstrap-server, with which a configuration that is given is an error.

    An option beats the environment wherever it stands, so the variable is read here and not by
    typer, which would take it for an option after the command's name.
    """
    if config and server is not None:
        raise UsageError("give either --config or --bootstrap-server, which goes without one")
    start_logging(debug)
    return config or Path(os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG)


WITH_SERVER = "goes with --bootstrap-server, without a configuration"


def refuse(options: Mapping[str, object], why: str) -> None:
    """Raises `UsageError` for one that is given. ``options``: by name."""
    for option, given in options.items():
        if given:
            raise UsageError(f"{option} {why}")


def duration_ms(text: str, option: str, example: str) -> int:
    """Raises `UsageError`, which shows an ``example``."""
    from retentiond.config.values import INT64_MAX

    ms = parse_duration(text)
    if ms is None or ms > INT64_MAX:
        raise UsageError(
            f"{option} {text!a} is no duration; give a number with its unit (ms, s, m, h or d), "
            f"as in {example}"
        )
    return ms


def consumed_retention_ms(given: str | None) -> int:
    """The consumed retention of a first look; ``given``: by the option. Raises `UsageError`."""
    return duration_ms(given or CONSUMED_RETENTION, "--consumed-retention", "24h or 7d")


def client_settings(servers: str, command_config: Path | None) -> ClientSettings:
    """Both clients' settings, without a configuration. Raises `ConfigError` for what would reach
    only one of them."""
    from retentiond.kafka.settings import tls
    from retentiond.kafka.settings.command_config import read_settings

    settings = read_settings(servers, command_config)
    for name, kafkas in tls.INLINE.items():
        if name in settings.confluent:
            raise ConfigError(
                "retentiond needs PEM in files, by .location", path=kafkas, file=str(command_config)
            )
    return settings


EMPTY_SPAN = "--since lies after --until, or at the same time: there is nothing between"


def epoch_ms(text: str, option: str, now_ms: int) -> int:
    """``2h`` is that long before ``now_ms``; a time without a zone is UTC. Nothing is older than
    1970. Raises `UsageError`."""
    age_ms = parse_duration(text)
    if age_ms is not None:
        return max(0, now_ms - age_ms)
    try:
        return max(0, parse_time(text))
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option} {text!a}: expected an age as in 2h, or a time as in 2026-02-01T12:00:00Z"
        ) from error


def matching(
    patterns: Sequence[str] | None,
    option: str = "--topic",
    remedy: str = "give a topic's name, or a pattern such as 'stage\\..*'",
) -> Callable[[str], bool]:
    """Whether a name is meant; all are where there is no pattern. Raises `UsageError`."""
    from retentiond.config.pattern import Pattern

    def compiled(pattern: str) -> Pattern:
        try:
            return Pattern(pattern)
        except ValueError as error:
            raise UsageError(
                f"{option} {pattern!a} is no regular expression of RE2's syntax ({error}); {remedy}"
            ) from error

    every = [compiled(pattern) for pattern in patterns or ()]
    return lambda name: not every or any(pattern.fullmatch(name) for pattern in every)


def confirm(question: str, yes: bool) -> None:
    """Raises `UsageError` where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; --yes does it without a question")
    typer.confirm(question, abort=True, err=True)


def start_logging(debug: bool) -> None:
    from retentiond.tell import logs

    logs.configure(debug=debug)


@contextmanager
def one_engine(
    config: Config, settings: ClientSettings | None = None, doing: str = "reading the cluster"
) -> Iterator[Engine]:
    """For one cycle, with a spinner. ``settings``: the clients', where they are not those of the
    configuration."""
    from retentiond.cli.output.printing import progress
    from retentiond.daemon.engine import Engine

    engine = Engine(config, threading.Event(), lambda *_: None, settings, once=True)
    try:
        with progress(doing):
            yield engine
    finally:
        engine.close()


def load(
    path: Path,
    option: str = "--config",
    *,
    secrets: bool = True,
    none_yet: bool = False,
    whole: bool = False,
    tell: Callable[[ConfigFiles], None] = lambda _files: None,
    make_files: Callable[[], ConfigFiles] | None = None,
    readers_in_force: Mapping[str, object] | None = None,
) -> Config:
    """The configuration, checked for both Kafka clients too. ``option``: what names the file.
    ``none_yet``: ``policies`` may lead to no file. ``whole``: a bad fenced file is an error, too.
    ``tell`` gets the files that were read, which ``make_files`` makes.
    ``readers_in_force``: `Config.readers` of the configuration before.
    Without ``secrets`` it asks for no variable and no file. Clients' properties that need one are
    then checked one by one, and not together. Raises `ConfigError`."""
    from retentiond import config as configuration
    from retentiond.config.files import ConfigFiles
    from retentiond.kafka.confluent.admin import refuse_properties

    config = configuration.load(
        path,
        os.environ if secrets else None,
        option=option,
        none_yet=none_yet,
        tell=tell,
        check_properties=refuse_properties,
        make_files=make_files or ConfigFiles,
        readers_in_force=readers_in_force or {},
    )
    if whole and config.unreadable:
        raise config.unreadable[0].error
    return config


TOPIC_IS_A_PATTERN = "--topic is a regular expression that a topic's whole name matches"

ONLY_TOPICS = (
    "Only topics whose whole name matches this regular expression; may be given several times."
)


def gone(name: str, sentence: str) -> Any:
    """An option of earlier builds: no help shows it. ``sentence``: what there is instead."""

    def refuse(given: str | None) -> None:
        if given is not None:
            raise UsageError(f"{name} is gone: {sentence}")

    return typer.Option(name, hidden=True, callback=refuse)
