"""What the commands about recorded history share.

Their options, how they come to the past, and how they say which part of it they know.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from retentiond.cli.options import (
    EMPTY_SPAN,
    INTERRUPTED,
    ONLY_TOPICS,
    TOPIC_IS_A_PATTERN,
    epoch_ms,
)
from retentiond.cli.output.streams import say_aside
from retentiond.clock import now_ms
from retentiond.errors import HistoryUnavailable, UsageError
from retentiond.fields import rfc3339
from retentiond.formatting import (
    say_about,
    say_many,
    say_name,
    say_names,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.cli.output.printing import Printer
    from retentiond.config import Config
    from retentiond.history.ask.past import AskedCluster, Past
    from retentiond.history.ask.question import PolicyFor, TopicQuestion
    from retentiond.history.ask.rows import Tasks
    from retentiond.history.ask.simulate import SimulatedTopic
    from retentiond.history.table import HistoryTable

T = TypeVar("T")

PROGRESS_S = 0.25
"""How often the bar moves."""

TopicPatterns = Annotated[
    list[str] | None, typer.Option("--topic", metavar="REGEX", help=ONLY_TOPICS)
]


ClusterId = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ID",
        help="Answer for the cluster of this id, where several share history.path; by default for "
        "the one that state_dir is about.",
    ),
]


class Period(NamedTuple):
    """``options``: those that say which it is."""

    since_ms: int
    until_ms: int
    options: str


def period(since: str, until: str | None = None) -> Period:
    """Raises `UsageError`."""
    now = now_ms()
    chosen = Period(
        epoch_ms(since, "--since", now),
        now if until is None else epoch_ms(until, "--until", now),
        "--since" if until is None else "--since or --until",
    )
    if chosen.since_ms >= chosen.until_ms:
        raise UsageError(EMPTY_SPAN if until else "--since lies in the future")
    return chosen


def answered(
    config: Config,
    span: Period,
    question: Callable[[Past, SparkSession], T],
    lookback_ms: int = 0,
    cluster: str | None = None,
) -> T:
    """What the question finds in what was recorded of that time. ``lookback_ms``: the longest
    retention, to know how old the records are that it begins with. ``cluster``: that of --cluster.

    It is asked in a thread of its own: Ctrl-C ends the wait, whatever Spark or a store is at. Then
    nobody waits for that thread any more, and the process ends here.
    """
    from retentiond.history.ask.past import history_at
    from retentiond.history.ask.rows import divide, sessions_for, tasks_of, workers_explained
    from retentiond.spark.session import SPARK_FAILURES

    sessions = sessions_for(config.spark)
    tasks: list[Callable[[], Tasks]] = []

    def find() -> T:
        table = history_at(config.history_path)
        sessions.begin()
        try:
            while True:
                past = _opened(table, config, span, lookback_ms, cluster)
                try:
                    with sessions.use() as session, workers_explained(table.place):
                        tasks.append(tasks_of(session, config.spark.master))
                        divide(session, config.spark, past.row_count)
                        return question(past, session)
                except (*SPARK_FAILURES, HistoryUnavailable):
                    if not table.find_damage():  # else without the file that Spark has met
                        raise
        finally:
            sessions.stop()

    try:
        work = ThreadPoolExecutor(1, "question").submit(find)
        _await(work, tasks)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        logging.disable()  # what was cut off in the middle has nothing to say
        sessions.interrupt()
        say_aside("interrupted")
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    return work.result()


def _opened(
    table: HistoryTable, config: Config, span: Period, lookback_ms: int, cluster: str | None
) -> Past:
    from retentiond.history.ask.past import open_past

    since_ms, until_ms, options = span
    of = asked_cluster(config, cluster)
    try:
        past = open_past(table, config.spark.master, since_ms, until_ms, lookback_ms, options, of)
    finally:
        for path, why in table.damaged.items():
            where = f"{table.place.rstrip('/')}/{path}"
            say_aside(f"{where} is left out: {why}; its time is a gap")
    if past.other_clusters:
        say_aside(
            f"the answer is about cluster {say_name(past.cluster_id)}; entries of "
            f"{say_names(past.other_clusters, 3)} are left out"
        )
    return past


def asked_cluster(config: Config, given: str | None) -> AskedCluster | None:
    """The cluster of --cluster, or else the one that state_dir is about. None if neither tells."""
    from retentiond.history.ask.past import AskedCluster
    from retentiond.state.groups_lookup import cluster_of

    if given is not None:
        return AskedCluster(given, "that of --cluster")
    of_state = cluster_of(config.state_dir)
    if of_state is None:
        return None
    return AskedCluster(of_state, f"that of state_dir {config.state_dir}")


def _await(work: Future[T], tasks: Sequence[Callable[[], Tasks]]) -> None:
    """Waits, with a bar on stderr if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        wait([work])
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("reading the history", total=None)
        while not wait([work], PROGRESS_S).done:
            done, known = tasks[0]() if tasks else (0, 0)
            progress.update(bar, completed=done, total=known or None)


