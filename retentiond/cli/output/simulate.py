"""How a simulation looks: a table for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from retentiond.cli.options import Output
from retentiond.cli.output.printing import Column, ColumnKind, Row, print_table, printer, say
from retentiond.config.durations import format_duration
from retentiond.formatting import (
    rfc3339,
    say_about,
    say_bytes,
    say_count,
    say_many,
    say_name,
    say_share,
)
from retentiond.history.ask.missed import Missed
from retentiond.history.ask.past import Timeline
from retentiond.history.ask.simulate import SimulatedTopic, Simulation

COLUMNS = (
    Column("TOPIC", ColumnKind.NAME),
    Column("RETENTION", ColumnKind.FIGURE),
    Column("MEAN", ColumnKind.FIGURE),
    Column("PEAK", ColumnKind.FIGURE, spare=True),
    Column("SIMULATED MEAN", ColumnKind.FIGURE),
    Column("SIMULATED PEAK", ColumnKind.FIGURE, spare=True),
    Column("RECORDS DELETED", ColumnKind.FIGURE, spare=True),
    Column("MISSED", ColumnKind.FIGURE),
)

MOST_SHOWN = 20


def show(simulation: Simulation, output: Output) -> None:
    """Prints the result to stdout."""
    if output is Output.JSON:
        json.dump(document(simulation), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    console = printer()
    print_table(console, COLUMNS, (_row(each) for each in simulation.topics))
    say_timeline(console, simulation.past.timeline)
    _say_missed(console, simulation.total.missed)
    say(console, _summary(simulation.total))


def document(simulation: Simulation) -> dict[str, Any]:
    timeline = simulation.past.timeline
    return {
        **timeline_document(timeline),
        "topics": [
            {
                "topic": each.topic,
                "retention_ms": each.retention_ms,
                **_figures(each),
                "missed": [_missed(lost) for lost in each.missed],
            }
            for each in simulation.topics
        ],
        "total": _figures(simulation.total),
    }


def timeline_document(timeline: Timeline) -> dict[str, Any]:
    return {
        "since": rfc3339(timeline.since_ms),
        "until": rfc3339(timeline.until_ms),
        "entries": len(timeline.period),
        "gaps": [
            {"from": rfc3339(gap.from_ms), "until": rfc3339(gap.until_ms)} for gap in timeline.gaps
        ],
    }


def say_timeline(console: Console, timeline: Timeline) -> None:
    """What there is to judge by, and what is not."""
    period = timeline.period
    say(
        console,
        f"{say_many(len(period), 'entry', 'entries')} from {rfc3339(period[0].entry.at_ms)} to "
        f"{rfc3339(period[-1].entry.at_ms)}.",
    )
    for gap in timeline.gaps[:MOST_SHOWN]:
        say(
            console,
            f"no entries for {say_about(gap.until_ms - gap.from_ms)}, from {rfc3339(gap.from_ms)} "
            f"to {rfc3339(gap.until_ms)}: nothing is known of that time",
        )
    if len(timeline.gaps) > MOST_SHOWN:
        say(console, f"and {say_many(len(timeline.gaps) - MOST_SHOWN, 'gap')} more")


def figure(count: int | None) -> str:
    return "?" if count is None else say_bytes(count)


def retention(ms: int) -> str:
    """``6h``; ``at once``: as soon as consumed."""
    return format_duration(ms) if ms else "at once"


def _figures(topic: SimulatedTopic) -> dict[str, int | None]:
    return {
        "mean_bytes": topic.mean_bytes,
        "peak_bytes": topic.peak_bytes,
        "simulated_mean_bytes": topic.simulated_mean_bytes,
        "simulated_peak_bytes": topic.simulated_peak_bytes,
        "simulated_records_deleted": topic.simulated_records_deleted,
    }


def _missed(lost: Missed) -> dict[str, Any]:
    return {
        "group": lost.group,
        "partition": lost.partition,
        "at": rfc3339(lost.at_ms),
        "committed_offset": lost.committed_offset,
        "log_start_offset": lost.log_start_offset,
        "records": lost.records,
    }


def _row(topic: SimulatedTopic) -> Row:
    lost = sum(each.records for each in topic.missed)
    return Row(
        [
            topic.topic,
            "-" if topic.retention_ms is None else retention(topic.retention_ms),
            figure(topic.mean_bytes),
            figure(topic.peak_bytes),
            figure(topic.simulated_mean_bytes),
            figure(topic.simulated_peak_bytes),
            say_count(topic.simulated_records_deleted),
            say_count(lost) if lost else "-",
        ],
        "red" if lost else "",
    )


def _say_missed(console: Console, losses: Iterable[Missed]) -> None:
    every = sorted(losses, key=lambda each: (each.at_ms, each.topic, each.partition, each.group))
    for each in every[:MOST_SHOWN]:
        say(
            console,
            f"missed: {rfc3339(each.at_ms)} group {say_name(each.group)} stood at "
            f"{each.committed_offset} of {each.topic}-{each.partition}, where the log would have "
            f"begun at {each.log_start_offset}: {say_many(each.records, 'record')}",
        )
    if len(every) > MOST_SHOWN:
        say(console, f"and {len(every) - MOST_SHOWN} more: see --output json")


def _summary(total: SimulatedTopic) -> str:
    deleted = f"{say_many(total.simulated_records_deleted, 'record')} deleted"
    if total.mean_bytes is None or total.simulated_mean_bytes is None:
        return f"{deleted}; the bytes of all topics together are not known."
    saved = total.mean_bytes - total.simulated_mean_bytes
    kept = (
        f"{say_bytes(total.simulated_mean_bytes)} on average, where {say_bytes(total.mean_bytes)}"
    )
    share = f" ({say_share(saved, total.mean_bytes)} less)" if saved > 0 else ""
    return f"{deleted}; {kept} were there{share}."
