"""``retentiond recommend``: the shortest retentions that would have done, with a margin."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import ConfigPath, Debug, Output, OutputFormat, load, set_up
from retentiond.cli.past.options import TopicPatterns, answered, asked_replay, matching, period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.history.ask.past import Past
    from retentiond.history.ask.recommend import Recommendation


def recommend(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    since: Annotated[
        str, typer.Option(help="By what was recorded from this time on: an age or a time.")
    ] = "30d",
    topic: TopicPatterns = None,
    safety: Annotated[
        float, typer.Option(help="How many times the shortest retention is recommended.", min=1)
    ] = 2,
    output: OutputFormat = Output.TABLE,
    write_config: Annotated[
        Path | None,
        typer.Option(
            "--write-config",
            metavar="FILE",
            help="Write a configuration with these retentions, for `simulate --policy` and to take "
            "over from.",
            show_default=False,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Recommend a consumed retention for each topic, by what its readers came back for.

    It is the shortest under which every reader of that time would have found what it came for,
    times --safety. Nothing is changed.

    Example: retentiond recommend --since 30d --topic 'orders\\..*'

    Example: retentiond recommend --write-config tried.yaml
    """
    path = set_up(context, config, debug)
    from retentiond.cli.output.recommend import refuse_to_overwrite, show, write
    from retentiond.history.ask.recommend import never_deletable, without_retention
    from retentiond.history.ask.recommend import recommend as recommended
    from retentiond.history.ask.replay import Replay

    in_force = load(path)
    asked, is_asked = period(since), matching(topic)
    if write_config is not None:
        refuse_to_overwrite(write_config)

    def is_enabled(name: str) -> bool:
        return is_asked(name) and in_force.policy_for(name) is not None

    def question(
        past: Past, session: SparkSession
    ) -> tuple[Past, tuple[Recommendation, ...], frozenset[str]]:
        enabled = asked_replay(
            past, session, is_enabled, in_force.policy_for, in_force.policy_for
        ).questions
        replay = Replay(past, session, [without_retention(each) for each in enabled])
        again = partial(Replay, past, session)
        never = frozenset[str]() if write_config is None else never_deletable(past)
        return past, recommended(replay, safety, again), never

    past, found, never = answered(in_force, asked, question)
    show(past, found, safety, output)
    if write_config is not None:
        write(write_config, in_force, found, never)
