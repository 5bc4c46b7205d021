"""How the explanation of a partition looks to people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from retentiond.cli.explain_lines import say, say_excluded, say_figure, say_report, say_standing
from retentiond.cli.table import Column, Kind, Row, print_table
from retentiond.config.duration import say_duration
from retentiond.explain.keepers import YOUTH
from retentiond.explain.partition import Explanation
from retentiond.explain.standings import COMMITTED, Standing
from retentiond.observe.report import CycleReport
from retentiond.wording.figures import say_about, say_bytes, say_many
from retentiond.wording.reasons import short

GROUPS = (
    Column("GROUP", Kind.NAME),
    Column("KIND", Kind.WORD),
    Column("STATE", Kind.WORD),
    Column("COMMITTED", Kind.FIGURE),
    Column("LAG", Kind.FIGURE),
    Column("STANDS FOR", Kind.FIGURE),
    Column("", Kind.TEXT),
)


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
    say_excluded(console, explanation.excluded)
    say(console)
    for heading, sentence in _sentences(explanation):
        say(console, f"{heading}{sentence}")
    say_report(console, report)


def _rule(explanation: Explanation) -> Iterator[str]:
    row = explanation.row
    committed, young, end = map(
        say_figure, (row.min_committed_offset, row.retention_offset, explanation.end)
    )
    retention_ms = explanation.consumed_retention_ms
    age = "records may go as soon as they are consumed"
    if retention_ms is None:
        age = "no single consumed retention applies"
    elif retention_ms:
        age = f"the first record younger than {say_duration(retention_ms)}, else the end"
    figures = [
        ("log start offset", say_figure(row.log_start_offset), "the first record there is"),
        ("min committed offset", committed, row.binding_group or "-"),
        ("retention offset", young, age),
        ("end", end, f"of what is decided; high watermark {say_figure(row.high_watermark)}"),
        ("cutoff", say_figure(row.cutoff), f"min({committed}, {young}, {end})"),
    ]
    width = max(len(figure) for _, figure, _ in figures)
    for name, figure, meaning in figures:
        yield f"  {name:<20}  {figure:>{width}}  {meaning}"


def _group(explanation: Explanation, standing: Standing, now_ms: int) -> Row:
    cells = [
        standing.group_id,
        standing.kind.value,
        standing.state,
        say_figure(standing.committed_offset, "-"),
        say_figure(explanation.lag(standing), "-"),
        say_standing(standing.stands_since_ms, now_ms),
        _note(standing, now_ms, binds=explanation.binds(standing)),
    ]
    return Row(cells, "bold" if explanation.binds(standing) else "")


def _note(standing: Standing, now_ms: int, *, binds: bool) -> str:
    notes = ["binds"] if binds else []
    if standing.trouble is not None:
        notes.append(f"can't be read ({standing.trouble})")
    elif standing.absent_since_ms is not None:
        last = say_figure(standing.remembered_offset)
        gone = say_about(now_ms - standing.absent_since_ms)
        notes.append(f"committed {last}, gone for {gone}")
    elif standing.committed_offset is None and standing.trace == COMMITTED:
        notes.append("no commit on this partition")
    elif standing.committed_offset is None:
        notes.append(standing.trace)
    return "; ".join(notes)


def _sentences(explanation: Explanation) -> Iterator[tuple[str, str]]:
    yield "Why: ", explanation.why
    yield "Remedy: ", explanation.remedy
    kept = [
        f"{say_many(records, 'record')}{_about(explanation.size_of(records))}, "
        f"{short(*keeper) if keeper != YOUTH else 'too young'}"
        for keeper, records in explanation.kept.items()
    ]
    if kept:
        yield "What stays: ", "; ".join(kept)
    yield "On disk: ", " ".join(explanation.on_disk)
    for sentence in explanation.ages:
        yield "Time stamps: ", sentence


def _about(size_bytes: int | None) -> str:
    return "" if size_bytes is None else f" (about {say_bytes(size_bytes)})"
