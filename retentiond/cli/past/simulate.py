"""``retentiond simulate``: what a policy would have deleted in the past, and what that had cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentiond.cli.options import (
    SOMETHING_FOUND,
    ConfigPath,
    Debug,
    Output,
    OutputFormat,
    load,
    matching,
    set_up,
)
from retentiond.cli.output.printing import (
    Column,
    ColumnKind,
    Row,
    print_json,
    print_table,
    printer,
    say,
)
from retentiond.cli.past.options import (
    MOST_SHOWN,
    ClusterId,
    TopicPatterns,
    answered,
    asked_replay,
    figure,
    past_document,
    period,
    refuse_unseen,
    retention,
    say_past,
)
from retentiond.errors import UsageError
from retentiond.formatting import rfc3339, say_bytes, say_count, say_many, say_name, say_share

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from retentiond.history.ask.missed import Missed
    from retentiond.history.ask.past import Past
    from retentiond.history.ask.simulate import SimulatedTopic, Simulation


def simulate(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    since: Annotated[
        str, typer.Option(help="From this time on: an age (2h, 7d) or a time.")
    ] = "30d",
    until: Annotated[
        str | None,
        typer.Option(help="Up to this time: an age or a time; by default now.", show_default=False),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Try the policy of this configuration file; by default that of --config.",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="TOPIC:KEY=VALUE",
            help="Try the policy of --config with this setting of a topic, as in "
            "orders:retention.commitoffset.hours=6; may be given several times.",
        ),
    ] = None,
    under_pressure: Annotated[
        bool,
        typer.Option(
            "--under-pressure",
            help="As if every disk had been under pressure all the time: the most that "
            "disk_pressure could have deleted.",
        ),
    ] = False,
    topic: TopicPatterns = None,
    cluster: ClusterId = None,
    output: OutputFormat = Output.TABLE,
    exit_code: Annotated[
        bool,
        typer.Option("--exit-code", help="End with 3 if a reader would have missed records."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Try a policy on the recorded past: what it would have deleted, and who would have missed
    records.

    Nothing is deleted. The command reads the history, and asks neither the cluster nor the daemon.
    A policy with other groups is judged by the recorded commits; what was not recorded counts as
    kept.

    Example: retentiond simulate --since 14d --set orders:retention.commitoffset.hours=2

    Example: retentiond simulate --policy stricter.yaml --output json | jq .total

    Example: retentiond simulate --policy stricter.yaml --exit-code
    """
    path = set_up(context, config, debug)
    if policy is not None and changes:
        raise UsageError("give either --policy or --set: a file of --policy has every setting")
    from retentiond.history.ask.question import tried_policy
    from retentiond.history.ask.simulate import simulate as simulated

    in_force = load(path)
    asked, is_asked = period(since, until), matching(topic)
    tried = tried_policy(load(policy, "--policy") if policy else in_force, changes or ())
    tried = replace(tried, under_pressure=under_pressure)

    def question(past: Past, session: SparkSession) -> Simulation:
        refuse_unseen(past, asked, tried.changes)
        return simulated(
            asked_replay(past, session, is_asked, tried.policy_for, in_force.policy_for)
        )

    simulation = answered(in_force, asked, question, tried.longest_ms, cluster)
    show(simulation, output)
    if exit_code and simulation.total.missed:
        raise typer.Exit(SOMETHING_FOUND)


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


def show(simulation: Simulation, output: Output) -> None:
    """Prints the result to stdout."""
    if output is Output.JSON:
        print_json(document(simulation))
        return
    console = printer()
    print_table(console, COLUMNS, (_row(each) for each in simulation.topics))
    say_past(console, simulation.past)
    _say_missed(console, simulation.total.missed)
    say(console, _summary(simulation.total))


def document(simulation: Simulation) -> dict[str, Any]:
    return {
        **past_document(simulation.past),
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
            f"missed: from {rfc3339(each.at_ms)} on, group {say_name(each.group)} stood below the "
            f"start of {each.topic}-{each.partition}: at worst at {each.committed_offset}, where "
            f"it would have been {each.log_start_offset}: {say_many(each.records, 'record')}",
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
