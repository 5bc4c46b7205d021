"""``retentiond check``: is the configuration right, what does it mean, and what does it change?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentiond.cli.options import SOMETHING_FOUND, ConfigPath, Debug, load, set_up
from retentiond.cli.output.printing import NAME, TEXT, WORD, Column, Printer, print_json
from retentiond.cli.output.streams import say_aside
from retentiond.errors import ConfigError, UsageError
from retentiond.fields import document_of
from retentiond.formatting import (
    listed,
    printable,
    say_count,
    say_duration,
    say_many,
    say_names,
)

if TYPE_CHECKING:
    from retentiond.config import Config, Difference
    from retentiond.config.policy import PolicyEntry

MOST_NAMED = 3
"""How many entries a sentence names."""

MOST_EXPLAINED = 20
"""Up to how many entries have their meaning told without ``--verbose``."""

LEAST_VALUE_WIDTH = 8
"""Characters: with it the longest setting's name fits a terminal of 80."""

_MARKDOWN = re.compile(r"[\\`*<|~]|(?<!\w)_|_(?!\w)|(?<=\])\(")
"""Characters that Markdown does not show as they are. It shows an underscore within a word."""

INTERNAL = "internal to Kafka, so nothing is ever deleted from it."


class DifferenceOutput(StrEnum):
    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


def check(  # noqa: PLR0917 - typer hands each option over by its name
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
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help=f"Say what each entry means, also where there are more than {MOST_EXPLAINED}.",
        ),
    ] = False,
    no_secrets: Annotated[
        bool,
        typer.Option(
            "--no-secrets",
            help="Read no environment variable and no secret file, as in a CI that has none.",
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="OLD",
            help="Show what changes from this configuration file, and what that does to records.",
        ),
    ] = None,
    output: Annotated[
        DifferenceOutput,
        typer.Option(help="How to show it; markdown goes with --against."),
    ] = DifferenceOutput.TABLE,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --against: end with 3 if something changes.")
    ] = False,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Validate the configuration, offline, and say in words what each entry of topics means.

    It warns of entries that enable topics which by their names belong to Kafka Connect, Kafka
    Streams, Debezium or the like, of entries that leave the consumed retention open, of files
    beside policy files that are not read, and of files of teams without a fence.

    With --against it says instead what changes from another configuration, and whether records may
    be deleted sooner or later because of that.

    Example: retentiond check --config retentiond.yaml

    Example: retentiond check --example > retentiond.yaml

    Example: retentiond check --no-secrets --against main/retentiond.yaml --output markdown
    """
    if example and schema:
        raise UsageError("choose --example or --schema")
    if against is None and (exit_code or output is DifferenceOutput.MARKDOWN):
        raise UsageError("--exit-code and --output markdown go with --against OLD")
    if example or schema:
        from retentiond.config.reader import EXAMPLE, SCHEMA, shipped

        typer.echo(shipped(EXAMPLE if example else SCHEMA), nl=False)
        return
    path = set_up(config, debug)
    loaded = _without_errors(path, secrets=not no_secrets)
    warnings = _warnings(loaded)
    if output is not DifferenceOutput.JSON:
        for warning in warnings:
            say_aside(f"warning: {warning}")
    if against is None:
        if output is DifferenceOutput.JSON:
            entries = [
                {"entry": entry.about[0], "owner": entry.policy.owner, "meaning": _meaning(entry)}
                for entry in loaded.entries
            ]
            print_json({"entries": entries, "warnings": warnings})
        else:
            _say_what_it_means(path, loaded, no_secrets, verbose)
        return
    from retentiond.config import differences

    old = load(against, "--against", secrets=not no_secrets)
    for file in old.unreadable:
        held = f"the fence of {file.name} holds all of its topics: {file.problem}"
        say_aside(f"warning: in {against} {held}")
    changes = differences(old, loaded)
    if output is DifferenceOutput.JSON:
        print_json({"changes": [*map(document_of, changes)], "warnings": warnings})
    else:
        _show(changes, output)
    if exit_code and changes:
        raise typer.Exit(SOMETHING_FOUND)


def _without_errors(path: Path, *, secrets: bool) -> Config:
    """Raises `ConfigError`, after all others have been told."""
    try:
        loaded = load(path, secrets=secrets)
        errors = [file.error for file in loaded.unreadable]
    except ConfigError as error:
        errors = [error, *error.others]
    if not errors:
        return loaded
    *others, last = errors
    for other in others:
        say_aside(str(other))
    raise last


def _warnings(config: Config) -> tuple[str, ...]:
    from retentiond.config.warnings import default_retention, say_passed_over, unfenced
    from retentiond.tell.unseen_readers import risky_entries

    return (
        *risky_entries(config),
        *default_retention(config),
        *say_passed_over(config),
        *unfenced(config),
    )


def _say_what_it_means(path: Path, config: Config, no_secrets: bool, verbose: bool) -> None:
    printer = Printer()
    is_brief = len(config.entries) > MOST_EXPLAINED and not verbose
    for line in chain(_meanings(path, config, is_brief), _about_pressure(config)):
        printer.say(printable(line))
    mode = "deletes nothing (dry_run)" if config.dry_run else "DELETES RECORDS"
    enabled = [entry.policy for entry in config.entries if entry.policy.enabled]
    if not config.dry_run and enabled and not any(policy.deletes for policy in enabled):
        mode = "deletes nothing (every enabled entry is on trial)"
    every = f"{config.schedule.interval_ms / 1000:g} s"
    unasked = " Variables and secret files were not asked for." if no_secrets else ""
    printer.say(f"{path} is valid. Every {every} retentiond {mode}.{unasked}")


def _meaning(entry: PolicyEntry) -> str:
    from retentiond.config.settings import sentence
    from retentiond.kafka.interface import INTERNAL_TOPICS

    return INTERNAL if entry.topics in INTERNAL_TOPICS else sentence(entry.policy)


def _about_pressure(config: Config) -> Iterator[str]:
    from retentiond.config.disks import say_percent

    rules = config.disk_pressure
    heeding = [
        entry.topics
        for entry in config.entries
        if entry.policy.enabled and entry.policy.pressure_retention_ms is not None
    ]
    if rules is not None:
        yield (
            f"A log directory with less than {say_percent(rules.below_free)} left is under "
            f"pressure until it has {say_percent(rules.until_free)} again."
        )
        if not heeding:
            yield "No enabled topic has a pressure retention, so pressure deletes nothing sooner."
    elif heeding:
        yield (
            "disk_pressure is not set, so no pressure retention is ever in force "
            f"({listed(heeding[:MOST_NAMED])})."
        )


def _meanings(path: Path, config: Config, is_brief: bool) -> Iterator[str]:
    """What the entries mean, file by file; of many, each file's in one line."""
    for file, of_file in groupby(config.entries, lambda entry: entry.file):
        entries = list(of_file)
        if file or is_brief:
            yield _summary(file or str(path), entries)
        if fence := config.fences.of(file) if file else None:
            conditions = f", with {fence.conditions}" if fence.conditions else ""
            yield (
                f"{file} is fenced: only it can say anything about {fence.topics}, and it can "
                f"say nothing about others{conditions}."
            )
        if not is_brief:
            yield from _meanings_of(entries)
    if is_brief:
        yield "--verbose says what each entry means."


