"""``retentiond groups``: who is known and who is remembered, and how to let go of some."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat, load, set_up
from retentiond.cli.output.printing import (
    Column,
    ColumnKind,
    Row,
    next_cycle,
    print_json,
    print_table,
    printer,
    progress,
    say,
)
from retentiond.errors import KafkaUnavailable, RetentiondError, UsageError
from retentiond.formatting import (
    parse_duration,
    printable,
    rfc3339,
    say_many,
    say_name,
    say_names,
    say_reader,
)
from retentiond.model import GroupKind
from retentiond.state.operator_actions import Action, action_now, record_action

if TYPE_CHECKING:
    from retentiond.config import Config
    from retentiond.memory.remembered import ReaderName, Remembered, RememberedReader


app = typer.Typer(no_args_is_help=False)


class NamedKind(StrEnum):
    """Which of two readers of one name is meant."""

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
    """Show every group that is remembered or in the cluster, and since when it has vanished.

    If no cycle has seen a group read an enabled topic, or none has since the group was forgotten,
    it is not remembered. If the cluster can't be asked, the command shows the remembered groups
    alone, and says so on stderr.

    Example: retentiond groups --output json | jq '.[] | select(.vanished_since)'
    """
    if context.invoked_subcommand is not None:
        return
    from retentiond.state.groups_lookup import recall

    loaded = load(set_up(context, config, debug))
    remembered = recall(loaded.state_dir)
    by_reader: defaultdict[ReaderName, dict[str, RememberedReader]] = defaultdict(dict)
    for at, last in remembered.commits.items():
        by_reader[at.reader][at.topic] = last
    documents = [_document(reader.group_id, on) for reader, on in by_reader.items()]
    try:
        documents += _not_remembered(loaded, remembered)
    except RetentiondError as error:
        said = printable(f"only the remembered groups are shown: {error}")
        print(f"retentiond: warning: {said}", file=sys.stderr)
    documents.sort(key=lambda document: (document["group"], document["kind"]))
    if output is Output.JSON:
        print_json(documents)
        return
    console = printer()
    print_table(console, COLUMNS, map(_row, documents))
    if remembered.lost:
        say(console, f"Nothing is deleted: {remembered.lost}.")
    vanished = sum(document["vanished_since"] is not None for document in documents)
    unknown = len(documents) - len(by_reader)
    also = f", {unknown} not remembered" if unknown else ""
    say(console, f"{say_many(len(documents), 'group')}, {vanished} vanished{also}")
    if any(document["without_commit"] for document in documents if document["remembered"]):
        say(
            console,
            "A group holds a topic that it was seen to read, and never committed on, until it "
            "commits there or is forgotten; --output json says since when.",
        )


def _not_remembered(config: Config, remembered: Remembered) -> list[dict[str, Any]]:
    """The groups of the cluster that the memory doesn't have. Raises `RetentiondError`."""
    from retentiond.gather.gather import refuse_another_cluster
    from retentiond.gather.groups import read_groups
    from retentiond.kafka.cluster import KafkaCluster
    from retentiond.kafka.settings.properties import translate

    known = {at.group_id for at in remembered.commits if not at.is_external}
    with (
        progress("asking the cluster"),
        closing(KafkaCluster(translate(config.kafka), lambda *_: None)) as kafka,
    ):
        refuse_another_cluster(remembered.cluster_id, kafka.cluster_id(), config.state_dir)
        listing = read_groups(kafka, read_commits=lambda ids: kafka.commits({*ids} - known))
    if listing.problems:
        raise KafkaUnavailable(listing.problems[0])
    found = []
    for group_id in listing.groups.keys() - known:
        members = listing.members.get(group_id)
        topics: dict[str, dict[str, int]] = {
            topic: {} for topic in (members.topics if members else ())
        }
        for commit in listing.commits.get(group_id, ()):
            if commit.offset is not None:
                topics.setdefault(commit.topic, {})[str(commit.partition)] = commit.offset
        found.append(
            {
                "group": group_id,
                "kind": listing.groups[group_id].kind.value,
                "remembered": False,
                "vanished_since": None,
                "topics": dict(sorted(topics.items())),
                "without_commit": {topic: None for topic, at in topics.items() if not at},
            }
        )
    return found


