"""``retentiond plan``: what would be deleted, and why the rest is not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import (
    SOMETHING_FOUND,
    WRITE_CONFIG,
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    ConsumedRetention,
    Debug,
    Output,
    OutputFormat,
    load,
    one_engine,
    refuse_without_server,
    set_up,
    start_without_configuration,
    topics,
)
from retentiond.cli.output.printing import (
    Column,
    ColumnKind,
    Row,
    print_json,
    print_table,
    printer,
    say,
)
from retentiond.formatting import (
    printable,
    say_any,
    say_bytes,
    say_count,
    say_estimate,
    say_many,
    say_share,
    say_stored,
)
from retentiond.model import Verdict
from retentiond.tell.reasons import UNSEEN

if TYPE_CHECKING:
    from rich.console import Console

    from retentiond.tell.answers import PartitionAnswer, TopicAnswer
    from retentiond.tell.report import CycleReport


def plan(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    consumed_retention: ConsumedRetention = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="PATTERN",
            help="With --bootstrap-server: only topics whose whole name matches this regular "
            "expression; may be given several times.",
            autocompletion=topics,
        ),
    ] = None,
    command_config: CommandConfig = None,
    write_config: Annotated[
        Path | None,
        typer.Option(
            WRITE_CONFIG,
            metavar="FILE",
            help="With --bootstrap-server: write a configuration to start from.",
            show_default=False,
        ),
    ] = None,
    include_unlimited: Annotated[
        bool,
        typer.Option(
            "--include-unlimited",
            help="With --bootstrap-server: enable topics with unlimited retention, too.",
            show_default=False,
        ),
    ] = False,
    output: OutputFormat = Output.TABLE,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="Exit with 3 when there is something to delete."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Show what would be deleted, and why the rest is not; delete and record nothing.

    Example: retentiond plan --bootstrap-server localhost:9092 --consumed-retention 24h

    Example: retentiond plan --output json | jq '.partitions[] | select(.verdict == "delete")'
    """
    if bootstrap_server is not None:
        start_without_configuration(context, config, debug)
        from retentiond.cli.first_look import take_first_look

        report = take_first_look(
            servers=bootstrap_server,
            command_config=command_config,
            consumed_retention=consumed_retention,
            topics=topic or (),
            write_config=write_config,
            include_unlimited=include_unlimited,
            output=output,
        ).report
    else:
        refuse_without_server(
            {
                "--consumed-retention": consumed_retention,
                "--topic": topic,
                "--command-config": command_config,
                WRITE_CONFIG: write_config,
                "--include-unlimited": include_unlimited,
            }
        )
        report = _planned(set_up(context, config, debug))
        show(report, output, with_outcomes=False)
    if exit_code and any(row.verdict is Verdict.DELETE for row in report.plan.rows):
        raise typer.Exit(SOMETHING_FOUND)


def _planned(path: Path) -> CycleReport:
    from retentiond.cycle import plan_cycle
    from retentiond.state.state import read_stored_state

    loaded = load(path)
    with one_engine(loaded) as engine:
        engine.warm_up()
        return plan_cycle(engine.context, loaded, read_stored_state(loaded.state_dir)).report


STYLES = {Verdict.DELETE: "green", Verdict.NOTHING: "dim", Verdict.HOLD: "yellow"}

COLUMNS = (
    Column("TOPIC-PARTITION", ColumnKind.NAME),
    Column("START", ColumnKind.FIGURE, spare=True),
    Column("COMMITTED", ColumnKind.FIGURE, spare=True),
    Column("END", ColumnKind.FIGURE, spare=True),
    Column("CUTOFF", ColumnKind.FIGURE, spare=True),
    Column("RECORDS", ColumnKind.FIGURE),
    Column("BYTES", ColumnKind.FIGURE, spare=True),
    Column("VERDICT", ColumnKind.WORD),
    Column("BOUND BY", ColumnKind.NAME),
)

