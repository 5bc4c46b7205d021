"""``retentiond simulate``: what a policy would have deleted in the past, and what it had cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat, load, set_up
from retentiond.cli.past.options import (
    TopicPatterns,
    answered,
    asked_replay,
    matching,
    period,
    refuse_unseen,
)
from retentiond.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.history.ask.past import Past
    from retentiond.history.ask.simulate import Simulation


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
    topic: TopicPatterns = None,
    output: OutputFormat = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Try a policy on the recorded past: what it would have deleted, and who would have missed it.

    Nothing is deleted, and neither the cluster nor the daemon is asked. A policy with other groups
    is judged by the recorded commits; what the record does not tell counts as kept.

    Example: retentiond simulate --since 14d --set orders:retention.commitoffset.hours=2

    Example: retentiond simulate --policy stricter.yaml --output json | jq .total
    """
    path = set_up(context, config, debug)
    if policy is not None and changes:
        raise UsageError("give either --policy or --set: a file of --policy has every setting")
    from retentiond.cli.output.simulate import show
    from retentiond.history.ask.question import tried_policy
    from retentiond.history.ask.simulate import simulate as simulated

    in_force = load(path)
    asked, is_asked = period(since, until), matching(topic)
    tried = tried_policy(load(policy, "--policy") if policy else in_force, changes or ())

    def question(past: Past, session: SparkSession) -> Simulation:
        refuse_unseen(past, asked, tried.changes)
        return simulated(
            asked_replay(past, session, is_asked, tried.policy_for, in_force.policy_for)
        )

    show(answered(in_force, asked, question, tried.longest_ms), output)
