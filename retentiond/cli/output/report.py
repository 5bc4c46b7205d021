"""How a report looks: tables for people, JSON for programs, and a page with charts."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from retentiond.cli.output.printing import FIGURE, WORD, Column, Printer, columns_of
from retentiond.cli.past.options import say_past
from retentiond.fields import document_of, rfc3339
from retentiond.formatting import (
    HOUR_MS,
    say_bytes,
    say_gib_days,
    say_many,
    say_name,
    say_names,
)
from retentiond.history.ask.report_figures import (
    KeepingGroup,
    Line,
    LogDirFilling,
    Report,
    StoppedGroup,
    TopicSaving,
)
from retentiond.history.hourly import Values
from retentiond.tell import charts


def _full(log_dir: LogDirFilling) -> str:
    if log_dir.full_ms is not None:
        return _minute(log_dir.full_ms)
    return "seen for less than an hour" if log_dir.seen_ms < HOUR_MS else "not filling"


def json_text(report: Report) -> str:
    return json.dumps(report.past.document() | document_of(report), indent=2) + "\n"


def table_text(report: Report, cluster: str) -> str:
    text = io.StringIO()
    printer = Printer(text)
    for title, columns, values in sections(report):
        printer.say(title)
        printer.table(columns, values)
        printer.say("")
    if report.unread_topics:
        printer.say(f"Nobody reads {say_names(report.unread_topics, 20)}.")
    say_past(printer, report.past, cluster)
    printer.say(summary(report))
    return text.getvalue()


def sections(report: Report) -> list[tuple[str, Sequence[Column[Any]], Sequence[Any]]]:
    """The sections of table and page that have a row: a title, the columns and the values."""
    begin_ms, _ = _bounds(report)
    topic, owner, *savings = columns_of(TopicSaving)
    owners = [owner] if any(topic.owner is not None for topic in report.topics) else []
    since: Column[KeepingGroup | StoppedGroup] = Column(
        "SINCE", WORD, lambda group: _since(group.since_ms, begin_ms)
    )
    full = Column("FULL", WORD, _full)
    all_sections: list[tuple[str, Sequence[Column[Any]], Sequence[Any]]] = [
        ("Saved, on average", (topic, *owners, *savings), report.topics),
        ("What groups keep now", (*columns_of(KeepingGroup), since), report.keepers),
        ("Groups that no longer commit", (*columns_of(StoppedGroup), since), report.stopped),
        ("Log directories", (*columns_of(LogDirFilling), full), report.log_dirs),
    ]
    return [section for section in all_sections if section[2]]


def summary(report: Report) -> str:
    total = report.total
    deleted = (
        f"{say_many(total.records_deleted, 'record')} in {say_many(total.deletions, 'deletion')}"
    )
    if total.saved_bytes is None:
        return f"Deleted {deleted}; the bytes of all topics together are not known."
    saved = f"Deleted {deleted}. That saved {say_bytes(total.saved_bytes)} of disk on average"
    if (gib_days := total.saved_gib_days) is not None:
        saved += f", {say_gib_days(gib_days)} GiB·days in all"
    return f"{saved}."


def _since(epoch_ms: int | None, begin_ms: int) -> str:
    """What did not move in that time has stood since before its first entry."""
    return f"before {_minute(begin_ms)}" if epoch_ms is None else _minute(epoch_ms)


def _minute(epoch_ms: int) -> str:
    return rfc3339(epoch_ms)[:16].replace("T", " ")


def html(report: Report, cluster: str) -> str:
    """One page without anything from elsewhere: no script, no font, no picture. ``cluster``: what
    it is called."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True
    )
    pictures = [
        on_disk(report.bytes_by_topic, report.without_by_topic),
        _chart(
            "Records deleted",
            {"records": report.deleted_by_day},
            charts.short_count,
            kind=charts.Kind.BARS,
        ),
        _chart("Log directories, percent used", report.used_by_log_dir, "{:.0f} %".format, top=100),
    ]
    return templates.get_template("report.html").render(
        period=[rfc3339(at_ms) for at_ms in _bounds(report)],
        summary=summary(report),
        charts=[chart.svg(charts.REPORT_LOOK, chart.title) for chart in pictures if chart],
        sections=[
            (
                title,
                [(column.heading, column.kind is FIGURE) for column in columns],
                [[column.of(row) for column in columns] for row in values],
            )
            for title, columns, values in sections(report)
        ],
        unread=[say_name(topic) for topic in report.unread_topics],
        cluster=say_name(cluster),
        gaps=report.past.document()["gaps"],
    )


def _bounds(report: Report) -> tuple[int, int]:
    period = report.past.timeline.period
    return period[0].entry.at_ms, period[-1].entry.at_ms


def on_disk(as_it_was: Mapping[str, Line], without: Mapping[str, Line]) -> charts.Chart | None:
    """What all topics take on disk, and on top of it what they would take without retentiond."""
    taken: defaultdict[int, float] = defaultdict(float)
    saved: defaultdict[int, float] = defaultdict(float)
    for topic, line in as_it_was.items():
        without_it = without.get(topic, {})
        for at_ms, size in line.items():
            taken[at_ms] += size
            if at_ms in without_it:
                saved[at_ms] += max(0.0, without_it[at_ms] - size)
    lines = {"on disk": taken, "saved": saved}
    return _chart("On disk, and saved", lines, _say_bytes, charts.Kind.STACKED)


def _say_bytes(size: float) -> str:
    return say_bytes(round(size))


def _chart(
    title: str,
    lines: Mapping[str, Line],
    say_value: Callable[[float], str],
    kind: charts.Kind = charts.Kind.LINES,
    top: float = 0,
) -> charts.Chart | None:
    """None where nothing is known."""
    times = sorted({at_ms for line in lines.values() for at_ms in line})
    if not times:
        return None
    drawn: dict[str, Values] = {
        name: [line.get(at_ms) for at_ms in times] for name, line in lines.items()
    }
    if kind is charts.Kind.LINES:
        drawn, _ = charts.largest_lines(drawn)
    of_bytes = say_value is _say_bytes
    return charts.Chart(
        title, times, [*drawn.items()], say_value, kind, of_bytes=of_bytes, least_top=top
    )
