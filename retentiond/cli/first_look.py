"""The first looks of ``retentiond plan``: at any cluster without a configuration
(``--bootstrap-server``), and at the topics that no entry of one is about (``--unmanaged``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from retentiond.cli.options import (
    OWNER,
    TOPIC_IS_A_PATTERN,
    WRITE_CONFIG,
    Output,
    client_settings,
    consumed_retention_ms,
    load,
    matching,
    one_engine,
)
from retentiond.cli.output.files import new_file, refuse_unfit
from retentiond.cli.output.first_look import show_first_look
from retentiond.cli.output.printing import printer, say
from retentiond.clock import now_ms
from retentiond.config import Config
from retentiond.config.reader import leads_to
from retentiond.cycle import PlannedCycle, plan_cycle
from retentiond.engine import Engine
from retentiond.errors import UsageError
from retentiond.formatting import (
    DAY_MS,
    format_duration,
    printable,
    rfc3339,
    say_count,
    say_duration,
    say_many,
)
from retentiond.gather.offsets import retention_offsets
from retentiond.kafka.interface import INTERNAL_TOPICS, Kafka, LogRange
from retentiond.kafka.settings.properties import PROPERTIES, ClientSettings
from retentiond.memory.remembered import readers_by_topic
from retentiond.snapshot import Snapshot, partitions_of
from retentiond.state.groups_lookup import recall
from retentiond.state.state import StoredState
from retentiond.tell.first_look import (
    FirstLook,
    Readers,
    first_look,
    kafka_section,
    unmanaged_look,
)
from retentiond.tell.report import CycleReport
from retentiond.tell.starting_config import Origin, environment_of, policy_file, starting_config
from retentiond.tell.unseen_readers import unlimited_topics, unseen_readers

UNASSIGNED = "unassigned"
"""The owner of a policy file for which nobody has said who it is."""


class FirstLookOptions(NamedTuple):
    """What both looks are asked for. ``include_unlimited``: topics without a limit to their
    retention are enabled as others are. ``owner``: of the policy file."""

    consumed_retention: str | None
    topics: Sequence[str]
    write_config: Path | None
    output: Output
    include_unlimited: bool = False
    owner: str | None = None


def take_first_look(
    servers: str, command_config: Path | None, wanted: FirstLookOptions
) -> CycleReport:
    """Looks at a cluster, shows it and writes a configuration, if one is asked for.

    Raises `UsageError` and `ConfigError` before anything is asked of the cluster.
    """
    retention_ms = consumed_retention_ms(wanted.consumed_retention)
    _refuse_unfit(wanted)
    settings = client_settings(servers, command_config)
    matching(wanted.topics)  # refuses what is no pattern
    config = first_look(settings, wanted.topics, retention_ms)
    looked, every_topic, idle = _looked(config, settings)
    if wanted.topics and not looked.report.plan.rows:
        raise _no_such_topic(wanted)
    look = _look(looked, every_topic, idle, retention_ms, wanted)
    show_first_look(look, wanted.output)
    if (path := wanted.write_config) is not None:
        if not look.topics:
            raise UsageError(f"the cluster has no topic, so there is nothing to write to {path}")
        origin = Origin(
            looked.snapshot.cluster_id,
            kafka_section(settings),
            sorted(settings.confluent.keys() - PROPERTIES.keys()),
            _now(),
        )
        _write(path, starting_config(look, origin))
        if wanted.output is Output.TABLE:
            expects = environment_of(origin.kafka)
            expected = f" It expects {' and '.join(expects)} in the environment." if expects else ""
            say(
                printer(),
                f"{path} is a configuration to start from, which deletes nothing yet.{expected} "
                f"Next: retentiond check --config {path}",
            )
    return looked.report


def look_at_unmanaged(path: Path, wanted: FirstLookOptions) -> CycleReport | None:
    """Looks at the topics that no entry of a configuration is about, shows them and writes a policy
    file, if one is asked for. None where there is no such topic, and a table would be empty.

    Raises `UsageError` and `ConfigError` before anything is asked of the cluster.
    """
    if wanted.owner is not None and not (wanted.owner.strip() and wanted.owner.isprintable()):
        raise UsageError(f"{OWNER} can't be shown; say in words who is asked about these topics")
    config = load(path, none_yet=True)
    retention_ms = _retention_ms(config, wanted)
    is_asked = matching(wanted.topics)
    _refuse_unfit(wanted)
    with one_engine(config) as engine:
        every_topic = frozenset(engine.context.kafka.topic_names())
        unmanaged = {
            name
            for name in every_topic - INTERNAL_TOPICS
            if is_asked(name) and not config.matches(name)
        }
        if not unmanaged:
            nothing = _nothing_to_look_at(path, every_topic, is_asked, wanted)
            if wanted.output is not Output.JSON:
                say(printer(), printable(nothing))
                return None
        looked = _looked_outside(engine, config, unmanaged, retention_ms)
        idle = _idle_groups(looked.snapshot, engine.context.kafka)
    look = _look(looked, every_topic, idle, retention_ms, wanted)
    required = (config.defaults.groups and config.defaults.groups.required) or ()
    look = replace(
        look,
        outside=str(path),
        required=frozenset(required),
        pressure_ms=config.defaults.pressure_retention_ms,
        is_dry=config.dry_run,
    )
    show_first_look(look, wanted.output)
    if wanted.write_config is not None:
        owner = wanted.owner or UNASSIGNED
        _write(wanted.write_config, policy_file(look, owner, looked.snapshot.cluster_id, _now()))
        if wanted.output is Output.TABLE:
            _say_policy_file(wanted.write_config, path, config, look, owner)
    return looked.report


def _retention_ms(config: Config, wanted: FirstLookOptions) -> int:
    """What is asked for, else what the configuration's defaults say, else that of a first look.
    Raises `UsageError` where the pressure retention of the defaults, which a policy file would
    inherit, is longer."""
    retention_ms = config.defaults.consumed_retention_ms
    if wanted.consumed_retention is not None or retention_ms is None:
        retention_ms = consumed_retention_ms(wanted.consumed_retention)
    pressure_ms = config.defaults.pressure_retention_ms
    if pressure_ms is not None and pressure_ms > retention_ms:
        raise UsageError(
            f"a consumed retention of {say_duration(retention_ms) or 'none'} is shorter than the "
            f"pressure retention in the configuration's defaults; give --consumed-retention "
            f"{format_duration(pressure_ms)} or more"
        )
    return retention_ms


def _refuse_unfit(wanted: FirstLookOptions) -> None:
    if wanted.write_config is not None:
        refuse_unfit(wanted.write_config, WRITE_CONFIG)


def _nothing_to_look_at(
    path: Path,
    every_topic: frozenset[str],
    is_asked: Callable[[str], bool],
    wanted: FirstLookOptions,
) -> str:
    """The good news in a sentence. Raises `UsageError` where it is none."""
    if wanted.topics and not any(map(is_asked, every_topic - INTERNAL_TOPICS)):
        raise _no_such_topic(wanted)
    asked = f" that is called {' or '.join(wanted.topics)}" if wanted.topics else ""
    nothing = f"every topic of the cluster{asked} has an entry in {path}"
    if wanted.write_config is not None:
        raise UsageError(f"{nothing}, so there is nothing to write to {wanted.write_config}")
    return f"Nothing is unmanaged: {nothing}."


def _no_such_topic(wanted: FirstLookOptions) -> UsageError:
    return UsageError(
        f"no topic of the cluster is called {' or '.join(wanted.topics)}, Kafka's own left "
        f"aside; {TOPIC_IS_A_PATTERN}"
    )


def _looked(
    config: Config, settings: ClientSettings
) -> tuple[PlannedCycle, frozenset[str], frozenset[str]]:
    """The plan; the names of all topics, also of those that were not asked for; the idle groups."""
    with one_engine(config, settings) as engine:
        engine.warm_up()
        looked = plan_cycle(engine.context, config, StoredState())
        kafka = engine.context.kafka
        return looked, kafka.topic_names(), _idle_groups(looked.snapshot, kafka)


def _looked_outside(
    engine: Engine, config: Config, unmanaged: Iterable[str], retention_ms: int
) -> PlannedCycle:
    """The plan of topics that no entry is about; whoever is remembered holds them, too."""
    engine.warm_up()
    remembered = StoredState(recall(config.state_dir))
    look = unmanaged_look(config, unmanaged, retention_ms)
    return plan_cycle(engine.context, look, remembered)


def _look(
    looked: PlannedCycle,
    every_topic: frozenset[str],
    idle: frozenset[str],
    retention_ms: int,
    wanted: FirstLookOptions,
) -> FirstLook:
    unseen = unseen_readers(every_topic, looked.snapshot.groups)
    if not wanted.include_unlimited:
        unseen = replace(unseen, unlimited=unlimited_topics(looked.snapshot.topics))
    return FirstLook(
        looked.report,
        retention_ms,
        unseen,
        _readers(looked.snapshot),
        idle=idle,
        forced_retention_ms={
            each.name: each.forced_retention_ms
            for each in looked.snapshot.topics
            if each.forced_retention_ms is not None
        },
    )


def _readers(snapshot: Snapshot) -> Readers:
    """Each topic's groups that count, by name."""
    names = {group.group_id: group.name for group in snapshot.groups}
    return {
        topic.name: [
            name for name in {names[group] for group in groups} if not topic.policy.excludes(name)
        ]
        for position, groups in readers_by_topic(snapshot).items()
        for topic in (snapshot.topics[position],)
    }


