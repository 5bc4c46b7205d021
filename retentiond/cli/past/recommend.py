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
from retentiond.cli.output.printing import FIGURE, NAME, TEXT, Column, Printer, print_json
from retentiond.cli.past.doubts import never_judged
from retentiond.cli.past.options import (
    MOST_SHOWN,
    SAFETY,
    ClusterId,
    TopicPatterns,
    answered,
    asked_questions,
    past_document,
    period,
    say_bytes_if_known,
    say_kept_longer,
    say_past,
    say_retention,
)
from retentiond.errors import UsageError
from retentiond.fields import rfc3339
from retentiond.formatting import MINUTE_MS, say_about, say_count, say_many, say_name, say_verb
from retentiond.kafka.interface import INTERNAL_TOPICS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from retentiond.config import Config, TopicPolicy
    from retentiond.history.ask.past import Past
    from retentiond.history.ask.recommend import Recommendation


def recommend(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    config: ConfigPath = None,
    since: Annotated[str, SINCE] = "30d",
    topic: TopicPatterns = None,
    cluster: ClusterId = None,
    safety: Annotated[
        float, typer.Option(help="The shortest retention is multiplied by this.", min=1)
    ] = SAFETY,
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
    path = set_up(context, config, debug)
    from retentiond.history.ask.recommend import never_deletable, without_retention
    from retentiond.history.ask.recommend import recommend as recommended
    from retentiond.history.ask.replay import Replay

    in_force = load(path)
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
    found: Sequence[Recommendation], once: Iterable[str], config: Config
) -> list[dict[str, str | None]]:
    """The topics of which the past tells nothing, and why; as JSON has them."""
    why = {
        **{
            topic.topic: never_judged(topic.observed_ms, topic.retention_ms, "recommended")
            for topic in found
            if not topic.judged_ms
        },
        **dict.fromkeys(once, SEEN_ONCE),
    }
    owners = {topic: getattr(config.policy_for(topic), "owner", None) for topic in why}
    return [
        {"entry": topic, "owner": owners[topic], "why": why[topic]}
        for topic in sorted(why, key=lambda topic: (owners[topic] or "", topic))
    ]


def show(  # noqa: PLR0917 - what the command has found
    past: Past,
    found: Sequence[Recommendation],
    safety: float,
    output: Output,
    config: Config,
    once: Iterable[str] = (),
) -> None:
    """``once``: topics that have no recommendation, because they were seen in a single entry."""
    not_judged = _not_judged(found, once, config)
    if output is Output.JSON:
        print_json(
            {
                **past_document(past),
                "safety": safety,
                "not_judged": not_judged,
                "topics": [_document(advice) for advice in found],
            }
        )
        return
    printer = Printer()
    printer.table(COLUMNS, found, lambda advice: "yellow" if advice.is_short else "")
    say_kept_longer(printer, (advice.simulated for advice in found))
    say_past(printer, past)
    short = [advice for advice in found if advice.is_short]
    if short:
        printer.say(
            f"{say_count(len(short))} of {say_many(len(found), 'topic')} "
            f"{say_verb(len(short), 'was', 'were')} observed for too short a time (less than "
            "7 days, or than three times the retention): nothing shorter than that time is "
            "recommended for them."
        )
    for never in not_judged[:MOST_SHOWN]:
        of = f" (owner {say_name(never['owner'])})" if never["owner"] else ""
        printer.say(f"not judged: {never['entry']}{of}: {never['why']}")
    if len(not_judged) > MOST_SHOWN:
        printer.say(f"and {len(not_judged) - MOST_SHOWN} more: see --output json")


def _document(advice: Recommendation) -> dict[str, Any]:
    because: dict[str, Any] = {"kind": advice.because.why.value}
    if advice.because.at_ms is not None:
        because |= {
            "group": advice.because.group,
            "at": rfc3339(advice.because.at_ms),
            "ms": advice.because.ms,
        }
    return {
        "topic": advice.topic,
        "retention_ms": advice.retention_ms,
        "limited_by_retention_ms": advice.limited_by_ms is not None,
        "because": because,
        "observed_ms": advice.observed_ms,
        "judged_ms": advice.judged_ms,
        "observed_enough": not advice.is_short,
        "simulated_mean_bytes": advice.simulated.simulated_mean_bytes,
        "mean_bytes": advice.simulated.mean_bytes,
    }


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


COLUMNS: tuple[Column[Recommendation], ...] = (
    Column("TOPIC", NAME, lambda advice: advice.topic),
    Column(
        "RETENTION", FIGURE, lambda advice: say_retention(_retention_minutes(advice) * MINUTE_MS)
    ),
    Column("BECAUSE", TEXT, _because),
    Column("MEAN", FIGURE, lambda advice: say_bytes_if_known(advice.simulated.mean_bytes)),
    Column(
        "SIMULATED MEAN",
        FIGURE,
        lambda advice: say_bytes_if_known(advice.simulated.simulated_mean_bytes),
    ),
)


def _retention_minutes(advice: Recommendation) -> int:
    """Rounded up, but not beyond retention.ms."""
    if advice.limited_by_ms is not None:
        return advice.limited_by_ms // MINUTE_MS
    return -(-advice.retention_ms // MINUTE_MS)


CONFIG_HEAD_LINES = """\
# Retentions that `retentiond recommend` worked out of what was recorded. Try them on the past:
#   retentiond simulate --policy {path}
# Take the entries over into your configuration; it has what else the clients need.
"""


def write(
    path: Path,
    config: Config,
    found: Sequence[Recommendation],
    never: Collection[str],
    once: Iterable[str] = (),
) -> None:
    """Whole minutes. What the past tells nothing of is on trial. ``never``: topics that nothing can
    be deleted from, which are left out. ``once``: as in `show`. Raises `UsageError`."""
    from retentiond.config import TopicPolicy, Worthwhile
    from retentiond.config.document import dumped

    entries, left_out = [], [f"# {topic}: left out: {SEEN_ONCE}\n" for topic in once]
    not_judged = {topic["entry"]: topic["why"] for topic in _not_judged(found, (), config)}
    for advice in found:
        policy = config.policy_for(advice.topic)
        if advice.topic in never or advice.topic in INTERNAL_TOPICS:
            left_out.append(
                f"# {advice.topic}: left out, because nothing is ever deleted from it\n"
            )
        elif not _retention_minutes(advice):
            left_out.append(f"# {advice.topic}: left out: its retention.ms is below a minute\n")
        elif isinstance(policy, TopicPolicy):
            why = not_judged.get(advice.topic)
            trial = f"# on trial: {why}\n" if why else ""
            short = f"# {_observed(advice)}\n" if advice.is_short else ""
            entries.append(trial + short + dumped([_entry(advice, policy)]))
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


def _entry(advice: Recommendation, policy: TopicPolicy) -> dict[str, Any]:
    from retentiond.config.settings import entry_document

    minutes = _retention_minutes(advice)
    pressure_ms = policy.pressure_retention_ms
    if pressure_ms is not None:  # a longer one would be refused
        pressure_ms = min(pressure_ms, minutes * MINUTE_MS)
    dry_run = policy.dry_run or not advice.judged_ms
    policy = replace(policy, enabled=True, pressure_retention_ms=pressure_ms, dry_run=dry_run)
    entry = entry_document(advice.topic, policy)
    del entry["retention.commitoffset.ms"]
    return entry | {"retention.commitoffset.minutes": minutes}
