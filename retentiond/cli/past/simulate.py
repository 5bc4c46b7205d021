"""``retentiond simulate``: what a policy would have deleted in the past, and what that had cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import (
    SINCE,
    SOMETHING_FOUND,
    ConfigPath,
    Debug,
    Output,
    OutputFormat,
    duration_ms,
    load,
    matching,
    set_up,
)
from retentiond.cli.output.printing import Printer, columns_of, print_json
from retentiond.cli.output.streams import say_aside
from retentiond.cli.past.doubts import Doubts, find_doubts, say_doubts
from retentiond.cli.past.options import (
    MOST_SHOWN,
    ClusterId,
    TopicPatterns,
    answered,
    asked_questions,
    cluster_called,
    period,
    refuse_unseen,
    say_kept_longer,
    say_past,
)
from retentiond.errors import UsageError
from retentiond.fields import document_of, rfc3339
from retentiond.formatting import say_bytes, say_many, say_name, say_share

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.history.ask.missed import Missed
    from retentiond.history.ask.past import Past
    from retentiond.history.ask.simulate import SimulatedTopic, Simulation


def simulate(  # noqa: PLR0917 - typer hands each option over by its name
    config: ConfigPath = None,
    since: Annotated[str, SINCE] = "30d",
    until: Annotated[
        str | None,
        typer.Option(help="Up to this time: an age or a time; by default now."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Try the policy of this configuration file; by default that of --config.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="IN_FORCE",
            help="Judge only the topics whose policy differs in effect from that of this "
            "configuration file, which was in force in that time.",
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
        typer.Option(
            "--exit-code",
            help="End with 3 if a reader would have missed records, or if the past can't tell.",
        ),
    ] = False,
    min_observed: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="With --exit-code: the past can't tell of a topic that was judged for less than "
            "this, as in 13d: the time observed, gaps taken off, less the tried retention. A topic "
            "that is younger is judged for its whole life.",
        ),
    ] = "0s",
    debug: Debug = False,
) -> None:
    """Try a policy on the recorded past: what it would have deleted, and who would have missed
    records.

    Nothing is deleted. The command reads the history, and asks neither the cluster nor the daemon.
    A topic on trial (dry_run) is tried as if it were deleted from; --exit-code leaves it out.
    A policy with other groups is judged by the recorded commits; what was not recorded counts as
    kept. Without --under-pressure nothing goes sooner because of disk_pressure.

    Example: retentiond simulate --since 14d --set orders:retention.commitoffset.hours=2

    Example: retentiond simulate --policy stricter.yaml --output json | jq .total

    Example: retentiond simulate --against retentiond.yaml --policy new.yaml --exit-code
    """
    if policy is not None and changes:
        raise UsageError("give either --policy or --set: a file of --policy has every setting")
    from retentiond.history.ask.question import tried_policy
    from retentiond.history.ask.replay import Replay
    from retentiond.history.ask.simulate import not_judged
    from retentiond.history.ask.simulate import simulate as simulated

    loaded = load(set_up(config, debug))
    in_force = load(against, "--against") if against else loaded
    asked, is_asked = period(since, until), matching(topic)
    least_ms = duration_ms(min_observed, "--min-observed", "13d")
    tried = tried_policy(load(policy, "--policy", whole=True) if policy else loaded, changes or ())
    tried = replace(tried, under_pressure=under_pressure)

    def question(past: Past, session: SparkSession) -> Simulation:
        refuse_unseen(past, asked, tried.changes)
        asked_about = [
            topic_question
            for topic_question in asked_questions(
                past, is_asked, in_force.policy_for, tried.policy_for
            )
            if against is None or tried.differs(topic_question.topic, in_force)
        ]
        return simulated(Replay(past, session, asked_about), least_ms)

    simulation = answered(loaded, asked, question, tried.longest_ms, cluster)
    entries = [
        entry
        for entry in not_judged(tried, simulation.recorded, topic or ())
        if against is None or tried.differs_in(entry, in_force)
    ]
    doubts = find_doubts(tried, simulation, entries, is_asked, least_ms)
    if tried.config.disk_pressure is not None and not under_pressure:
        say_aside(
            "disk_pressure is left out here: --under-pressure says the most that it could have "
            "deleted"
        )
    show(simulation, output, cluster_called(simulation.past, loaded), doubts)
    if exit_code and doubts.shut(simulation.total.missed):
        raise typer.Exit(SOMETHING_FOUND)


def show(simulation: Simulation, output: Output, cluster: str, doubts: Doubts) -> None:
    from retentiond.history.ask.simulate import SimulatedTopic

    if output is Output.JSON:
        print_json(simulation.past.document() | document_of(doubts) | document_of(simulation))
        return
    printer = Printer()
    if simulation.topics:
        printer.table(
            columns_of(SimulatedTopic),
            simulation.topics,
            lambda topic: "red" if topic.missed else "",
        )
    else:
        printer.say("No topic of that time has a policy that differs in effect.")
    say_kept_longer(printer, simulation.topics)
    say_past(printer, simulation.past, cluster)
    _say_missed(printer, simulation.total.missed)
    say_doubts(printer, simulation.topics, doubts)
    printer.say(_summary(simulation.total))


def _say_missed(printer: Printer, losses: Iterable[Missed]) -> None:
    in_time = sorted(losses, key=lambda loss: (loss.at_ms, loss.topic, loss.partition, loss.group))
    for loss in in_time[:MOST_SHOWN]:
        printer.say(
            f"missed: from {rfc3339(loss.at_ms)} on, group {say_name(loss.group)} stood below the "
            f"start of {loss.topic}-{loss.partition}: at worst at {loss.committed_offset}, where "
            f"it would have been {loss.log_start_offset}: {say_many(loss.records, 'record')}"
        )
    if len(in_time) > MOST_SHOWN:
        printer.say(f"and {len(in_time) - MOST_SHOWN} more: see --output json")


def _summary(total: SimulatedTopic) -> str:
    deleted = f"{say_many(total.simulated_records_deleted, 'record')} deleted"
    if total.mean_bytes is None or total.simulated_mean_bytes is None:
        return f"{deleted}; the bytes of all topics together are not known."
    saved = total.mean_bytes - total.simulated_mean_bytes
    sizes = (
        f"{say_bytes(total.simulated_mean_bytes)} on average, where {say_bytes(total.mean_bytes)}"
    )
    share = f" ({say_share(saved, total.mean_bytes)} less)" if saved > 0 else ""
    return f"{deleted}; {sizes} were there{share}."
