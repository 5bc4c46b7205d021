"""How a report looks: tables for people, JSON for programs, and a page with charts."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from rich.console import Console

from retentiond.cli.output.printing import Column, ColumnKind, Row, print_table, printer, say
from retentiond.cli.past.options import past_document, say_bytes_if_known, say_past
from retentiond.config.disks import MONTH_DAYS, Price
from retentiond.formatting import (
    GIB,
    HOUR_MS,
    rfc3339,
    say_bytes,
    say_count,
    say_gib_days,
    say_many,
    say_name,
    say_names,
)
from retentiond.history.ask.report_figures import (
    KeepingGroup,
    LogDirFilling,
    Point,
    Report,
    StoppedGroup,
    TopicSaving,
)
from retentiond.history.hourly import Values
from retentiond.tell import charts

SAVINGS = (
    Column("TOPIC", ColumnKind.NAME),
    Column("MEAN", ColumnKind.FIGURE),
    Column("WITHOUT", ColumnKind.FIGURE),
    Column("SAVED", ColumnKind.FIGURE),
    Column("GIB·DAYS", ColumnKind.FIGURE),
    Column("RECORDS DELETED", ColumnKind.FIGURE),
)
OWNER = Column("OWNER", ColumnKind.NAME)
KEEPERS = (
    Column("GROUP", ColumnKind.NAME),
    Column("TOPIC", ColumnKind.NAME),
    Column("KEEPS", ColumnKind.FIGURE),
    Column("RECORDS", ColumnKind.FIGURE),
    Column("SINCE", ColumnKind.WORD),
)
STOPPED = (
    Column("GROUP", ColumnKind.NAME),
    Column("TOPICS", ColumnKind.NAME),
    Column("RECORDS BEHIND", ColumnKind.FIGURE),
    Column("SINCE", ColumnKind.WORD),
)
LOG_DIRS = (
    Column("BROKER", ColumnKind.FIGURE),
    Column("LOG DIRECTORY", ColumnKind.NAME),
    Column("USABLE", ColumnKind.FIGURE),
    Column("TOTAL", ColumnKind.FIGURE),
    Column("FULL", ColumnKind.WORD),
)


def json_text(report: Report, price: Price | None) -> str:
    document = {
        **past_document(report.past),
        "price_per_gib_month": None if price is None else str(price),
        "topics": [
            {"topic": each.topic, "owner": each.owner, **_saving(each, price)}
            for each in report.topics
        ],
        "total": _saving(report.total, price),
        "keepers": [
            {
                "group": each.group,
                "topic": each.topic,
                "records": each.records,
                "bytes": each.bytes,
                "since": _time_or_none(each.since_ms),
            }
            for each in report.keepers
        ],
        "unread_topics": list(report.unread_topics),
        "stopped_groups": [
            {
                "group": each.group,
                "topics": list(each.topics),
                "records": each.records,
                "since": _time_or_none(each.since_ms),
            }
            for each in report.stopped
        ],
        "log_dirs": [
            {
                "broker": each.broker,
                "log_dir": each.log_dir,
                "total_bytes": each.total_bytes,
                "usable_bytes": each.usable_bytes,
                "full_at": _time_or_none(each.full_ms),
            }
            for each in report.log_dirs
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _saving(each: TopicSaving, price: Price | None) -> dict[str, Any]:
    """Money in the currency of the price."""
    saved, gib_days = each.saved_bytes, each.saved_gib_days
    return {
        "mean_bytes": each.mean_bytes,
        "without_mean_bytes": each.without_mean_bytes,
        "saved_mean_bytes": saved,
        "saved_gib_days": None if gib_days is None else round(gib_days, 3),
        "saved_money": (
            None
            if gib_days is None or price is None
            else round(gib_days / MONTH_DAYS * price.amount, 2)
        ),
        "saved_per_month": (
            None if saved is None or price is None else round(saved / GIB * price.amount, 2)
        ),
        "records_deleted": each.records_deleted,
        "deletions": each.deletions,
    }


def _time_or_none(epoch_ms: int | None) -> str | None:
    return None if epoch_ms is None else _time(epoch_ms)


def _time(epoch_ms: int) -> str:
    """A disk that fills in ten thousand years has no date."""
    return rfc3339(min(epoch_ms, LAST_MS))


LAST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)


def table_text(report: Report, price: Price | None) -> str:
    text = io.StringIO()
    console = Console(file=text, width=printer().width, markup=False, emoji=False, highlight=False)
    for title, columns, rows in sections(report):
        if rows:
            say(console, title)
            print_table(console, columns, map(Row, rows))
            say(console, "")
    if report.unread_topics:
        say(console, f"Nobody reads {say_names(report.unread_topics, 20)}.")
    say_past(console, report.past)
    say(console, summary(report, price))
    return text.getvalue()


def sections(report: Report) -> list[tuple[str, Sequence[Column], list[list[str]]]]:
    """The sections of table and page: a title, the columns and the cells of each."""
    begin_ms, _ = _bounds(report)
    return [
        _savings(report),
        ("Kept for groups now", KEEPERS, [_keeper_row(each, begin_ms) for each in report.keepers]),
        (
            "Groups that no longer commit",
            STOPPED,
            [_stopped_row(each, begin_ms) for each in report.stopped],
        ),
        ("Log directories", LOG_DIRS, [_log_dir_row(each) for each in report.log_dirs]),
    ]


def _savings(report: Report) -> tuple[str, Sequence[Column], list[list[str]]]:
    """The section of savings, with the topics' owners if there are any."""
    columns: tuple[Column, ...] = SAVINGS
    rows = [_saving_row(each) for each in report.topics]
    if any(each.owner is not None for each in report.topics):
        columns = (SAVINGS[0], OWNER, *SAVINGS[1:])
        for each, row in zip(report.topics, rows, strict=True):
            row.insert(1, "-" if each.owner is None else say_name(each.owner))
    return "Saved, on average", columns, rows