def _idle_groups(snapshot: Snapshot, kafka: Kafka) -> frozenset[str]:
    """The groups without a live member that were not seen to move within a day. One has moved if an
    earlier cycle saw that, or if it has read a record of the last day."""
    names = partitions_of(snapshot)
    logs = {
        at: LogRange(each.log_start_offset, each.high_watermark)
        for at, each in zip(names, snapshot.partitions, strict=True)
        if each.log_start_offset is not None and each.high_watermark is not None
    }
    found = retention_offsets(kafka, dict.fromkeys(logs, DAY_MS), snapshot.taken_at_ms, logs)
    first_of_day = np.array(
        [at if isinstance(at := found.get(name), int) else math.inf for name in names]
    )
    dated = snapshot.dated
    commits = snapshot.commits.select(["group_id", "partition_id", "offset"]).drop_null()
    is_recent = dated["moved_at_ms"].to_numpy() >= snapshot.taken_at_ms - DAY_MS
    moved = {*dated["group_id"].to_numpy()[is_recent].tolist()}
    if len(commits):
        has_read = commits["offset"].to_numpy() > first_of_day[commits["partition_id"].to_numpy()]
        moved |= {*commits["group_id"].to_numpy()[has_read].tolist()}
    return frozenset(
        group.name
        for position, group in enumerate(snapshot.groups)
        if not (group.is_live or position in moved)
    )


def _now() -> str:
    return rfc3339(now_ms())


def _write(path: Path, text: str) -> None:
    with new_file(path, WRITE_CONFIG) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _say_policy_file(
    path: Path, configuration: Path, config: Config, look: FirstLook, owner: str
) -> None:
    enabled = sum(look.why_not_enabled(topic) is None for topic in look.topics)
    if leads_to(config, configuration.parent, path):
        then = f"policies in {configuration} leads to it, so the next reload takes it"
        then += "." if config.dry_run else ", on trial: nothing is deleted from its topics yet."
    else:
        then = f"It has no effect until policies in {configuration} leads to it."
    say(
        printer(),
        printable(
            f"{path} is a policy file of {say_many(len(look.topics), 'topic')}, "
            f"{say_count(enabled)} of them enabled, owner {owner}. {then} "
            f"Next: retentiond check --config {configuration}"
        ),
    )