def asked_questions(
    past: Past,
    is_asked: Callable[[str], bool],
    in_force: PolicyFor,
    tried: PolicyFor | None = None,
) -> tuple[TopicQuestion, ...]:
    """``tried``: in place of the policy that is in force. Raises `UsageError` where no topic is
    asked about."""
    from retentiond.history.ask.question import questions

    topics = {topic for topic in past.topic_ids["topic"].to_pylist() if is_asked(topic)}
    if not topics:
        raise UsageError(f"the history has no such topic at that time; {TOPIC_IS_A_PATTERN}")
    return questions(topics, tried or in_force, in_force)


def refuse_unseen(past: Past, span: Period, changed: Iterable[str]) -> None:
    """``changed``: topics of --set. Without a record of one, the answer would be that of the
    unchanged policy. Raises `UsageError`."""
    recorded = set(past.topic_ids["topic"].to_pylist())
    if unseen := [topic for topic in changed if topic not in recorded]:
        raise UsageError(
            f"--set {say_names(unseen, 3)}: the history has no such topic at that time, so the "
            f"setting would change nothing; check the name, or choose another {span.options}"
        )


MOST_SHOWN = 20
"""Lines of one kind."""


def cluster_called(past: Past, config: Config) -> str:
    """The operator's name for the answer's cluster if it is that of state_dir, which it is not
    where --cluster asks for another one; else its id."""
    from retentiond.state.groups_lookup import cluster_of

    name = config.metrics.cluster
    is_own = cluster_of(config.state_dir) == past.cluster_id
    return name if is_own and name else past.cluster_id


def say_past(printer: Printer, past: Past, cluster: str) -> None:
    """Whose it is, what there is to judge by, and what is not. ``cluster``: what it is called."""
    timeline = past.timeline
    period = timeline.period
    printer.say(
        f"Cluster {say_name(cluster)}: {say_many(len(period), 'entry', 'entries')} from "
        f"{rfc3339(period[0].entry.at_ms)} to {rfc3339(period[-1].entry.at_ms)}."
    )
    for gap in timeline.gaps[:MOST_SHOWN]:
        printer.say(
            f"no entries for {say_about(gap.until_ms - gap.from_ms)}, from {rfc3339(gap.from_ms)} "
            f"to {rfc3339(gap.until_ms)}: nothing is known of that time"
        )
    if len(timeline.gaps) > MOST_SHOWN:
        printer.say(f"and {say_many(len(timeline.gaps) - MOST_SHOWN, 'gap')} more")


def say_kept_longer(printer: Printer, topics: Iterable[SimulatedTopic]) -> None:
    """Why the simulated bytes of some topics are above those that were there."""
    longer = sum(
        (topic.simulated_mean_bytes or 0) > topic.mean_bytes
        for topic in topics
        if topic.mean_bytes is not None
    )
    if longer:
        printer.say(
            f"SIMULATED MEAN is above MEAN on {say_many(longer, 'topic')}: retentiond deleted "
            "records there in that time which the tried retention would have kept longer."
        )
