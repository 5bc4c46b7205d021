"""The first looks of ``retentiond plan``: at any cluster without a configuration
(``--bootstrap-server``), and at the topics that no entry of one is about (``--unmanaged``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from retentiond.cli.output.printing import Printer
from retentiond.clock import now_ms
from retentiond.config import Config
from retentiond.config.policy_files import leads_to
from retentiond.cycle import PlannedCycle, plan_cycle
from retentiond.errors import UsageError
from retentiond.fields import rfc3339
from retentiond.formatting import (
    DAY_MS,
    format_duration,
    printable,
    say_count,
    say_duration,
    say_many,
)
from retentiond.gather.offsets import retention_offsets
from retentiond.kafka.interface import INTERNAL_TOPICS, Kafka, LogRange
from retentiond.kafka.settings.properties import PROPERTIES, translate
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
from retentiond.tell.starting_config import (
    Origin,
    environment_of,
    policy_file,
    starting_config,
)
from retentiond.tell.unseen_readers import unlimited_topics, unseen_readers

UNASSIGNED = "unassigned"
"""The owner of a policy file for which nobody has said who it is."""


class FirstLookOptions(NamedTuple):
    """``servers`` and ``command_config``: the cluster of a look without a configuration.
    ``configuration``: the file of a look beside one. ``include_unlimited``: topics without a limit
    to their retention are enabled as others are. ``owner``: of the policy file."""

    servers: str | None
    command_config: Path | None
    configuration: Path
    consumed_retention: str | None
    topics: Sequence[str]
    write_config: Path | None
    output: Output
    include_unlimited: bool = False
    owner: str | None = None


def take_first_look(wanted: FirstLookOptions) -> CycleReport | None:
    """Looks at the topics of a cluster, shows them and writes a file, if one is asked for. Without
    ``servers`` these are the topics that no entry of the configuration is about. None where there
    is no such topic, and a table would be empty.

    Raises `UsageError` and `ConfigError` before anything is asked of the cluster.
    """
    if wanted.owner is not None and not (wanted.owner.strip() and wanted.owner.isprintable()):
        raise UsageError(f"{OWNER} can't be shown; say in words who is asked about these topics")
    if wanted.write_config is not None:
        refuse_unfit(wanted.write_config, WRITE_CONFIG)
    is_asked, kept = matching(wanted.topics), StoredState()
    if wanted.servers is not None:
        beside = None
        retention_ms = consumed_retention_ms(wanted.consumed_retention)
        settings = client_settings(wanted.servers, wanted.command_config)
        config = first_look(settings, wanted.topics, retention_ms)
    else:
        beside = config = load(wanted.configuration, none_yet=True)
        retention_ms = _retention_ms(config, wanted)
        settings = translate(config.kafka)
    with one_engine(config, settings) as engine:
        kafka = engine.context.kafka
        every_topic = frozenset(kafka.topic_names())
        asked = {name for name in every_topic - INTERNAL_TOPICS if is_asked(name)}
        if wanted.topics and not asked:
            raise UsageError(
                f"no topic of the cluster is called {' or '.join(wanted.topics)}, Kafka's own left "
                f"aside; {TOPIC_IS_A_PATTERN}"
            )
        if beside is not None:
            file = wanted.write_config
            asked = {
                name
                for name in asked
                if (beside.can_add(file, name) if file else not beside.matches(name))
            }
            if not asked and (nothing := _nothing_unmanaged(wanted, beside)):
                Printer().say(printable(nothing))
                return None
            config = unmanaged_look(beside, asked, retention_ms)
            kept = StoredState(recall(beside.state_dir))
        engine.warm_up()
        looked = plan_cycle(engine.context, config, kept)
        idle = _idle_groups(looked.snapshot, kafka)
    look = _look(looked, every_topic, idle, retention_ms, wanted, beside=beside)
    show_first_look(look, wanted.output)
    if (path := wanted.write_config) is not None:
        if not look.topics:
            raise UsageError(f"the cluster has no topic, so there is nothing to write to {path}")
        owner, cluster_id = wanted.owner or UNASSIGNED, looked.snapshot.cluster_id
        origin = Origin(
            cluster_id,
            kafka_section(settings),
            sorted(settings.confluent.keys() - PROPERTIES.keys()),
            rfc3339(now_ms()),
        )
        with new_file(path, WRITE_CONFIG) as unfinished:
            unfinished.write_text(
                starting_config(look, origin)
                if beside is None
                else policy_file(look, owner, cluster_id, origin.written_at),
                encoding="utf-8",
            )
        if wanted.output is Output.TABLE and beside is None:
            expects = environment_of(origin.kafka)
            expected = f" It expects {' and '.join(expects)} in the environment." if expects else ""
            Printer().say(
                f"{path} is a configuration to start from, which deletes nothing yet.{expected} "
                f"Next: retentiond check --config {path}"
            )
        elif wanted.output is Output.TABLE and beside is not None:
            _say_policy_file(path, wanted.configuration, beside, look, owner)
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


def _nothing_unmanaged(wanted: FirstLookOptions, beside: Config) -> str | None:
    """The good news in a sentence; None for JSON, which shows an empty plan. Raises `UsageError`
    if a file should be written."""
    asked = f" that is called {' or '.join(wanted.topics)}" if wanted.topics else ""
    nothing = f"every topic of the cluster{asked} has an entry in {wanted.configuration}"
    if wanted.write_config is not None:
        if beside.fences.every:
            nothing += ", or is in the fence of another file"
        raise UsageError(f"{nothing}, so there is nothing to write to {wanted.write_config}")
    return None if wanted.output is Output.JSON else f"Nothing is unmanaged: {nothing}."


def _look(
    looked: PlannedCycle,
    every_topic: frozenset[str],
    idle: frozenset[str],
    retention_ms: int,
    wanted: FirstLookOptions,
    *,
    beside: Config | None,
) -> FirstLook:
    snapshot = looked.snapshot
    unseen = unseen_readers(every_topic, snapshot.groups)
    if not wanted.include_unlimited:
        unseen = replace(unseen, unlimited=unlimited_topics(snapshot.topics))
    look = FirstLook(
        looked.report,
        retention_ms,
        unseen,
        _readers(snapshot),
        idle=idle,
        external=frozenset(group.name for group in snapshot.groups if group.is_external),
        forced_retention_ms={
            topic.name: topic.forced_retention_ms
            for topic in snapshot.topics
            if topic.forced_retention_ms is not None
        },
    )
    if beside is None:
        return look
    return replace(
        look,
        outside=str(wanted.configuration),
        required=frozenset((beside.defaults.groups and beside.defaults.groups.required) or ()),
        pressure_ms=beside.defaults.pressure_retention_ms,
        is_dry=beside.dry_run,
    )


def _readers(snapshot: Snapshot) -> Readers:
    """Each topic's groups that count, by name."""
    readings = {group.group_id: group for group in snapshot.groups}
    return {
        topic.name: [
            *{
                reading.name
                for reading in map(readings.__getitem__, groups)
                if not reading.is_excluded_by(topic.policy)
            }
        ]
        for position, groups in readers_by_topic(snapshot).items()
        for topic in (snapshot.topics[position],)
    }


