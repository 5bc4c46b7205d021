"""``retentiond groups``: who is known and who is remembered, and how to let go of some."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import (
    ONLY_TOPICS,
    ConfigPath,
    Confirmed,
    Debug,
    Fresh,
    Output,
    OutputFormat,
    confirm,
    load,
    matching,
    set_up,
)
from retentiond.cli.output.printing import (
    THE_REST,
    Printer,
    columns_of,
    next_cycle,
    print_json,
    progress,
)
from retentiond.cli.output.streams import say_aside
from retentiond.errors import KafkaUnavailable, RetentiondError, UsageError
from retentiond.fields import COMMAND, document_of
from retentiond.formatting import say_about, say_many
from retentiond.state.operator_actions import action_now, record_action

if TYPE_CHECKING:
    from retentiond.config import Config
    from retentiond.memory.readers import ReaderName, RememberedReader
    from retentiond.memory.remembered import Remembered
    from retentiond.tell.figures.group_rows import GroupRow


class NamedKind(StrEnum):
    """Which of two readers of one name is meant."""

    GROUP = "group"
    EXTERNAL = "external"


app = typer.Typer(no_args_is_help=False)


@app.callback(invoke_without_command=True)
def groups(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    vanished: Annotated[
        bool,
        typer.Option("--vanished", help="Only groups that are remembered and have vanished."),
    ] = False,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help=ONLY_TOPICS.replace("Only topics", "Only groups of topics")
        ),
    ] = None,
    config: ConfigPath = None,
    output: OutputFormat = Output.TABLE,
    fresh: Fresh = False,
    debug: Debug = False,
) -> None:
    """Show every group that is remembered or in the cluster, and since when it has vanished.

    A daemon of this user with the same configuration answers at once, as of its last cycle, and the
    answer says how old it is. With --fresh or --topic the cluster is asked: only that shows which
    topics a group reads that is not remembered.

    If no cycle has seen a group read an enabled topic, or none has since the group was forgotten,
    it is not remembered. If the cluster can't be asked, the command shows the remembered groups
    alone, and says so on stderr; it ends with 1 if a login or a certificate is wrong.

    Example: retentiond groups --output json | jq '.[] | select(.vanished_since)'
    """
    if context.invoked_subcommand is not None:
        if vanished or topic or fresh:
            # `groups --topic T forget G` would forget the group on all its topics
            name = context.invoked_subcommand
            raise UsageError(
                f"--vanished, --topic and --fresh before {name} are only about what is shown"
            )
        return
    is_asked = matching(topic)
    from retentiond.cli.output.beside_daemon import answered, seen_document
    from retentiond.state.groups_lookup import recall
    from retentiond.tell.figures.group_rows import remembered_group

    loaded = load(set_up(config, debug))
    remembered = recall(loaded.state_dir)
    rows = [
        remembered_group(reader.group_id, reads) for reader, reads in by_reader(remembered).items()
    ]
    is_misconfigured, age_ms = False, None
    seen = seen_document(None)
    answer = None if fresh or topic else answered(loaded, "groups", {}, Printer())
    if answer is not None:
        listing = json.loads(answer)
        age_ms = listing["age_ms"]
        seen = seen_document(age_ms)
        rows += _unknown_to(remembered, listing["groups"])
    else:
        try:
            rows += _not_remembered(loaded, remembered)
        except RetentiondError as error:
            seen = dict.fromkeys(seen)
            # No outage, but a login or a certificate that somebody has to put right.
            is_misconfigured = isinstance(error, KafkaUnavailable) and error.kind is not None
            say_aside(f"warning: only the remembered groups are shown: {error}")
    rows = [
        row
        for row in rows
        if (row.vanished_since_ms or not vanished)
        and (not topic or any(map(is_asked, row.reads or ())))
    ]
    rows.sort(key=lambda row: (row.group, row.kind))
    if output is Output.JSON:
        if remembered.lost:
            say_aside(f"warning: vanished groups may be missing: {remembered.lost}")
        print_json([document_of(row, COMMAND) | seen for row in rows])
    else:
        _print(rows, remembered.lost, age_ms)
    if is_misconfigured:
        raise typer.Exit(1)


def by_reader(remembered: Remembered) -> Mapping[ReaderName, Mapping[str, RememberedReader]]:
    """What is remembered of each reader, by topic."""
    readers: defaultdict[ReaderName, dict[str, RememberedReader]] = defaultdict(dict)
    for at, last in remembered.commits.items():
        readers[at.reader][at.topic] = last
    return readers


def show_groups(printer: Printer, rows: Iterable[GroupRow]) -> None:
    from retentiond.tell.figures.group_rows import GroupRow

    columns = columns_of(GroupRow, COMMAND)
    printer.table(columns, rows, lambda row: "yellow" if row.vanished_since_ms else "")


def _matters(row: GroupRow) -> tuple[bool, int, int]:
    """The order on a terminal: who has vanished longest, then who reads most without committing,
    then who reads the most topics."""
    since_ms = row.vanished_since_ms
    return since_ms is None, since_ms or -(row.without_commit_count or 0), -(row.topic_count or 0)


def _print(rows: list[GroupRow], lost: str | None, age_ms: int | None) -> None:
    printer = Printer()
    if age_ms is not None:
        printer.say(
            f"As the daemon saw it {say_about(age_ms)} ago. --fresh asks the cluster, also for the "
            "topics of groups that are not remembered."
        )
    rows_shown = printer.most(sorted(rows, key=_matters) if printer.is_screen else rows)
    show_groups(printer, rows_shown)
    if more := len(rows) - len(rows_shown):
        printer.say(
            f"{say_many(more, 'more group')}. {THE_REST} --vanished and --topic PATTERN show fewer."
        )
    if lost:
        printer.say(f"Nothing is deleted: {lost}.")
    vanished = sum(row.vanished_since_ms is not None for row in rows)
    unknown = sum(not row.remembered for row in rows)
    also = f", {unknown} not remembered" if unknown else ""
    printer.say(f"{say_many(len(rows), 'group')}, {vanished} vanished{also}")
    if any(row.without_commit for row in rows if row.remembered):
        printer.say(
            "A group holds a topic that it was seen to read, and never committed on, until it "
            "commits there or is forgotten; --output json says since when."
        )


def _unknown_to(remembered: Remembered, listed: list[dict[str, str]]) -> Iterator[GroupRow]:
    """Of the listed groups those that the memory doesn't have; what they read is not known."""
    from retentiond.tell.figures.group_rows import GroupRow

    group_ids = {at.group_id for at in remembered.commits if not at.is_external}
    for group in listed:
        if group["group"] not in group_ids:
            yield GroupRow(group["group"], group["kind"], remembered=False)