def summary(report: Report, price: Price | None) -> str:
    total = report.total
    deleted = (
        f"{say_many(total.records_deleted, 'record')} in {say_many(total.deletions, 'deletion')}"
    )
    if total.saved_bytes is None:
        return f"Deleted {deleted}; the bytes of all topics together are not known."
    saved = f"Deleted {deleted}. That saved {say_bytes(total.saved_bytes)} of disk on average"
    if (gib_days := total.saved_gib_days) is not None:
        saved += f", {say_gib_days(gib_days)} GiB·days in all"
    if price is None:
        return f"{saved}."
    in_all = "" if gib_days is None else f"{price.of_gib_days(gib_days)} in all, and "
    return f"{saved}: {in_all}{price.of(total.saved_bytes / GIB)} a month at {price} a GiB."


def _saving_row(each: TopicSaving) -> list[str]:
    sizes = map(say_bytes_if_known, (each.mean_bytes, each.without_mean_bytes, each.saved_bytes))
    days = "?" if each.saved_gib_days is None else say_gib_days(each.saved_gib_days)
    return [
        each.topic,
        *sizes,
        days,
        say_count(each.records_deleted),
    ]


def _keeper_row(each: KeepingGroup, begin_ms: int) -> list[str]:
    records = say_count(each.records)
    return [
        say_name(each.group),
        each.topic,
        say_bytes_if_known(each.bytes),
        records,
        _since(each.since_ms, begin_ms),
    ]


def _stopped_row(each: StoppedGroup, begin_ms: int) -> list[str]:
    topics, records = say_names(each.topics, 3), say_count(each.records)
    return [say_name(each.group), topics, records, _since(each.since_ms, begin_ms)]


def _log_dir_row(each: LogDirFilling) -> list[str]:
    full = "seen for less than an hour" if each.seen_ms < HOUR_MS else "not filling"
    if each.full_ms is not None:
        full = _time(each.full_ms)[:16].replace("T", " ")
    sizes = map(say_bytes, (each.usable_bytes, each.total_bytes))
    return [str(each.broker), each.log_dir, *sizes, full]


def _since(epoch_ms: int | None, begin_ms: int) -> str:
    """What did not move in that time has stood since before its first entry."""
    return f"before {_minute(begin_ms)}" if epoch_ms is None else _minute(epoch_ms)


def _minute(epoch_ms: int) -> str:
    return rfc3339(epoch_ms)[:16].replace("T", " ")


def html(report: Report, price: Price | None) -> str:
    """One page without anything from elsewhere: no script, no font, no picture."""
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
        period=[rfc3339(each) for each in _bounds(report)],
        summary=summary(report, price),
        charts=[each.svg(charts.REPORT_LOOK, each.title) for each in pictures if each],
        sections=[
            (title, [(each.heading, each.kind is ColumnKind.FIGURE) for each in columns], rows)
            for title, columns, rows in sections(report)
            if rows
        ],
        unread=[say_name(each) for each in report.unread_topics],
        cluster=say_name(report.past.cluster_id),
        gaps=past_document(report.past)["gaps"],
    )


def _bounds(report: Report) -> tuple[int, int]:
    period = report.past.timeline.period
    return period[0].entry.at_ms, period[-1].entry.at_ms


def on_disk(
    as_it_was: Mapping[str, Sequence[Point]], without: Mapping[str, Sequence[Point]]
) -> charts.Chart | None:
    """What all topics take on disk, and on top of it what they would take without retentiond."""
    saved: list[tuple[int, float]] = []
    for topic, points in as_it_was.items():
        of_topic = dict(without.get(topic, ()))
        saved += [(at, of_topic[at] - value) for at, value in points if at in of_topic]
    taken = chain.from_iterable(as_it_was.values())
    lines = {"on disk": _sums(taken), "saved": _sums((at, max(0.0, more)) for at, more in saved)}
    return _chart("On disk, and saved", lines, _say_bytes, charts.Kind.STACKED)


def _sums(points: Iterable[tuple[int, float]]) -> list[Point]:
    """The sum of all values of each time."""
    sums: defaultdict[int, float] = defaultdict(float)
    for at_ms, value in points:
        sums[at_ms] += value
    return [Point(at_ms, value) for at_ms, value in sorted(sums.items())]


def _say_bytes(size: float) -> str:
    return say_bytes(round(size))


def _chart(
    title: str,
    lines: Mapping[str, Sequence[Point]],
    say_value: Callable[[float], str],
    kind: charts.Kind = charts.Kind.LINES,
    top: float = 0,
) -> charts.Chart | None:
    """None where nothing is known."""
    times = sorted({point.at_ms for points in lines.values() for point in points})
    if not times:
        return None
    by_time = {name: dict(points) for name, points in lines.items()}
    drawn: dict[str, Values] = {
        name: [values.get(at) for at in times] for name, values in by_time.items()
    }
    if kind is charts.Kind.LINES:
        drawn, _ = charts.largest_lines(drawn)
    of_bytes = say_value is _say_bytes
    return charts.Chart(
        title, times, [*drawn.items()], say_value, kind, of_bytes=of_bytes, least_top=top
    )