def _idle_groups(snapshot: Snapshot, kafka: Kafka) -> frozenset[str]:
    """The groups without a live member that were not seen to move within a day. One has moved if an
    earlier cycle saw that, or if it has read a record of the last day."""
    names = partitions_of(snapshot)
    logs = {
        at: LogRange(partition.log_start_offset, partition.high_watermark)
        for at, partition in zip(names, snapshot.partitions, strict=True)
        if partition.log_start_offset is not None and partition.high_watermark is not None
    }
    offsets = retention_offsets(kafka, dict.fromkeys(logs, DAY_MS), snapshot.taken_at_ms, logs)
    first_of_day = np.array(
        [at if isinstance(at := offsets.get(name), int) else math.inf for name in names]
    )
    dated = snapshot.commits.select(["group_id", "moved_at_ms"]).drop_null()
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


def _say_policy_file(
    path: Path, configuration: Path, config: Config, look: FirstLook, owner: str
) -> None:
    enabled = sum(look.why_not_enabled(topic) is None for topic in look.topics)
    if leads_to(config, configuration.parent, path):
        then = f"policies in {configuration} leads to it, so the next reload takes it"
        then += "." if config.dry_run else ", on trial: nothing is deleted from its topics yet."
    else:
        then = f"It has no effect until policies in {configuration} leads to it."
    Printer().say(
        printable(
            f"{path} is a policy file of {say_many(len(look.topics), 'topic')}, "
            f"{say_count(enabled)} of them enabled, owner {owner}. {then} "
            f"Next: retentiond check --config {configuration}"
        )
    )
