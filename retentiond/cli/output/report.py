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

from retentiond.cli.output.printing import FIGURE, NAME, WORD, Column, Printer, told
from retentiond.cli.past.options import past_document, say_bytes_if_known, say_past
from retentiond.fields import rfc3339
from retentiond.formatting import (
    HOUR_MS,
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

TOPIC: Column[TopicSaving] = Column("TOPIC", NAME, lambda topic: topic.topic)
OWNER: Column[TopicSaving] = Column(
    "OWNER", NAME, lambda topic: "-" if topic.owner is None else say_name(topic.owner)
)
SAVINGS: tuple[Column[TopicSaving], ...] = (
    Column("MEAN", FIGURE, lambda topic: say_bytes_if_known(topic.mean_bytes)),
    Column("WITHOUT", FIGURE, lambda topic: say_bytes_if_known(topic.without_mean_bytes)),
    Column("SAVED", FIGURE, lambda topic: say_bytes_if_known(topic.saved_bytes)),
    Column(
        "GIB·DAYS",
        FIGURE,
        lambda topic: "?" if topic.saved_gib_days is None else say_gib_days(topic.saved_gib_days),
    ),
    Column("RECORDS DELETED", FIGURE, lambda topic: say_count(topic.records_deleted)),
)


def _full(log_dir: LogDirFilling) -> str:
    if log_dir.full_ms is not None:
        return _time(log_dir.full_ms)[:16].replace("T", " ")
    return "seen for less than an hour" if log_dir.seen_ms < HOUR_MS else "not filling"


LOG_DIRS: tuple[Column[LogDirFilling], ...] = (
    Column("BROKER", FIGURE, lambda log_dir: str(log_dir.broker)),
    Column("LOG DIRECTORY", NAME, lambda log_dir: log_dir.log_dir),
    Column("USABLE", FIGURE, lambda log_dir: say_bytes(log_dir.usable_bytes)),
    Column("TOTAL", FIGURE, lambda log_dir: say_bytes(log_dir.total_bytes)),
    Column("FULL", WORD, _full),
)


def json_text(report: Report) -> str:
    document = {
        **past_document(report.past),
        "topics": [
            {"topic": topic.topic, "owner": topic.owner, **_saving(topic)}
            for topic in report.topics
        ],
        "total": _saving(report.total),
        "keepers": [told(keeper._asdict()) for keeper in report.keepers],
        "unread_topics": list(report.unread_topics),
        "stopped_groups": [told(group._asdict()) for group in report.stopped],
        "log_dirs": [
            {
                "broker": log_dir.broker,
                "log_dir": log_dir.log_dir,
                "total_bytes": log_dir.total_bytes,
                "usable_bytes": log_dir.usable_bytes,
                "full_at": None if log_dir.full_ms is None else _time(log_dir.full_ms),
            }
            for log_dir in report.log_dirs
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _saving(topic: TopicSaving) -> dict[str, Any]:
    saved, gib_days = topic.saved_bytes, topic.saved_gib_days
    return {
        "mean_bytes": topic.mean_bytes,
        "without_mean_bytes": topic.without_mean_bytes,
        "saved_mean_bytes": saved,
        "saved_gib_days": None if gib_days is None else round(gib_days, 3),
        "records_deleted": topic.records_deleted,
        "deletions": topic.deletions,
    }


def _time(epoch_ms: int) -> str:
    """A disk that fills in ten thousand years has no date."""
    return rfc3339(min(epoch_ms, LAST_MS))


LAST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)


def table_text(report: Report) -> str:
    text = io.StringIO()
    printer = Printer(text)
    for title, columns, values in sections(report):
        printer.say(title)
        printer.table(columns, values)
        printer.say("")
    if report.unread_topics:
        printer.say(f"Nobody reads {say_names(report.unread_topics, 20)}.")
    say_past(printer, report.past)
    printer.say(summary(report))
    return text.getvalue()


def sections(report: Report) -> list[tuple[str, Sequence[Column[Any]], Sequence[Any]]]:
    """The sections of table and page that have a row: a title, the columns and the values."""
    begin_ms, _ = _bounds(report)
    has_owner = any(topic.owner is not None for topic in report.topics)
    keepers: tuple[Column[KeepingGroup], ...] = (
        Column("GROUP", NAME, lambda keeper: say_name(keeper.group)),
        Column("TOPIC", NAME, lambda keeper: keeper.topic),
        Column("BYTES", FIGURE, lambda keeper: say_bytes_if_known(keeper.bytes)),
        Column("RECORDS", FIGURE, lambda keeper: say_count(keeper.records)),
        Column("SINCE", WORD, lambda keeper: _since(keeper.since_ms, begin_ms)),
    )
    stopped: tuple[Column[StoppedGroup], ...] = (
        Column("GROUP", NAME, lambda group: say_name(group.group)),
        Column("TOPICS", NAME, lambda group: say_names(group.topics, 3)),
        Column("RECORDS BEHIND", FIGURE, lambda group: say_count(group.records)),
        Column("SINCE", WORD, lambda group: _since(group.since_ms, begin_ms)),
    )
    every: list[tuple[str, Sequence[Column[Any]], Sequence[Any]]] = [
        ("Saved, on average", (TOPIC, *([OWNER] if has_owner else []), *SAVINGS), report.topics),
        ("What groups keep now", keepers, report.keepers),
        ("Groups that no longer commit", stopped, report.stopped),
        ("Log directories", LOG_DIRS, report.log_dirs),
    ]
    return [section for section in every if section[2]]


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


def html(report: Report, cluster: str | None = None) -> str:
    """One page without anything from elsewhere: no script, no font, no picture. ``cluster``: the
    operator's name for it."""
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
        cluster=say_name(cluster or report.past.cluster_id),
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
