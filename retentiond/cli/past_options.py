"""What the commands about recorded history share: their options, and how they come to the past."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from retentiond.cli.completion import topics
from retentiond.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.config import Config
    from retentiond.history.past import Past
    from retentiond.history.question import PolicyFor
    from retentiond.history.replay import Replay

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="REGEX",
        help="Only topics whose whole name matches this regular expression; may be given several "
        "times.",
        autocompletion=topics,
    ),
]


class Period(NamedTuple):
    since_ms: int
    until_ms: int


def period(since: str, until: str | None = None) -> Period:
    """Raises `UsageError`."""
    from retentiond.cli.audit import epoch_ms

    now_ms = time.time_ns() // 1_000_000
    found = Period(
        epoch_ms(since, "--since", now_ms),
        now_ms if until is None else epoch_ms(until, "--until", now_ms),
    )
    if found.since_ms >= found.until_ms:
        raise UsageError(
            "--since lies after --until, or at the same time: there is nothing between"
        )
    return found


def matching(patterns: Sequence[str] | None) -> Callable[[str], bool]:
    """Whether a topic is asked for. Raises `UsageError`."""
    from retentiond.config.values import Pattern

    def compiled(pattern: str) -> Pattern:
        try:
            return Pattern(pattern)
        except ValueError as error:
            raise UsageError(
                f"--topic {pattern!a} is no regular expression of RE2's syntax ({error}); "
                "give a topic's name, or a pattern such as 'stage\\..*'"
            ) from error

    every = [compiled(pattern) for pattern in patterns or ()]
    return lambda topic: not every or any(each.fullmatch(topic) for each in every)


@contextmanager
def past_of(
    config: Config, asked: Period, lookback_ms: int = 0
) -> Iterator[tuple[Past, SparkSession]]:
    """What was recorded of that time, and a session to ask; the caller's work is done within.
    ``lookback_ms``: the longest retention, to know how old the records are that it begins with."""
    from retentiond.cli.output.plan import progress
    from retentiond.history.past import open_past
    from retentiond.history.session import sessions_for
    from retentiond.words import say_names

    with progress("reading the history"):
        past = open_past(
            history_place(config),
            config.spark.master,
            *asked,
            lookback_ms=lookback_ms,
        )
        if past.other_clusters:
            print(
                f"retentiond: the history is that of cluster {past.cluster_id}, whose entry is the "
                f"newest; entries of {say_names(past.other_clusters, 3)} are left out",
                file=sys.stderr,
            )
        sessions = sessions_for(config.spark)
        try:
            with sessions.use() as session:
                yield past, session
        finally:
            sessions.stop()


def history_place(config: Config) -> str:
    """Where the configuration says that the history is."""
    return config.history_path


def asked_replay(
    past: Past,
    session: SparkSession,
    is_asked: Callable[[str], bool],
    policy_for: PolicyFor,
    in_force: PolicyFor,
) -> Replay:
    """Raises `UsageError` where no topic is asked about."""
    from retentiond.history.question import questions
    from retentiond.history.replay import Replay

    topics = {topic for topic in past.topic_ids["topic"].to_pylist() if is_asked(topic)}
    if not topics:
        raise UsageError(
            "the history has no such topic at that time; --topic is a regular expression that a "
            "topic's whole name matches"
        )
    return Replay(past, session, questions(topics, policy_for, in_force))
