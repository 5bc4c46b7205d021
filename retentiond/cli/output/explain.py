"""How the explanation of a partition, and of a whole topic, looks to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from retentiond.cli.output.plan import STYLES, say_problems
from retentiond.cli.output.printing import Column, ColumnKind, Row, print_table, say
from retentiond.formatting import (
    say_about,
    say_amount,
    say_any,
    say_count,
    say_duration,
    say_figure,
    say_many,
    say_name,
    say_names,
    say_ranges,
    say_stored,
    shell_argument,
)
from retentiond.model import PlanRow
from retentiond.tell.explain.evidence import COMMITTED
from retentiond.tell.explain.explanation import Explanation, TopicExplanation
from retentiond.tell.figures.answers import SimilarPartitions, TopicAnswer, caveats, say_trials
from retentiond.tell.figures.group_answers import GroupAnswer
from retentiond.tell.figures.kept_records import KEPT_BY_AGE, KeptRecords
from retentiond.tell.reasons import UNSEEN_READERS_NOTE, short
from retentiond.tell.report import CycleReport

GROUPS = (
    Column("GROUP", ColumnKind.NAME),
    Column("KIND", ColumnKind.WORD),
    Column("STATE", ColumnKind.WORD),
    Column("COMMITTED", ColumnKind.FIGURE),
    Column("LAG", ColumnKind.FIGURE),
    Column("STANDS FOR", ColumnKind.FIGURE),
    Column("", ColumnKind.TEXT),
)


MOST_BINDING = 5
"""Groups that a cell names."""

MOST_EXCLUDED = 5
"""Groups that a line names."""


def show_partition(console: Console, report: CycleReport, explained: TopicExplanation) -> None:
    (explanation,) = explained.partitions
    row = explanation.row
    records = f", {say_many(row.records, 'record')} to delete" if row.records else ""
    say(console, f"{row.topic}:{row.partition}  {row.verdict}: {row.reason}{records}")
    say(console, "")
    for line in _rule(explanation):
        say(console, line)
    say(console, "")
    now_ms = report.plan.planned_at_ms
    groups = sorted(explained.groups, key=lambda group: group.group_id)
    _say_groups(console, report, explained, GROUPS, [_group(each, row, now_ms) for each in groups])
    say(console, "")
    say(console, f"Why: {explanation.answer.why}")
    say(console, f"Remedy: {explained.remedy(row)}")
    if kept := explanation.answer.kept:
        say(console, f"What stays: {'; '.join(map(_kept_records, kept))}")
    say(console, f"On disk: {' '.join(explanation.on_disk)}")
    for sentence in explanation.ages:
        say(console, f"Timestamps: {sentence}")
    say(console, UNSEEN_READERS_NOTE)
    say_report(console, report)


def _say_groups(
    console: Console,
    report: CycleReport,
    explained: TopicExplanation,
    columns: Sequence[Column],
    rows: Sequence[Row],
) -> None:
    if rows:
        print_table(console, columns, rows)
    else:
        say(console, "No group counts for the topic.")
    if explained.answer.owner is not None:
        say(console, f"Owner: {say_name(explained.answer.owner)}, who is asked about the topic.")
    if explained.answer.fence is not None:
        say(console, f"Fence: only {explained.answer.fence} can say anything about the topic.")
    if explained.answer in report.trials:
        say(console, say_trials([explained.answer]))
    for caveat in caveats([explained.answer]):
        say(console, caveat.sentence)
    if explained.excluded:
        say(console, f"Excluded by the policy: {say_names(explained.excluded, MOST_EXCLUDED)}.")


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


def _group(group: GroupAnswer, row: PlanRow, now_ms: int) -> Row:
    reader, number = group.reader, row.partition
    return Row(
        [
            *_who(group),
            say_figure(reader.committed.get(number), "-"),
            say_figure(group.lags[number], "-"),
            say_standing(reader.stands_since_ms.get(number), now_ms),
            _note(group, number, now_ms),
        ],
        "bold" if number in group.binds else "",
    )


def _who(group: GroupAnswer) -> tuple[str, str, str]:
    reader = group.reader
    return say_name(reader.group_id), str(reader.kind), reader.state


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
    about = "" if kept.size.local is None else f" (about {say_stored(*kept.size)})"
    why = "too young" if kept.keeper == KEPT_BY_AGE else short(*kept.keeper)
    return f"{say_many(kept.records, 'record')}{about}, {why}"


REASONS = (
    Column("PARTITIONS", ColumnKind.NAME),
    Column("VERDICT", ColumnKind.WORD),
    Column("RECORDS", ColumnKind.FIGURE),
    Column("BOUND BY", ColumnKind.TEXT),
)

GROUPS_OF_TOPIC = (
    Column("GROUP", ColumnKind.NAME),
    Column("KIND", ColumnKind.WORD),
    Column("STATE", ColumnKind.WORD),
    Column("LAG", ColumnKind.FIGURE),
    Column("STANDS FOR", ColumnKind.FIGURE),
    Column("KEEPS", ColumnKind.FIGURE),
    Column("BINDS", ColumnKind.TEXT),
)


def show_topic(console: Console, report: CycleReport, explained: TopicExplanation) -> None:
    topic, alike = explained.answer, explained.reasons
    say(console, f"{topic.topic}, {say_many(len(topic.partitions), 'partition')}:")
    say(console, "")
    print_table(console, REASONS, map(_alike, alike))
    say(console, "")
    now_ms = report.plan.planned_at_ms
    rows = [_group_of_topic(each, now_ms) for each in explained.groups]
    _say_groups(console, report, explained, GROUPS_OF_TOPIC, rows)
    for each in alike:
        row = each.first
        which = f"partition {row.partition}" if len(topic.partitions) > 1 else "Why"
        say(console, "")
        say(console, f"{row.verdict}: {row.reason}, {say_ranges(each.numbers)}")
        say(console, f"  {which}: {each.partitions[0].why}")
        say(console, f"  {explained.remedy(row)}")
    for sentence in dict.fromkeys(age for each in explained.partitions for age in each.ages):
        say(console, "")
        say(console, f"Timestamps: {sentence}")
    say(console, "")
    say(console, UNSEEN_READERS_NOTE)
    say(console, _disk_of_topic(topic))
    for sentence in explained.under_pressure:
        say(console, f"Disk pressure: {sentence}")
    place = shell_argument(f"{topic.topic}:{topic.partitions[0].row.partition}")
    say(console, f"More about one partition: retentiond explain {place}")
    say_report(console, report)


def _alike(alike: SimilarPartitions) -> Row:
    cells = [
        say_ranges(alike.numbers),
        f"{alike.first.verdict}: {alike.first.reason}",
        say_count(alike.records) if alike.records else "-",
        say_names(alike.binding_groups, MOST_BINDING) or "-",
    ]
    return Row(cells, STYLES[alike.first.verdict])


def _group_of_topic(group: GroupAnswer, now_ms: int) -> Row:
    binds = say_ranges(group.binds) or "-"
    if group.without_commit:
        binds += f"; no commit on {say_ranges(group.without_commit)}"
    cells = [
        *_who(group),
        say_figure(group.lag, "-"),
        say_standing(group.stands_since_ms, now_ms),
        say_amount(group.kept_records, *group.kept) if group.kept_records else "-",
        binds,
    ]
    return Row(cells, "bold" if group.binds else "")


def _disk_of_topic(topic: TopicAnswer) -> str:
    if topic.size.local is None:
        return "On disk: how much all of it takes is not known."
    takes = f"On disk: all replicas take {say_stored(*topic.size)}"
    if not topic.records:
        return f"{takes}. As it stands, nothing is deleted, and nothing is freed."
    if topic.frees.local is None:
        return f"{takes}; what deletion would free is not known."
    return f"{takes}, of which deletion would free about {say_stored(*topic.frees)} now."


def say_report(console: Console, report: CycleReport) -> None:
    say_problems(console, report)
    if report.plan.paused:
        say(console, report.plan.paused)


def say_standing(since_ms: int | None, now_ms: int) -> str:
    if since_ms is None:
        return "?"
    return "moves" if since_ms >= now_ms else say_about(now_ms - since_ms)
