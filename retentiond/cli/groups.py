"""``retentiond groups``: who is remembered, and how an operator lets go of one."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentiond.cli import options as completion
from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat, load, set_up
from retentiond.cli.output.printing import (
    Column,
    ColumnKind,
    Row,
    print_json,
    print_table,
    printer,
    say,
)
from retentiond.errors import UsageError
from retentiond.formatting import rfc3339, say_many, say_name, say_reader
from retentiond.model import GroupKind
from retentiond.state.operator_actions import action_now, record_action

if TYPE_CHECKING:
    from retentiond.memory.remembered import ReaderName, Remembered, RememberedReader


app = typer.Typer(no_args_is_help=False)


class NamedKind(StrEnum):
    """Of two readers of one name."""

    GROUP = "group"
    EXTERNAL = "external"


Confirmed = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback(invoke_without_command=True)
def groups(
    context: typer.Context,
    config: ConfigPath = None,
    output: OutputFormat = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Show every remembered group, where it has no commit, and since when it has vanished.

    Example: retentiond groups --output json | jq '.[] | select(.vanished_since)'
    """
    if context.invoked_subcommand is not None:
        return
    from retentiond.state.groups import recall

    remembered = recall(load(set_up(context, config, debug)).state_dir)
    by_reader: defaultdict[ReaderName, dict[str, RememberedReader]] = defaultdict(dict)
    for at, last in remembered.commits.items():
        by_reader[at.reader][at.topic] = last
    documents = [_document(reader.group_id, on) for reader, on in sorted(by_reader.items())]
    if output is Output.JSON:
        print_json(documents)
        return
    console = printer()
    print_table(console, COLUMNS, map(_row, documents))
    if remembered.lost:
        say(console, f"Nothing is deleted: {remembered.lost}.")
    vanished = sum(document["vanished_since"] is not None for document in documents)
    say(console, f"{say_many(len(documents), 'group')}, {vanished} vanished")
    if any(document["without_commit"] for document in documents):
        say(
            console,
            "A group holds a topic that it was seen to read, and never committed on, until it "
            "commits there or is forgotten; --output json says since when.",
        )


@app.command()
def forget(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    group: Annotated[
        str, typer.Argument(help="The group's id.", autocompletion=completion.remembered_groups)
    ],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            help="Forget it only on this topic, which it no longer reads.",
            autocompletion=completion.topics,
        ),
    ] = None,
    kind: Annotated[
        NamedKind | None,
        typer.Option(
            "--kind",
            help="Forget the group of Kafka, or the external reader, where both have that name.",
        ),
    ] = None,
    yes: Confirmed = False,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Forget a group that no longer reads: what only that group had yet to read may be deleted.

    A group that still commits, or has a member that reads the topic, is remembered again by the
    next cycle.

    Example: retentiond groups forget reports-2019 --yes
    """
    from retentiond.state.groups import GroupMemory, recall

    state_dir = load(set_up(context, config, debug)).state_dir
    remembered = recall(state_dir)
    reader = _named(group, topic, kind, remembered)
    topics = sorted(
        at.topic for at in remembered.commits if at.reader == reader and topic in (None, at.topic)
    )
    who = say_reader(reader.group_id, GroupKind.EXTERNAL if reader.is_external else None)
    on = f"{say_many(len(topics), 'topic')} ({', '.join(topics[:5])})"
    _confirm(f"Forget {who}, on {on}?", yes)
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        # before it is done: what frees records never goes unrecorded
        what = "external reader, " if reader.is_external else ""
        record_action(
            state_dir, action_now("forget", reader.group_id, f"{what}on {', '.join(topics)}")
        )
        memory.forget(reader.group_id, topic, is_external=reader.is_external)
    where = "" if topic is None else f" on topic {topic}"
    say(printer(), f"{who[0].upper()}{who[1:]} is forgotten{where}.")


def _named(
    group: str, topic: str | None, kind: NamedKind | None, remembered: Remembered
) -> ReaderName:
    """The one reader that is meant, by its name or by `namesake_id`. Raises `UsageError`."""
    from retentiond.snapshot import namesake_id

    here = {at.reader for at in remembered.commits if topic in (None, at.topic)}
    if kind is not None:
        here = {each for each in here if each.is_external is (kind is NamedKind.EXTERNAL)}
    found = {each for each in here if each.group_id == group} or {
        each for each in here if namesake_id(each.group_id, is_external=each.is_external) == group
    }
    where = "" if topic is None else f" on topic {topic}"
    if not found:
        lost = f": {remembered.lost}" if remembered.lost else "; see `retentiond groups`"
        what = "external reader" if kind is NamedKind.EXTERNAL else "group"
        raise UsageError(f"no {what} {say_name(group)} is remembered{where}{lost}")
    if len(found) > 1:
        raise UsageError(
            f"a group and an external reader called {say_name(group)} are remembered{where}, and "
            "each holds what it has not read: say which one with --kind group or --kind external"
        )
    return found.pop()


@app.command()
def accept(
    context: typer.Context, yes: Confirmed = False, config: ConfigPath = None, debug: Debug = False
) -> None:
    """Go on without the remembered groups that were lost; `retentiond groups` says what was.

    Example: retentiond groups accept
    """
    from retentiond.state.groups import GroupMemory, recall

    state_dir = load(set_up(context, config, debug)).state_dir
    lost = recall(state_dir).lost
    if lost is None:
        say(printer(), "Nothing is lost.")
        return
    _confirm(f"{lost}. Go on? Groups that vanished before are not waited for.", yes)
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        record_action(state_dir, action_now("accept", None, lost))
        memory.accept_losses()
    say(printer(), "The next cycle deletes again.")


COLUMNS = (
    Column("GROUP", ColumnKind.NAME),
    Column("KIND", ColumnKind.WORD),
    Column("TOPICS", ColumnKind.FIGURE),
    Column("WITHOUT COMMIT", ColumnKind.FIGURE),
    Column("VANISHED SINCE", ColumnKind.WORD),
)


def _confirm(question: str, yes: bool) -> None:
    """Raises `UsageError` where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; --yes does it without a question")
    typer.confirm(question, abort=True, err=True)


def _document(group_id: str, on: dict[str, RememberedReader]) -> dict[str, Any]:
    absent = [last.absent_since_ms for last in on.values()]
    since = max((at for at in absent if at is not None), default=None)
    return {
        "group": group_id,
        "kind": next(iter(on.values())).kind.value,
        "vanished_since": None if since is None or None in absent else rfc3339(since),
        "topics": {
            topic: {str(partition): offset for partition, offset in sorted(last.offsets.items())}
            for topic, last in sorted(on.items())
        },
        "without_commit": {
            topic: None if last.seen_at_ms is None else rfc3339(last.seen_at_ms)
            for topic, last in sorted(on.items())
            if not last.offsets
        },
    }


def _row(document: dict[str, Any]) -> Row:
    return Row(
        [
            say_name(document["group"]),
            document["kind"],
            str(len(document["topics"])),
            str(len(document["without_commit"]) or "-"),
            document["vanished_since"] or "-",
        ],
        "yellow" if document["vanished_since"] else "",
    )
