"""What ``retentiond groups`` and the commands below it do."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import typer

from retentiond.cli.operator import action
from retentiond.cli.options import Output
from retentiond.cli.table import Column, Kind, Row, print_table, printer, say
from retentiond.collect.remembered import LastCommits
from retentiond.errors import UsageError
from retentiond.observe.report import rfc3339
from retentiond.state.actions import record
from retentiond.state.memory import Memory, recall
from retentiond.wording.figures import say_many

COLUMNS = (
    Column("GROUP", Kind.NAME),
    Column("KIND", Kind.WORD),
    Column("TOPICS", Kind.FIGURE),
    Column("VANISHED SINCE", Kind.WORD),
)


def show_groups(state_dir: Path, output: Output) -> None:
    remembered = recall(state_dir)
    by_group: defaultdict[str, dict[str, LastCommits]] = defaultdict(dict)
    for at, last in remembered.commits.items():
        by_group[at.group_id][at.topic] = last
    documents = [_document(group_id, on) for group_id, on in sorted(by_group.items())]
    if output is Output.JSON:
        json.dump(documents, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    console = printer()
    print_table(console, COLUMNS, map(_row, documents))
    if remembered.lost:
        say(console, f"Nothing is deleted: {remembered.lost}.")
    vanished = sum(document["vanished_since"] is not None for document in documents)
    say(console, f"{say_many(len(documents), 'group')}, {vanished} vanished")


def forget_group(state_dir: Path, group: str, *, yes: bool) -> None:
    remembered = recall(state_dir)
    topics = sorted(at.topic for at in remembered.commits if at.group_id == group)
    if not topics:
        lost = f": {remembered.lost}" if remembered.lost else "; see `retentiond groups`"
        raise UsageError(f"no group {group} is remembered{lost}")
    on = f"{say_many(len(topics), 'topic')} ({', '.join(topics[:5])})"
    _confirm(f"Let go of group {group}, on {on}?", yes)
    with closing(Memory.open(state_dir, shared=True)) as memory:
        # before it is done: what frees records never goes unrecorded
        record(state_dir, action("forget", group, f"on {', '.join(topics)}"))
        memory.forget(group)
    say(printer(), f"Group {group} is forgotten.")


def accept_losses(state_dir: Path, *, yes: bool) -> None:
    lost = recall(state_dir).lost
    if lost is None:
        say(printer(), "Nothing is lost.")
        return
    _confirm(f"{lost}. Go on? Groups that vanished before are not waited for.", yes)
    with closing(Memory.open(state_dir, shared=True)) as memory:
        record(state_dir, action("accept", None, lost))
        memory.accept_losses()
    say(printer(), "The next cycle deletes again.")


def _confirm(question: str, yes: bool) -> None:
    """Raises `UsageError` where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on; --yes does it without a question")
    typer.confirm(question, abort=True, err=True)


def _document(group_id: str, on: dict[str, LastCommits]) -> dict[str, Any]:
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
    }


def _row(document: dict[str, Any]) -> Row:
    return Row(
        [
            document["group"],
            document["kind"],
            str(len(document["topics"])),
            document["vanished_since"] or "-",
        ],
        "yellow" if document["vanished_since"] else "",
    )