@app.command()
def forget(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    group: Annotated[
        str | None,
        typer.Argument(help="The group's id."),
    ] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--pattern",
            metavar="REGEX",
            help="Forget every vanished group whose whole id matches this regular expression; may "
            "be given several times.",
        ),
    ] = None,
    vanished_for: Annotated[
        str | None,
        typer.Option(
            "--vanished-for",
            metavar="DURATION",
            help="Forget every group that was observed to be gone for so long, as in 30d; with "
            "--pattern, only those that match.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            help="Forget it only on this topic, which it no longer reads.",
        ),
    ] = None,
    kind: Annotated[
        NamedKind | None,
        typer.Option(
            "--kind",
            help="Which one to forget, if a group of Kafka and an external reader have that name.",
        ),
    ] = None,
    yes: Confirmed = False,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Forget groups that no longer read: what only they had yet to read may be deleted.

    A group that still commits, or has a member that reads the topic, is remembered again by the
    next cycle. --pattern and --vanished-for never forget a group that is there. On a terminal the
    command asks first. Without one, GROUP needs no --yes; --pattern and --vanished-for do.

    Example: retentiond groups forget reports-2019

    Example: retentiond groups forget --pattern 'preview-.*' --vanished-for 30d
    """
    path = set_up(context, config, debug)
    if group is None:
        _forget_vanished(path, pattern, vanished_for, topic, kind, yes=yes)
    elif pattern or vanished_for is not None:
        raise UsageError("give either GROUP, or --pattern and --vanished-for")
    else:
        _forget_one(path, group, topic, kind, yes)


def _forget_one(
    path: Path, group: str, topic: str | None, kind: NamedKind | None, yes: bool
) -> None:
    from retentiond.state.groups import GroupMemory
    from retentiond.state.groups_lookup import recall

    state_dir = load(path).state_dir
    remembered = recall(state_dir)
    reader = _named(group, topic, kind, remembered)
    topics = sorted(
        at.topic for at in remembered.commits if at.reader == reader and topic in (None, at.topic)
    )
    who = _say(reader)
    on = f"{say_many(len(topics), 'topic')} ({', '.join(topics[:5])})"
    # the operator has named it: without a terminal that is enough
    _confirm(f"Forget {who}, on {on}?", yes or not sys.stdin.isatty())
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        # before it is done: what frees records never goes unrecorded
        record_action(state_dir, _forgetting(reader, topics))
        memory.forget(reader.group_id, topic, is_external=reader.is_external)
    where = "" if topic is None else f" on topic {topic}"
    say(printer(), f"{who[0].upper()}{who[1:]} is forgotten{where}.")


def _say(reader: ReaderName) -> str:
    return say_reader(reader.group_id, GroupKind.EXTERNAL if reader.is_external else None)


def _forgetting(reader: ReaderName, topics: Sequence[str]) -> Action:
    what = "external reader, " if reader.is_external else ""
    return action_now("forget", reader.group_id, f"{what}on {', '.join(topics)}")


def _is_of(kind: NamedKind | None, reader: ReaderName) -> bool:
    return kind is None or reader.is_external is (kind is NamedKind.EXTERNAL)


def _named(
    group: str, topic: str | None, kind: NamedKind | None, remembered: Remembered
) -> ReaderName:
    """The one reader that is meant, by its name or by `namesake_id`. Raises `UsageError`."""
    from retentiond.snapshot import namesake_id

    here = {
        at.reader
        for at in remembered.commits
        if topic in (None, at.topic) and _is_of(kind, at.reader)
    }
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


MOST_PREVIEWED = 20
"""Groups that a preview shows; it counts the others."""


def _forget_vanished(
    path: Path,
    patterns: Sequence[str] | None,
    vanished_for: str | None,
    topic: str | None,
    kind: NamedKind | None,
    *,
    yes: bool,
) -> None:
    """Shows them, asks, and forgets those that are still absent then."""
    from retentiond.state.groups import GroupMemory
    from retentiond.state.groups_lookup import recall

    if not patterns and vanished_for is None:
        raise UsageError("say which groups: GROUP, --pattern REGEX or --vanished-for DURATION")
    matches, least_ms = _matching(patterns or ()), _least_ms(vanished_for)
    state_dir = load(path).state_dir
    remembered = recall(state_dir)
    by_reader: defaultdict[ReaderName, dict[str, RememberedReader]] = defaultdict(dict)
    for at, last in remembered.commits.items():
        if matches(at.group_id) and _is_of(kind, at.reader):
            by_reader[at.reader][at.topic] = last
    present = sorted({each.group_id for each, on in by_reader.items() if _absent_ms(on) is None})
    chosen = {
        reader: sorted(each for each in on if topic in (None, each))
        for reader, on in sorted(by_reader.items())
        if (absent_ms := _absent_ms(on)) is not None and absent_ms >= least_ms
    }
    chosen = {reader: topics for reader, topics in chosen.items() if topics}
    console = printer()
    if present and patterns:
        say(console, f"Not vanished, and so not forgotten: {say_names(present, 5)}.")
    if not chosen:
        lost = f": {remembered.lost}" if remembered.lost else "; see `retentiond groups`"
        raise UsageError(f"no group has vanished that is meant{lost}")
    shown = list(chosen)[:MOST_PREVIEWED]
    print_table(
        console, COLUMNS, (_row(_document(each.group_id, by_reader[each])) for each in shown)
    )
    if len(chosen) > len(shown):
        say(console, f"… and {say_many(len(chosen) - len(shown), 'more group')}")
    where = "" if topic is None else f" on topic {topic}"
    _confirm(f"Forget {say_many(len(chosen), 'vanished group')}{where}?", yes)
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        # before it is done: what frees records never goes unrecorded
        record_action(state_dir, *(_forgetting(*each) for each in chosen.items()))
        forgotten = memory.forget_vanished(chosen, least_ms, topic)
    verb = "is" if len(forgotten) == 1 else "are"
    say(console, f"{say_many(len(forgotten), 'group')} {verb} forgotten{where}.")
    if back := chosen.keys() - forgotten.keys():
        names = sorted({each.group_id for each in back})
        say(console, f"Seen again meanwhile, and so not forgotten: {say_names(names, 5)}.")


def _matching(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a group is meant; all are where there is no pattern. Raises `UsageError`."""
    from retentiond.config.values import Pattern

    every = []
    for pattern in patterns:
        try:
            every.append(Pattern(pattern))
        except ValueError as error:
            raise UsageError(
                f"--pattern {pattern!a} is no regular expression of RE2's syntax ({error}); "
                "give one that the whole id matches, such as 'preview-.*'"
            ) from error
    return lambda group_id: not every or any(each.fullmatch(group_id) for each in every)


