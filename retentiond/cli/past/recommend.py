"""``retentiond recommend``: the shortest retentions that would have done, with a margin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentiond.cli.options import (
    SINCE,
    WRITE_CONFIG,
    ConfigPath,
    Debug,
    Output,
    OutputFormat,
    load,
    matching,
    set_up,
)
from retentiond.cli.output.files import new_file, refuse_unfit
from retentiond.cli.output.printing import TEXT, Column, Printer, columns_of, print_json
from retentiond.cli.past.doubts import Doubt, Doubts, never_judged, say_doubts
from retentiond.cli.past.options import (
    ClusterId,
    TopicPatterns,
    answered,
    asked_questions,
    cluster_called,
    period,
    say_kept_longer,
    say_past,
)
from retentiond.errors import UsageError
from retentiond.fields import document_of, rfc3339
from retentiond.formatting import (
    MINUTE_MS,
    say_about,
    say_count,
    say_many,
    say_name,
    say_names,
    say_verb,
)
from retentiond.kafka.interface import INTERNAL_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.config import Config, TopicPolicy
    from retentiond.history.ask.past import Past
    from retentiond.history.ask.recommend import Recommendation


def recommend(  # noqa: PLR0917 - typer hands each option over by its name
    config: ConfigPath = None,
    since: Annotated[str, SINCE] = "30d",
    topic: TopicPatterns = None,
    cluster: ClusterId = None,
    safety: Annotated[
        float, typer.Option(help="The shortest retention is multiplied by this.", min=1)
    ] = 2,
    output: OutputFormat = Output.TABLE,
    write_config: Annotated[
        Path | None,
        typer.Option(
            WRITE_CONFIG,
            metavar="FILE",
            help="Write a configuration with these retentions, for `simulate --policy` and to take "
            "over from.",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Recommend a consumed retention for each topic, from how far back its readers went.

    It is the shortest one under which every reader of that time would have found its records,
    times --safety. If a topic was observed for less than a week, or for less than three times the
    recommended retention, the recommendation is never shorter than the time since the topic was
    first seen. None exceeds the topic's retention.ms. A topic with only one entry in that time has
    none, and time in which a topic was held does not count as observed. A topic that was observed
    for no longer than its recommended retention is not judged: --write-config puts it on trial
    (dry_run). Nothing is changed.

    Example: retentiond recommend --since 30d --topic 'orders\\..*'

    Example: retentiond recommend --write-config tried.yaml
    """
    from retentiond.history.ask.recommend import never_deletable, without_retention
    from retentiond.history.ask.recommend import recommend as recommended
    from retentiond.history.ask.replay import Replay

    in_force = load(set_up(config, debug))
    asked, is_asked = period(since), matching(topic)
    if write_config is not None:
        refuse_unfit(write_config, WRITE_CONFIG)

    def is_enabled(name: str) -> bool:
        return is_asked(name) and in_force.policy_for(name) is not None

    def question(
        past: Past, session: SparkSession
    ) -> tuple[Past, tuple[Recommendation, ...], frozenset[str]]:
        enabled = asked_questions(past, is_enabled, in_force.policy_for)
        replay = Replay(past, session, [without_retention(question) for question in enabled])
        again = partial(Replay, past, session)
        never = frozenset[str]() if write_config is None else never_deletable(past)
        return past, recommended(replay, safety, again), never

    past, recommendations, never = answered(in_force, asked, question, cluster=cluster)
    if not recommendations:
        raise UsageError(
            "nothing can be recommended: in that time no enabled topic was seen in two entries of "
            "the history; ask for a longer time with --since, or later"
        )
    recommended_for = {advice.topic for advice in recommendations}
    once = sorted({*filter(is_enabled, past.topic_ids["topic"].to_pylist())} - recommended_for)
    show(past, recommendations, safety, output, in_force, once)
    if write_config is not None:
        write(write_config, in_force, recommendations, never, once)


SEEN_ONCE = "it was seen in a single entry"


def _not_judged(
    recommendations: Sequence[Recommendation], once: Iterable[str], config: Config
) -> Doubts:
    """The topics of which the past tells nothing, or nothing good, and why."""
    why = {advice.topic: _why_not(advice) for advice in recommendations}
    why |= dict.fromkeys(once, SEEN_ONCE)
    doubts = [
        Doubt(topic, getattr(config.policy_for(topic), "owner", None), why[topic], topic)
        for topic in sorted(why)
        if why[topic]
    ]
    return Doubts(sorted(doubts, key=lambda doubt: doubt.owner or ""))


def _why_not(advice: Recommendation) -> str:
    """Why the recommended retention is not to be relied on; empty if it is."""
    if missed := advice.simulated.missed:
        groups = say_names(sorted({loss.group for loss in missed}), 3)
        return (
            f"under the recommended retention {groups} would have missed records that were older "
            "by their timestamps than by when they were written, or that retention.ms is too "
            "short for"
        )
    if not advice.judged_ms:
        return never_judged(advice.observed_ms, "the recommended retention")
    return ""


