"""``retentiond plan --bootstrap-server``: a plan of any cluster, without a configuration."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from retentiond.cli.options import CONSUMED_RETENTION, Output, one_engine
from retentiond.cli.output.files import new_file, refuse_unfit
from retentiond.cli.output.first_look import show_first_look
from retentiond.cli.output.printing import printer, say
from retentiond.config import Config
from retentiond.config.durations import parse_duration
from retentiond.config.values import INT64_MAX
from retentiond.cycle import PlannedCycle, plan_cycle
from retentiond.errors import ConfigError, UsageError
from retentiond.formatting import rfc3339
from retentiond.kafka.settings import tls
from retentiond.kafka.settings.command_config import read_settings
from retentiond.kafka.settings.properties import PROPERTIES, ClientSettings
from retentiond.memory.remembered import readers_by_topic
from retentiond.snapshot import Snapshot
from retentiond.state.state import StoredState
from retentiond.tell.first_look.policy import (
    UnseenReaders,
    first_look,
    kafka_section,
    unseen_readers,
)
from retentiond.tell.first_look.starting_config import Origin, environment_of, starting_config

WRITE_CONFIG = "--write-config"


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a first look is asked for, as the options give it."""

    servers: str
    command_config: Path | None
    consumed_retention: str | None
    topics: Sequence[str]
    write_config: Path | None


def take_first_look(wanted: FirstLook, output: Output) -> PlannedCycle:
    """Looks, shows it and writes the configuration, if one is asked for.

    Raises `UsageError` and `ConfigError` before anything is asked of the cluster.
    """
    retention_ms = milliseconds(wanted.consumed_retention or CONSUMED_RETENTION)
    if wanted.write_config is not None:
        refuse_unfit(wanted.write_config, WRITE_CONFIG)
    settings = client_settings(wanted.servers, wanted.command_config)
    config = first_look(settings, wanted.topics, retention_ms)
    looked, every_topic = _looked(config, settings)
    if wanted.topics and not looked.report.plan.rows:
        raise UsageError(
            f"no topic of the cluster is called {' or '.join(wanted.topics)}, Kafka's own left "
            "aside; --topic is a regular expression that a topic's whole name matches"
        )
    unseen = unseen_readers(every_topic, looked.snapshot.groups)
    show_first_look(looked.report, retention_ms, output, unseen)
    if wanted.write_config is not None:
        origin = _origin(settings, looked.snapshot, retention_ms)
        _write(wanted.write_config, looked, origin, unseen)
        if output is Output.TABLE:
            _say_written(wanted.write_config, origin.kafka)
    return looked


def client_settings(servers: str, command_config: Path | None) -> ClientSettings:
    """Of both clients. Raises `ConfigError` for what would reach only one of them."""
    settings = read_settings(servers, command_config)
    for name, kafkas in tls.INLINE.items():
        if name in settings.confluent:
            raise ConfigError(
                "retentiond needs PEM in files, by .location", path=kafkas, file=str(command_config)
            )
    return settings


def _looked(config: Config, settings: ClientSettings) -> tuple[PlannedCycle, frozenset[str]]:
    """And the names of all topics, also of those that were not asked for."""
    with one_engine(config, settings) as engine:
        engine.warm_up()
        looked = plan_cycle(engine.context, config, StoredState())
        return looked, engine.context.kafka.topic_names()


def milliseconds(written: str) -> int:
    ms = parse_duration(written)
    if ms is None or ms > INT64_MAX:
        raise UsageError(
            f"--consumed-retention {written!a} is no duration; "
            "give a number with its unit (ms, s, m, h or d), as in 24h or 7d"
        )
    return ms


def _origin(settings: ClientSettings, snapshot: Snapshot, retention_ms: int) -> Origin:
    return Origin(
        cluster_id=snapshot.cluster_id,
        kafka=kafka_section(settings),
        left_out=sorted(settings.confluent.keys() - PROPERTIES.keys()),
        consumed_retention_ms=retention_ms,
        written_at=rfc3339(time.time_ns() // 1_000_000),
    )


def _write(path: Path, looked: PlannedCycle, origin: Origin, unseen: UnseenReaders) -> None:
    seen, snapshot = looked.report.answers, looked.snapshot
    if not seen.topics:
        raise UsageError(f"the cluster has no topic, so there is nothing to write to {path}")
    readers = {
        snapshot.topics[position].name: groups
        for position, groups in readers_by_topic(snapshot).items()
    }
    with new_file(path, WRITE_CONFIG) as unfinished:
        unfinished.write_text(starting_config(seen, readers, origin, unseen), encoding="utf-8")


def _say_written(path: Path, kafka: Mapping[str, str]) -> None:
    variables = environment_of(kafka)
    expects = f" It expects {' and '.join(variables)} in the environment." if variables else ""
    say(
        printer(),
        f"{path} is a configuration to start from, which deletes nothing yet.{expects} "
        f"Next: retentiond check --config {path}",
    )