WITH_REMOTE = (
    *COLUMNS[:6],
    Column("LOCAL", ColumnKind.FIGURE),
    Column("REMOTE", ColumnKind.FIGURE),
    *COLUMNS[7:],
)
"""Where a topic of the plan is tiered: bytes on the disks and, by estimate, in remote storage."""


def show(report: CycleReport, output: Output, *, with_outcomes: bool) -> None:
    """Prints the result to stdout."""
    if output is Output.JSON:
        from retentiond.tell.report import document

        print_json(document(report, with_outcomes=with_outcomes))
        return
    console = printer()
    answers = report.answers
    print_table(
        console,
        WITH_REMOTE if answers.is_tiered else COLUMNS,
        (_row(report, each, with_outcomes) for each in answers.partitions),
    )
    say_problems(console, report)
    if with_outcomes:
        for sentence in report.undone:
            say(console, f"incomplete: {printable(sentence)}")
    if report.plan.paused:
        say(console, report.plan.paused)
    for stuck in report.disk.stuck:
        say(console, f"stuck: {printable(str(stuck.at))}: {stuck.sentence}")
    for problem in report.disk.problems:
        say(console, f"bytes are not known: {problem}")
    for topic in answers.topics:
        if topic.records and topic.frees_of_size.local is not None:
            say(console, _on_disk(topic))
    for sentence in (*answers.compacted, *answers.only_groups):
        say(console, sentence)
    say(console, UNSEEN)
    say(console, _summary(report, with_outcomes))


def say_problems(console: Console, report: CycleReport) -> None:
    for problem in report.problems:
        say(console, f"{'warning' if report.plan.complete else 'incomplete'}: {problem}")


def _row(report: CycleReport, answer: PartitionAnswer, with_outcomes: bool) -> Row:
    """After a run, a deletion's outcome stands in place of its reason, which is always the same."""
    row, frees = answer.row, answer.frees
    is_done = with_outcomes and row.verdict is Verdict.DELETE
    cells = [
        str(answer.at),
        _figure(row.log_start_offset),
        _figure(row.min_committed_offset),
        _figure(row.high_watermark),
        _figure(row.cutoff),
        str(row.records or "-"),
        say_stored(frees.local, 0) if row.records else "-",
        *([_remote(frees.remote)] if report.answers.is_tiered else []),
        f"{row.verdict}: {report.outcome(row).outcome if is_done else row.reason}",
        say_any(row.binding_group),
    ]
    return Row(cells, STYLES[row.verdict])


def _figure(value: int | None) -> str:
    return "?" if value is None else str(value)


def _remote(freed: int | None) -> str:
    return "-" if freed == 0 else say_estimate(freed)


def _on_disk(topic: TopicAnswer) -> str:
    frees, size = topic.frees.local or 0, topic.size.local or 0
    where = f"on disk ({say_share(frees, size)})"
    if topic.is_tiered:
        remote = map(say_estimate, (topic.frees.remote, topic.size.remote))
        where = f"local, {' of '.join(remote)} remote,"
    return (
        f"{printable(topic.topic)}: about {say_bytes(frees)} of {say_bytes(size)} {where} "
        f"in {say_many(topic.records, 'record')}"
    )


def _summary(report: CycleReport, with_outcomes: bool) -> str:
    answers = report.answers
    verdicts = Counter(row.verdict for row in report.plan.rows)
    frees = answers.frees
    freed = f" (about {say_bytes(frees.local)} on disk)" if frees.local else ""
    if frees.remote != 0 and frees.local is not None:
        freed = f" (about {say_stored(*frees)})"
    if with_outcomes and not report.plan.dry_run:
        did = (
            f"{say_count(report.records_deleted)} of {say_many(answers.records, 'record')} "
            f"deleted{freed}"
        )
    else:
        did = (
            f"{say_many(answers.records, 'record')} in "
            f"{say_many(verdicts[Verdict.DELETE], 'partition')} may go{freed}; nothing was deleted"
        )
    return (
        f"{say_many(len(report.plan.rows), 'partition')} of "
        f"{say_many(len(answers.topics), 'topic')}: {did}; "
        f"{say_count(verdicts[Verdict.HOLD])} held."
    )