def _least_ms(vanished_for: str | None) -> int:
    if vanished_for is None:
        return 0
    least_ms = parse_duration(vanished_for)
    if least_ms is None or least_ms >= 2**63:
        raise UsageError(
            f"--vanished-for {vanished_for!a} is no duration; give a number with its unit (ms, s, "
            "m, h or d), as in 30d"
        )
    return least_ms


def _absent_ms(on: Mapping[str, RememberedReader]) -> int | None:
    """How long a group was observed to be gone wherever it is remembered; None: it is there."""
    if any(last.absent_since_ms is None for last in on.values()):
        return None
    return min(last.absent_ms for last in on.values())


@app.command()
def accept(
    context: typer.Context, yes: Confirmed = False, config: ConfigPath = None, debug: Debug = False
) -> None:
    """Go on without the remembered groups that were lost; `retentiond groups` says why.

    Example: retentiond groups accept
    """
    from retentiond.state.groups import GroupMemory
    from retentiond.state.groups_lookup import recall

    loaded = load(set_up(context, config, debug))
    state_dir = loaded.state_dir
    lost = recall(state_dir).lost
    if lost is None:
        say(printer(), "Nothing is lost.")
        return
    _confirm(f"{lost}. Go on? Groups that vanished before are not waited for.", yes)
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        record_action(state_dir, action_now("accept", None, lost))
        memory.accept_losses()
    say(printer(), next_cycle(loaded.dry_run))


COLUMNS = (
    Column("GROUP", ColumnKind.NAME),
    Column("KIND", ColumnKind.WORD),
    Column("TOPICS", ColumnKind.FIGURE),
    Column("WITHOUT COMMIT", ColumnKind.FIGURE),
    Column("REMEMBERED", ColumnKind.WORD),
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
        "remembered": True,
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
            "yes" if document["remembered"] else "no",
            document["vanished_since"] or "-",
        ],
        "yellow" if document["vanished_since"] else "",
    )