def _summary(file: str, entries: Sequence[PolicyEntry]) -> str:
    owner = entries[0].policy.owner
    enabled = [entry.policy for entry in entries if entry.policy.enabled]
    shortest = ""
    if enabled:
        least_ms = min(policy.consumed_retention_ms for policy in enabled)
        shortest = f"; the shortest consumed retention is {say_duration(least_ms) or '0'}"
    whose = "" if owner is None else f", owner {owner}"
    of_all = say_many(len(entries), "entry", "entries")
    return f"{file}{whose}: {of_all}, {say_count(len(enabled))} enabled{shortest}."


def _meanings_of(entries: Sequence[PolicyEntry]) -> Iterator[str]:
    """A few entries that mean the same have a line each, more than that share one."""
    alike: dict[str, list[str]] = {}
    for entry in entries:
        alike.setdefault(_meaning(entry), []).append(entry.topics)
    for meaning, about in alike.items():
        for topics in about if len(about) <= MOST_NAMED else [say_names(about, MOST_NAMED)]:
            yield f"{topics}: {meaning}"


COLUMNS: tuple[Column[Difference], ...] = (
    Column("ENTRY", NAME, lambda change: change.entry or "(the file)"),
    Column("OWNER", TEXT, lambda change: change.owner or "", spare=True),
    Column("SETTING", WORD, lambda change: change.setting),
    Column("BEFORE", TEXT, lambda change: _value(change.before), least=LEAST_VALUE_WIDTH),
    Column("AFTER", TEXT, lambda change: _value(change.after), least=LEAST_VALUE_WIDTH),
    Column(
        "DELETION", WORD, lambda change: {"none": "as before"}.get(change.effect, change.effect)
    ),
)


def _show(changes: Sequence[Difference], output: DifferenceOutput) -> None:
    printer = Printer()
    if not changes:
        printer.say("Nothing changes.")
    elif output is DifferenceOutput.MARKDOWN:
        rows = ([column.of(change) for column in COLUMNS] for change in changes)
        for line in ([column.heading for column in COLUMNS], ["---"] * len(COLUMNS), *rows):
            printer.say(f"| {' | '.join(map(_literal, line))} |")
    else:
        printer.table(COLUMNS, changes)


def _literal(cell: str) -> str:
    """The cell, so that Markdown shows it as it is. A regular expression would lose backslashes,
    and asterisks as marks of emphasis."""
    return _MARKDOWN.sub(r"\\\g<0>", printable(cell))


def _value(value: Any) -> str:
    if value is None:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
