"""How an explanation looks to people: a few lines, a table of groups, and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from retentiond.cli.printable import printable
from retentiond.cli.table import Column, Kind, Row, print_table
from retentiond.cli.table import say as say_as_it_is
from retentiond.config.duration import say_duration
from retentiond.explain.keepers import YOUTH
from retentiond.explain.partition import Explanation
from retentiond.explain.standings import COMMITTED, Standing
from retentiond.explain.topic import GroupOnTopic, by_group, by_reason, ranges
from retentiond.model import Verdict
from retentiond.observe.report import CycleReport
from retentiond.wording.figures import say_about, say_bytes, say_count, say_many
from retentiond.wording.reasons import short

STYLES = {Verdict.DELETE: "green", Verdict.NOTHING: "dim", Verdict.HOLD: "yellow"}

GROUPS = (
    Column("GROUP", Kind.NAME),
    Column("KIND", Kind.WORD),
    Column("STATE", Kind.WORD),
    Column("COMMITTED", Kind.FIGURE),
    Column("LAG", Kind.FIGURE),
    Column("STANDS FOR", Kind.FIGURE),
    Column("", Kind.TEXT),
)

GROUPS_OF_TOPIC = (
    Column("GROUP", Kind.NAME),
    Column("KIND", Kind.WORD),
    Column("STATE", Kind.WORD),
    Column("LAG", Kind.FIGURE),
    Column("STANDS FOR", Kind.FIGURE),
    Column("BINDS", Kind.TEXT),
)

REASONS = (
    Column("PARTITIONS", Kind.NAME),
    Column("VERDICT", Kind.WORD),
    Column("RECORDS", Kind.FIGURE),
    Column("BOUND BY", Kind.TEXT),
)

MOST_EXCLUDED = 5
"""Groups that a line names."""


def say(console: Console, line: str = "") -> None:
    """One line; a group's name in it can't steer the terminal."""
    say_as_it_is(console, printable(line))


def show_partition(console: Console, report: CycleReport, explanation: Explanation) -> None:
    row = explanation.row
    records = f", {say_many(row.records, 'record')} to delete" if row.records else ""
    say(console, f"{row.topic}:{row.partition}  {row.verdict}: {row.reason}{records}")
    say(console)
    for line in _rule(explanation):
        say(console, line)
    say(console)
    if explanation.standings:
        now_ms = report.plan.planned_at_ms
        print_table(
            console, GROUPS, (_group(explanation, each, now_ms) for each in explanation.standings)
        )
    else:
        say(console, "No group counts for the topic.")
    _say_excluded(console, explanation.excluded)
    say(console)
    for heading, sentence in _sentences(explanation):
        say(console, f"{heading}{sentence}")
    _say_report(console, report)


def show_topic(console: Console, report: CycleReport, explanations: Sequence[Explanation]) -> None:
    first = explanations[0].row
    alike = by_reason(explanations)
    say(console, f"{first.topic}, {say_many(len(explanations), 'partition')}:")
    say(console)
    print_table(
        console,
        REASONS,
        (
            Row(
                [
                    ranges(each.partitions),
                    f"{each.verdict}: {each.reason}",
                    say_count(each.records) if each.records else "-",
                    ", ".join(each.groups) or "-",
                ],
                STYLES[each.verdict],
            )
            for each in alike
        ),
    )
    say(console)
    now_ms = report.plan.planned_at_ms
    groups = by_group(explanations)
    if groups:
        print_table(console, GROUPS_OF_TOPIC, (_group_of_topic(each, now_ms) for each in groups))
    else:
        say(console, "No group counts for the topic.")
    _say_excluded(console, explanations[0].excluded)
    for each in alike:
        example = each.explanations[0]
        which = f"partition {example.row.partition}" if len(explanations) > 1 else "Why"
        say(console)
        say(console, f"{each.verdict}: {each.reason}, {ranges(each.partitions)}")
        say(console, f"  {which}: {example.why}")
        say(console, f"  {example.remedy}")
    for sentence in dict.fromkeys(age for each in explanations for age in each.ages):
        say(console)
        say(console, f"Time stamps: {sentence}")
    say(console)
    say(console, _disk_of_topic(explanations))
    say(console, f"More about one partition: retentiond explain {first.topic}:{first.partition}")
    _say_report(console, report)


def _rule(explanation: Explanation) -> Iterator[str]:
    row = explanation.row
    committed, young, end = map(
        _figure, (row.min_committed_offset, row.retention_offset, explanation.end)
    )
    retention_ms = explanation.consumed_retention_ms
    age = "records may go as soon as they are consumed"
    if retention_ms is None:
        age = "no single consumed retention applies"
    elif retention_ms:
        age = f"the first record younger than {say_duration(retention_ms)}, else the end"
    figures = [
        ("log start offset", _figure(row.log_start_offset), "the first record there is"),
        ("min committed offset", committed, row.binding_group or "-"),
        ("retention offset", young, age),
        ("end", end, f"of what is decided; high watermark {_figure(row.high_watermark)}"),
        ("cutoff", _figure(row.cutoff), f"min({committed}, {young}, {end})"),
    ]
    width = max(len(figure) for _, figure, _ in figures)
    for name, figure, meaning in figures:
        yield f"  {name:<20}  {figure:>{width}}  {meaning}"


def _group(explanation: Explanation, standing: Standing, now_ms: int) -> Row:
    cells = [
        standing.group_id,
        standing.kind.value,
        standing.state,
        _figure(standing.committed_offset, "-"),
        _figure(explanation.lag(standing), "-"),
        _standing(standing.stands_since_ms, now_ms),
        _note(standing, now_ms, binds=explanation.binds(standing)),
    ]
    return Row(cells, "bold" if explanation.binds(standing) else "")


def _note(standing: Standing, now_ms: int, *, binds: bool) -> str:
    notes = ["binds"] if binds else []
    if standing.trouble is not None:
        notes.append(f"can't be read ({standing.trouble})")
    elif standing.absent_since_ms is not None:
        last = _figure(standing.remembered_offset)
        gone = say_about(now_ms - standing.absent_since_ms)
        notes.append(f"committed {last}, gone for {gone}")
    elif standing.committed_offset is None and standing.trace == COMMITTED:
        notes.append("no commit on this partition")
    elif standing.committed_offset is None:
        notes.append(standing.trace)
    return "; ".join(notes)


def _group_of_topic(group: GroupOnTopic, now_ms: int) -> Row:
    standing = group.standing
    binds = ranges(group.binds) or "-"
    if group.without_commit:
        binds += f"; no commit on {ranges(group.without_commit)}"
    cells = [
        standing.group_id,
        standing.kind.value,
        standing.state,
        _figure(group.lag, "-"),
        _standing(standing.stands_since_ms, now_ms),
        binds,
    ]
    return Row(cells, "bold" if group.binds else "")


def _standing(since_ms: int | None, now_ms: int) -> str:
    if since_ms is None:
        return "?"
    return "moves" if since_ms >= now_ms else say_about(now_ms - since_ms)


def _sentences(explanation: Explanation) -> Iterator[tuple[str, str]]:
    yield "Why: ", explanation.why
    yield "Remedy: ", explanation.remedy
    kept = [
        f"{say_many(records, 'record')}, {short(*keeper) if keeper != YOUTH else 'too young'}"
        for keeper, records in explanation.kept.items()
    ]
    if kept:
        yield "What stays: ", "; ".join(kept)
    yield "On disk: ", " ".join(explanation.on_disk)
    for sentence in explanation.ages:
        yield "Time stamps: ", sentence


def _disk_of_topic(explanations: Sequence[Explanation]) -> str:
    sizes = [each.size_bytes for each in explanations]
    freed = [each.row.predicted_bytes for each in explanations if each.row.records]
    if None in sizes:
        return "On disk: how much all of it takes is not known."
    total = sum(size for size in sizes if size is not None)
    takes = f"On disk: all replicas take {say_bytes(total)}"
    if None in freed:
        return f"{takes}; what deletion would free is not known."
    frees = sum(each for each in freed if each is not None)
    return f"{takes}, of which deletion would free about {say_bytes(frees)} now."


def _say_excluded(console: Console, excluded: Sequence[str]) -> None:
    if excluded:
        more = len(excluded) - MOST_EXCLUDED
        named = ", ".join(excluded[:MOST_EXCLUDED]) + (f" and {more} more" if more > 0 else "")
        say(console, f"Excluded by the policy: {named}.")


def _say_report(console: Console, report: CycleReport) -> None:
    for problem in report.plan.problems:
        say(console, f"{'warning' if report.plan.complete else 'incomplete'}: {problem}")
    if report.plan.paused:
        say(console, report.plan.paused)


def _figure(value: int | None, unknown: str = "?") -> str:
    return unknown if value is None else str(value)