def _not_remembered(config: Config, remembered: Remembered) -> list[GroupRow]:
    """The groups of the cluster that the memory doesn't have. Raises `RetentiondError`."""
    from retentiond.gather.gather import refuse_another_cluster
    from retentiond.gather.groups import read_groups
    from retentiond.kafka.cluster import KafkaCluster
    from retentiond.kafka.settings.properties import translate
    from retentiond.memory.readers import RememberedReader
    from retentiond.tell.figures.group_rows import GroupRow

    group_ids = {at.group_id for at in remembered.commits if not at.is_external}
    with (
        progress("asking the cluster"),
        closing(KafkaCluster(translate(config.kafka), lambda *_: None)) as kafka,
    ):
        refuse_another_cluster(remembered.cluster_id, kafka.cluster_id(), config.state_dir)
        listing = read_groups(kafka, read_commits=lambda ids: kafka.commits({*ids} - group_ids))
    if listing.problems:
        raise KafkaUnavailable(listing.problems[0])
    rows = []
    for group_id in listing.groups.keys() - group_ids:
        members = listing.members.get(group_id)
        kind = listing.groups[group_id].kind
        commits: dict[str, dict[int, int]] = {
            topic: {} for topic in (members.topics if members else ())
        }
        for commit in listing.commits.get(group_id, ()):
            if commit.offset is not None:
                commits.setdefault(commit.topic, {})[commit.partition] = commit.offset
        reads = {topic: RememberedReader(kind, offsets) for topic, offsets in commits.items()}
        rows.append(GroupRow(group_id, kind.value, reads=reads, remembered=False))
    return rows


@app.command()
def forget(  # noqa: PLR0917 - typer hands each option over by its name
    group: Annotated[
        str | None,
        typer.Argument(help="The group's id."),
    ] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGEX",
            help="Forget every vanished group whose whole id matches this regular expression; may "
            "be given several times.",
        ),
    ] = None,
    vanished_for: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Forget every group that was observed to be gone for so long, as in 30d; with "
            "--pattern, only those that match.",
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Forget it only on this topic, which it no longer reads.")
    ] = None,
    kind: Annotated[
        NamedKind | None,
        typer.Option(
            help="Which one to forget, if a group of Kafka and an external reader have that name."
        ),
    ] = None,
    yes: Confirmed = False,
    config: ConfigPath = None,
    debug: Debug = False,
) -> None:
    """Forget groups that no longer read: what only they had yet to read can be deleted.

    A group that still has commits, or a member that reads the topic, is remembered again by the
    next cycle. --pattern and --vanished-for never forget a group that is there. On a terminal the
    command asks first. Without one, GROUP needs no --yes; --pattern and --vanished-for do.

    Example: retentiond groups forget reports-2019

    Example: retentiond groups forget --pattern 'preview-.*' --vanished-for 30d
    """
    path = set_up(config, debug)
    from retentiond.cli.forget import forget_one, forget_vanished

    is_external = None if kind is None else kind is NamedKind.EXTERNAL
    if group is None:
        forget_vanished(path, pattern, vanished_for, topic, is_external, yes=yes)
    elif pattern or vanished_for is not None:
        raise UsageError("give either GROUP, or --pattern and --vanished-for")
    else:
        forget_one(path, group, topic, is_external, yes)


@app.command()
def accept(yes: Confirmed = False, config: ConfigPath = None, debug: Debug = False) -> None:
    """Go on without the remembered groups that were lost; `retentiond groups` says why.

    Example: retentiond groups accept
    """
    from retentiond.state.groups import GroupMemory
    from retentiond.state.groups_lookup import recall

    loaded = load(set_up(config, debug))
    state_dir = loaded.state_dir
    lost = recall(state_dir).lost
    if lost is None:
        Printer().say("Nothing is lost.")
        return
    confirm(f"{lost}. Go on? Groups that vanished before are not waited for.", yes)
    with closing(GroupMemory.open(state_dir, shared=True)) as memory:
        record_action(state_dir, action_now("accept", None, lost))
        memory.accept_losses()
    Printer().say(next_cycle(loaded.dry_run))
