"""How the explanation of a partition, and of a whole topic, looks to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from retentiond.cli.options import Output
from retentiond.cli.output.beside_daemon import seen_document
from retentiond.cli.output.plan import STYLES, say_problems
from retentiond.cli.output.printing import FIGURE, NAME, TEXT, WORD, Column, Printer, print_json
from retentiond.config import Config
from retentiond.decide.kept_records import KEPT_BY_AGE, KeptRecords
from retentiond.formatting import (
    say_about,
    say_amount,
    say_any,
    say_bytes,
    say_count,
    say_duration,
    say_figure,
    say_many,
    say_name,
    say_names,
    say_ranges,
    shell_argument,
)
from retentiond.model import GroupKind, Outcome, Verdict
from retentiond.state.audit_records import last_requests
from retentiond.tell.explained_evidence import COMMITTED
from retentiond.tell.explanation import (
    TIERED,
    Explanation,
    TopicExplanation,
    explanation_document,
    say_last_requests,
    topic_document,
)
from retentiond.tell.figures.answers import SimilarPartitions, TopicAnswer, caveats, say_trials
from retentiond.tell.figures.group_answers import GroupAnswer
from retentiond.tell.reasons import UNSEEN_READERS_NOTE, short
from retentiond.tell.report import CycleReport, evidence_document

WHO: tuple[Column[GroupAnswer], ...] = (
    Column("GROUP", NAME, lambda group: say_name(group.group_id)),
    Column("KIND", WORD, lambda group: str(group.reader.kind)),
    Column("STATE", WORD, lambda group: group.reader.state),
)

MOST_BINDING = 5
"""Groups that a cell names."""

MOST_EXCLUDED = 5
"""Groups that a line names."""


def with_state(
    explained: TopicExplanation, config: Config, partition: int | None
) -> TopicExplanation:
    """With what ``state_dir`` and the policies say beside the plan."""
    by_group = {
        row.binding_group: config.said_of_required(
            row.binding_group, [row.topic], is_external=row.binding_kind is GroupKind.EXTERNAL
        )
        for row in (explanation.row for explanation in explained.partitions)
        if row.binding_group is not None
    }
    return replace(
        explained,
        last_requests=last_requests(config.state_dir, explained.answer.topic, partition),
        required={group: said for group, said in by_group.items() if said is not None},
    )


def show(
    printer: Printer,
    report: CycleReport,
    explained: TopicExplanation,
    output: Output,
    *,
    is_whole: bool,
) -> None:
    """``is_whole``: the topic, not a single partition."""
    age_ms = explained.age_ms
    if output is Output.JSON:
        document = (
            topic_document(explained)
            if is_whole
            else explanation_document(explained, explained.partitions[0])
        )
        seen = evidence_document(report) | seen_document(age_ms)
        print_json(seen | document, printer.console.file)
        return
    if age_ms is not None:
        printer.say(_say_seen(age_ms, explained.answer))
        printer.say("")
    (show_topic if is_whole else show_partition)(printer, report, explained)


def _say_seen(age_ms: int, answer: TopicAnswer) -> str:
    """Such as: As the daemon saw it 42 seconds ago, before its requests (2 deleted, 1 failed)."""
    became = Counter(
        partition.outcome.outcome.value
        for partition in answer.partitions
        if partition.outcome and partition.outcome.outcome is not Outcome.NOT_ATTEMPTED
    )
    counts = ", ".join(f"{count} {outcome}" for outcome, count in became.items())
    before = f", before its requests ({counts})" if counts else ""
    return (
        f"As the daemon saw it {say_about(age_ms)} ago{before}. --fresh reads anew, and also looks "
        "for records that are dated in the future."
    )


def show_partition(printer: Printer, report: CycleReport, explained: TopicExplanation) -> None:
    (explanation,) = explained.partitions
    row = explanation.row
    _say_last_requests(printer, explained)
    goes = "to delete" if row.verdict is Verdict.DELETE else "that could go"
    records = f", {say_many(row.records, 'record')} {goes}" if row.records else ""
    printer.say(f"{row.topic}:{row.partition}  {row.verdict}: {row.reason}{records}")
    printer.say("")
    for line in _rule(explanation):
        printer.say(line)
    printer.say("")
    number, now_ms = row.partition, report.plan.planned_at_ms
    groups = sorted(explained.groups, key=lambda group: group.group_id)
    columns = (
        *WHO,
        Column("COMMITTED", FIGURE, lambda g: say_figure(g.reader.committed.get(number), "-")),
        Column("LAG", FIGURE, lambda g: say_figure(g.lags[number], "-")),
        Column(
            "STANDS FOR",
            FIGURE,
            lambda g: say_standing(g.reader.stands_since_ms.get(number), now_ms),
        ),
        Column("", TEXT, lambda g: _note(g, number, now_ms)),
    )
    _show_groups(printer, columns, groups, lambda g: "bold" if number in g.binds else "")
    _say_policy(printer, report, explained)
    printer.say("")
    printer.say(f"Why: {explanation.answer.why}")
    printer.say(f"Remedy: {explained.remedy(row)}")
    if kept := explanation.answer.kept:
        printer.say(f"What stays: {'; '.join(map(_kept_records, kept))}")
    printer.say(f"On disk: {' '.join(explanation.on_disk)}")
    for sentence in explanation.ages:
        printer.say(f"Timestamps: {sentence}")
    printer.say(UNSEEN_READERS_NOTE)
    say_report(printer, report)


def _say_last_requests(printer: Printer, explained: TopicExplanation) -> None:
    if explained.last_requests is not None:
        printer.say(say_last_requests(explained.last_requests))
        printer.say("")


def _show_groups(
    printer: Printer,
    columns: Sequence[Column[GroupAnswer]],
    groups: Sequence[GroupAnswer],
    style: Callable[[GroupAnswer], str],
) -> None:
    if groups:
        printer.table(columns, groups, style)
    else:
        printer.say("No group counts for the topic.")


def _say_policy(printer: Printer, report: CycleReport, explained: TopicExplanation) -> None:
    if explained.answer.owner is not None:
        printer.say(f"Owner: {say_name(explained.answer.owner)}, who is asked about the topic.")
    if explained.answer.fence is not None:
        printer.say(f"Fence: only {explained.answer.fence} can say anything about the topic.")
    if explained.answer in report.trials:
        printer.say(say_trials([explained.answer]))
    for caveat in caveats([explained.answer]):
        printer.say(caveat.sentence)
    if explained.excluded:
        printer.say(f"Excluded by the policy: {say_names(explained.excluded, MOST_EXCLUDED)}.")


def _rule(explanation: Explanation) -> Iterator[str]:
    row = explanation.row
    committed, young, end = map(
        say_figure, (row.min_committed_offset, row.retention_offset, explanation.end)
    )
    retention_ms = row.consumed_retention_ms
    age = "records can be deleted as soon as they are consumed"
    if retention_ms is None:
        age = "no single consumed retention applies"
    elif retention_ms:
        age = f"the first record younger than {say_duration(retention_ms)}, else the end"
    figures = [
        ("log start offset", say_figure(row.log_start_offset), "the first record there is"),
        ("min committed offset", committed, say_any(row.binding_group)),
        ("retention offset", young, age),
        ("end", end, f"of what is decided; high watermark {say_figure(row.high_watermark)}"),
        ("cutoff", say_figure(row.cutoff), f"min({committed}, {young}, {end})"),
    ]
    width = max(len(figure) for _, figure, _ in figures)
    for name, figure, meaning in figures:
        yield f"  {name:<20}  {figure:>{width}}  {meaning}"


def _note(group: GroupAnswer, partition: int, now_ms: int) -> str:
    reader = group.reader
    notes = ["binds"] if partition in group.binds else []
    if reader.problem is not None:
        notes.append(f"can't be read ({reader.problem})")
    elif reader.absent_since_ms is not None:
        last = say_figure(reader.remembered.get(partition))
        gone = say_about(now_ms - reader.absent_since_ms)
        notes.append(f"committed {last}, gone for {gone}")
    elif partition not in reader.committed:
        is_elsewhere = reader.trace == COMMITTED
        notes.append("no commit on this partition" if is_elsewhere else reader.trace)
    return "; ".join(notes)


def _kept_records(kept: KeptRecords) -> str:
    about = "" if kept.size_bytes is None else f" (about {say_bytes(kept.size_bytes)})"
    why = "too young" if kept.keeper == KEPT_BY_AGE else short(*kept.keeper)
    return f"{say_many(kept.records, 'record')}{about}, {why}"


REASONS: tuple[Column[SimilarPartitions], ...] = (
    Column("PARTITIONS", NAME, lambda alike: say_ranges(alike.numbers)),
    Column("VERDICT", WORD, lambda alike: f"{alike.first.verdict}: {alike.first.reason}"),
    Column("RECORDS", FIGURE, lambda alike: say_count(alike.records) if alike.records else "-"),
    Column("BOUND BY", TEXT, lambda alike: say_names(alike.binding_groups, MOST_BINDING) or "-"),
)


def show_topic(printer: Printer, report: CycleReport, explained: TopicExplanation) -> None:
    topic, alike = explained.answer, explained.reasons
    _say_last_requests(printer, explained)
    printer.say(f"{topic.topic}, {say_many(len(topic.partitions), 'partition')}:")
    printer.say("")
    printer.table(REASONS, alike, lambda similar: STYLES[similar.first.verdict])
    printer.say("")
    now_ms = report.plan.planned_at_ms
    columns = (
        *WHO,
        Column("LAG", FIGURE, lambda group: say_figure(group.lag, "-")),
        Column("STANDS FOR", FIGURE, lambda group: say_standing(group.stands_since_ms, now_ms)),
        Column("KEEPS", FIGURE, _keeps),
        Column("BINDS", TEXT, _binds),
    )
    _show_groups(printer, columns, explained.groups, lambda g: "bold" if g.binds else "")
    _say_policy(printer, report, explained)
    for similar in alike:
        row = similar.first
        which = f"partition {row.partition}" if len(topic.partitions) > 1 else "Why"
        printer.say("")
        printer.say(f"{row.verdict}: {row.reason}, {say_ranges(similar.numbers)}")
        printer.say(f"  {which}: {similar.partitions[0].why}")
        printer.say(f"  {explained.remedy(row)}")
    for sentence in dict.fromkeys(
        age for partition in explained.partitions for age in partition.ages
    ):
        printer.say("")
        printer.say(f"Timestamps: {sentence}")
    printer.say("")
    printer.say(UNSEEN_READERS_NOTE)
    printer.say(_disk_of_topic(topic))
    if explained.is_tiered:
        printer.say(TIERED)
    for sentence in explained.under_pressure:
        printer.say(f"Disk pressure: {sentence}")
    place = shell_argument(f"{topic.topic}:{topic.partitions[0].row.partition}")
    printer.say(f"More about one partition: retentiond explain {place}")
    say_report(printer, report)


def _keeps(group: GroupAnswer) -> str:
    return say_amount(group.kept_records, group.kept_bytes) if group.kept_records else "-"


def _binds(group: GroupAnswer) -> str:
    binds = say_ranges(group.binds) or "-"
    if group.without_commit:
        binds += f"; no commit on {say_ranges(group.without_commit)}"
    return binds


def _disk_of_topic(topic: TopicAnswer) -> str:
    if topic.size_bytes is None:
        return "On disk: how much all of it takes is not known."
    takes = f"On disk: all replicas take {say_bytes(topic.size_bytes)}"
    if not topic.records:
        return f"{takes}. As it stands, nothing is deleted, and nothing is freed."
    if topic.predicted_bytes is None:
        return f"{takes}; what deletion would free is not known."
    return f"{takes}, of which deletion would free about {say_bytes(topic.predicted_bytes)} now."


def say_report(printer: Printer, report: CycleReport) -> None:
    say_problems(printer, report)
    if report.plan.paused:
        printer.say(report.plan.paused)


def say_standing(since_ms: int | None, now_ms: int) -> str:
    if since_ms is None:
        return "?"
    return "moves" if since_ms >= now_ms else say_about(now_ms - since_ms)
