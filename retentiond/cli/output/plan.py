"""How a plan is printed, and what became of it after a run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from retentiond.cli.options import Output
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
    say_figure,
    say_many,
    say_share,
    say_stored,
)
from retentiond.model import Verdict
from retentiond.tell.figures.answers import caveats, say_trials
from retentiond.tell.reasons import UNSEEN_READERS_NOTE

if TYPE_CHECKING:
    from rich.console import Console

    from retentiond.tell.figures.answers import PartitionAnswer, TopicAnswer
    from retentiond.tell.report import CycleReport

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
    if report.trials:
        say(console, say_trials(report.trials))
    for caveat in caveats(answers.topics):
        say(console, caveat.sentence)
    say(console, UNSEEN_READERS_NOTE)
    say(console, _summary(report, with_outcomes))


def say_problems(console: Console, report: CycleReport) -> None:
    for problem in report.problems:
        say(console, f"{'warning' if report.plan.complete else 'incomplete'}: {problem}")


def _row(report: CycleReport, answer: PartitionAnswer, with_outcomes: bool) -> Row:
    """After a run, a deletion's outcome stands in place of its reason, which is always the same. A
    trial has no outcome."""
    row, frees = answer.row, answer.frees
    is_trial = row.dry_run and not report.plan.dry_run
    remote = "-" if frees.remote == 0 else say_estimate(frees.remote)
    is_done = with_outcomes and row.verdict is Verdict.DELETE and not is_trial
    cells = [
        str(answer.at),
        say_figure(row.log_start_offset),
        say_figure(row.min_committed_offset),
        say_figure(row.high_watermark),
        say_figure(row.cutoff),
        str(row.records or "-"),
        say_stored(frees.local, 0) if row.records else "-",
        *([remote] if report.answers.is_tiered else []),
        f"{row.verdict}: {report.outcome(row).outcome if is_done else row.reason}"
        f"{' (trial)' if is_trial else ''}",
        say_any(row.binding_group),
    ]
    return Row(cells, STYLES[row.verdict])


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
    answers = report.planned
    verdicts = Counter(row.verdict for row in report.plan.rows)
    deletions = sum(each.row.verdict is Verdict.DELETE for each in answers.partitions)
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
            f"{say_many(deletions, 'partition')} can be deleted{freed}; nothing was deleted"
        )
    return (
        f"{say_many(len(report.plan.rows), 'partition')} of "
        f"{say_many(len(report.answers.topics), 'topic')}: {did}; "
        f"{say_count(verdicts[Verdict.HOLD])} held."
    )
