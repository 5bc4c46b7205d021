"""How a plan is printed, and what became of it after a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from retentiond.cli.options import Output
from retentiond.cli.output.printing import (
    FIGURE,
    NAME,
    TEXT,
    THE_REST,
    WORD,
    Column,
    Printer,
    columns_of,
    print_json,
)
from retentiond.fields import FIRST_LOOK
from retentiond.formatting import (
    printable,
    say_any,
    say_bytes,
    say_count,
    say_figure,
    say_many,
    say_names,
    say_share,
)
from retentiond.model import PlanRow, Verdict
from retentiond.tell.figures.answers import (
    ClusterAnswer,
    PartitionAnswer,
    TopicAnswer,
    caveats,
    say_trials,
)
from retentiond.tell.reasons import UNSEEN_READERS_NOTE
from retentiond.tell.report import CycleReport, document

MOST_VERDICTS = 2
"""How many verdicts a topic's cell has."""

BY_PARTITION = "--partitions shows a row a partition."

STYLES = {Verdict.DELETE: "green", Verdict.NOTHING: "dim", Verdict.HOLD: "yellow"}


def _predicted(answer: PartitionAnswer) -> str:
    if not answer.records:
        return "-"
    return "?" if answer.predicted_bytes is None else say_bytes(answer.predicted_bytes)


COLUMNS: tuple[Column[PartitionAnswer], ...] = (
    Column("TOPIC-PARTITION", NAME, lambda answer: str(answer.at)),
    Column("START", FIGURE, lambda answer: say_figure(answer.row.log_start_offset), spare=True),
    Column(
        "COMMITTED", FIGURE, lambda answer: say_figure(answer.row.min_committed_offset), spare=True
    ),
    Column("END", FIGURE, lambda answer: say_figure(answer.row.high_watermark), spare=True),
    Column("CUTOFF", FIGURE, lambda answer: say_figure(answer.row.cutoff), spare=True),
    Column("RECORDS", FIGURE, lambda answer: str(answer.records or "-")),
    Column("BYTES", FIGURE, _predicted, spare=True),
)


def show(
    report: CycleReport, output: Output, *, with_outcomes: bool, by_topic: bool = False
) -> None:
    """``by_topic``: with a row a topic on a terminal, those that free most."""
    if output is Output.JSON:
        print_json(document(report, with_outcomes=with_outcomes))
        return
    printer = Printer()
    answers = report.answers
    by_topic = by_topic and printer.is_screen
    if by_topic:
        _show_topics(printer, report)
    else:
        columns = (
            *COLUMNS,
            Column("VERDICT", WORD, lambda answer: _verdict(report, answer.row, with_outcomes)),
            Column("BOUND BY", NAME, lambda answer: say_any(answer.row.binding_group)),
        )
        printer.table(columns, answers.partitions, lambda answer: STYLES[answer.row.verdict])
    say_problems(printer, report)
    if with_outcomes:
        for sentence in report.undone:
            printer.say(f"incomplete: {printable(sentence)}")
    if report.plan.paused:
        printer.say(report.plan.paused)
    for stuck in report.disk.stuck:
        printer.say(f"stuck: {printable(str(stuck.at))}: {stuck.sentence}")
    for problem in report.disk.problems:
        printer.say(f"bytes are not known: {problem}")
    for topic in answers.topics:
        if not by_topic and topic.records and topic.predicted_of_size is not None:
            printer.say(_on_disk(topic))
    if report.trials:
        printer.say(say_trials(report.trials))
    for caveat in caveats(answers.topics):
        printer.say(caveat.sentence)
    printer.say(UNSEEN_READERS_NOTE)
    printer.say(_summary(report, with_outcomes))


def _show_topics(printer: Printer, report: CycleReport) -> None:
    topics = report.answers.by_frees
    shown = printer.most(topics)
    columns = (
        *columns_of(TopicAnswer, FIRST_LOOK),
        Column("VERDICTS", TEXT, partial(_verdicts, report)),
    )
    printer.table(columns, shown, _style)
    more = say_more(topics[len(shown) :], report.answers)
    printer.say(f"{more} {THE_REST} {BY_PARTITION}" if more else BY_PARTITION)


def _verdicts(report: CycleReport, topic: TopicAnswer) -> str:
    """Those of most partitions first, with the groups that bind them."""
    alike = topic.alike(lambda row: (row.verdict, row.reason, row.dry_run))
    said = []
    for similar in alike[:MOST_VERDICTS]:
        count = "" if len(alike) == 1 else f"{len(similar.partitions)} "
        groups = say_names(similar.binding_groups, 1)
        by = f" by {groups}" if groups else ""
        said.append(f"{count}{_verdict(report, similar.first, with_outcomes=False)}{by}")
    if len(alike) > MOST_VERDICTS:
        said.append(f"{len(alike) - MOST_VERDICTS} more")
    return "; ".join(said)


def _style(topic: TopicAnswer) -> str:
    return STYLES[min((answer.row.verdict for answer in topic.partitions), key=list(STYLES).index)]


def say_more(topics: Sequence[TopicAnswer], of: ClusterAnswer) -> str | None:
    """What the topics that a table leaves out would free of all that is freed; None if it leaves
    out none."""
    if not topics:
        return None
    freed, all_freed = sum(topic.records for topic in topics), of.records
    if of.is_bytes_known and of.known_predicted_bytes:
        freed = sum(topic.predicted_bytes or 0 for topic in topics)
        all_freed = of.known_predicted_bytes
    share = say_share(freed, all_freed) if freed else "nothing"
    free = "frees" if len(topics) == 1 else "free"
    return f"{say_many(len(topics), 'more topic')} {free} {share}."


def say_problems(printer: Printer, report: CycleReport) -> None:
    for problem in report.problems:
        printer.say(f"{'warning' if report.plan.complete else 'incomplete'}: {problem}")


def _verdict(report: CycleReport, row: PlanRow, with_outcomes: bool) -> str:
    """After a run, a deletion's outcome stands in place of its reason, which is always the same. A
    trial has no outcome."""
    is_trial = row.dry_run and not report.plan.dry_run
    is_done = with_outcomes and row.verdict is Verdict.DELETE and not is_trial
    because = report.outcome(row).outcome if is_done else row.reason
    return f"{row.verdict}: {because}{' (trial)' if is_trial else ''}"


def _on_disk(topic: TopicAnswer) -> str:
    frees, size = topic.predicted_bytes or 0, topic.size_bytes or 0
    return (
        f"{printable(topic.topic)}: about {say_bytes(frees)} of {say_bytes(size)} on disk "
        f"({say_share(frees, size)}) in {say_many(topic.records, 'record')}"
    )


def _summary(report: CycleReport, with_outcomes: bool) -> str:
    answers = report.planned
    deletions = sum(partition.row.verdict is Verdict.DELETE for partition in answers.partitions)
    freed_bytes = answers.predicted_bytes
    freed = f" (about {say_bytes(freed_bytes)} on disk)" if freed_bytes else ""
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
        f"{say_count(report.plan.verdicts[Verdict.HOLD])} held."
    )