def show(  # noqa: PLR0917 - what the command has found
    past: Past,
    recommendations: Sequence[Recommendation],
    safety: float,
    output: Output,
    config: Config,
    once: Iterable[str],
) -> None:
    """``once``: topics that have no recommendation, because they were seen in a single entry."""
    from retentiond.history.ask.recommend import Recommendation

    not_judged = _not_judged(recommendations, once, config)
    if output is Output.JSON:
        print_json(
            {
                **past.document(),
                "safety": safety,
                "not_judged": [document_of(doubt) for doubt in not_judged.not_judged],
                "topics": [document_of(advice) for advice in recommendations],
            }
        )
        return
    printer = Printer()
    topic, retention, *means = columns_of(Recommendation)
    columns = (topic, retention, Column("BECAUSE", TEXT, _because), *means)
    printer.table(columns, recommendations, lambda advice: "yellow" if advice.is_short else "")
    say_kept_longer(printer, (advice.simulated for advice in recommendations))
    say_past(printer, past, cluster_called(past, config))
    if short := sum(advice.is_short for advice in recommendations):
        printer.say(
            f"{say_count(short)} of {say_many(len(recommendations), 'topic')} "
            f"{say_verb(short, 'was', 'were')} observed for too short a time (less than "
            "7 days, or than three times the retention): nothing shorter than that time is "
            "recommended for them."
        )
    say_doubts(printer, (), not_judged)


def _because(advice: Recommendation) -> str:
    from retentiond.history.ask.recommend import NeedKind

    because = advice.because
    said = []
    if because.why is not NeedKind.NONE_SEEN and because.at_ms is not None:
        what = "went back" if because.why is NeedKind.REWIND else "came late"
        said.append(
            f"group {say_name(because.group or '')} {what} by {say_about(because.ms or 0)} at "
            f"{rfc3339(because.at_ms)}"
        )
    if advice.is_short:
        said.append(_observed(advice))
    if advice.limited_by_ms is not None:
        said.append("limited by retention.ms")
    return "; ".join(said) or "nobody came back"


def _observed(advice: Recommendation) -> str:
    return f"observed for {say_about(advice.observed_ms)} only"


CONFIG_HEAD_LINES = """\
# Retentions that `retentiond recommend` worked out of what was recorded. Try them on the past:
#   retentiond simulate --policy {path}
# Take the entries over into your configuration; it has what else the clients need.
"""


def write(
    path: Path,
    config: Config,
    recommendations: Sequence[Recommendation],
    never: Collection[str],
    once: Iterable[str],
) -> None:
    """Whole minutes. What is not to be relied on is on trial. ``never``: topics that nothing can be
    deleted from, which are left out. ``once``: as in `show`. Raises `UsageError`."""
    from retentiond.config import TopicPolicy, Worthwhile
    from retentiond.config.document import dumped

    entries, left_out = [], [f"# {topic}: left out: {SEEN_ONCE}\n" for topic in once]
    for advice in recommendations:
        policy = config.policy_for(advice.topic)
        if advice.topic in never or advice.topic in INTERNAL_TOPICS:
            left_out.append(
                f"# {advice.topic}: left out, because nothing is ever deleted from it\n"
            )
        elif not advice.written_ms:
            left_out.append(f"# {advice.topic}: left out: its retention.ms is below a minute\n")
        elif isinstance(policy, TopicPolicy):
            why = _why_not(advice)
            trial = f"# on trial: {why}\n" if why else ""
            short = f"# {_observed(advice)}\n" if advice.is_short else ""
            entry = _entry(advice, policy, is_on_trial=bool(why))
            entries.append(trial + short + dumped([entry]))
    if not entries:
        raise UsageError(f"{path} is not written: no topic here can ever be deleted from")
    document: dict[str, Any] = {
        "kafka": {"bootstrap.servers": config.kafka["bootstrap.servers"]},
        "state_dir": str(config.state_dir),
        "limits": {"worthwhile": (config.limits.worthwhile or Worthwhile()).written()},
    }
    if config.disk_pressure is not None:  # the entries keep their pressure retentions
        document["disk_pressure"] = config.disk_pressure.model_dump(mode="json")
    text = "".join([dumped(document), "topics:\n", *left_out, *entries])
    with new_file(path, WRITE_CONFIG) as unfinished:
        unfinished.write_text(CONFIG_HEAD_LINES.format(path=path) + text, encoding="utf-8")


def _entry(advice: Recommendation, policy: TopicPolicy, *, is_on_trial: bool) -> dict[str, Any]:
    from retentiond.config.settings import entry_document

    pressure_ms = policy.pressure_retention_ms
    if pressure_ms is not None:  # a longer one would be refused
        pressure_ms = min(pressure_ms, advice.written_ms)
    dry_run = policy.dry_run or is_on_trial
    tried = replace(policy, enabled=True, pressure_retention_ms=pressure_ms, dry_run=dry_run)
    entry = entry_document(advice.topic, tried)
    del entry["retention.commitoffset.ms"]
    return entry | {"retention.commitoffset.minutes": advice.written_ms // MINUTE_MS}
