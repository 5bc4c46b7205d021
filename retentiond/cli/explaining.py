"""What ``retentiond explain`` does, with a configuration or without one."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from retentiond.cli.configured import load
from retentiond.cli.explain_partition import show_partition
from retentiond.cli.explain_topic import show_topic
from retentiond.cli.first_look import client_settings, milliseconds
from retentiond.cli.options import CONSUMED_RETENTION, Output
from retentiond.cli.show import progress
from retentiond.cli.table import printer
from retentiond.config import Config
from retentiond.cycle import plan_cycle
from retentiond.engine import Engine
from retentiond.errors import UsageError
from retentiond.explain.document import partition_document, topic_document
from retentiond.explain.evidence import evidence, partitions_at, refuse_unknown
from retentiond.explain.partition import Explanation, explained
from retentiond.kafka.properties import ClientSettings
from retentiond.look.policy import first_look
from retentiond.observe.report import CycleReport, rfc3339
from retentiond.state.kept import Kept, kept_in


class Place(NamedTuple):
    """``partition`` is None for all of the topic."""

    topic: str
    partition: int | None


class Source(NamedTuple):
    """The policy to explain by. ``name``: where it stands, for sentences; ``settings``: the
    clients', where they are not those of the configuration."""

    config: Config
    kept: Kept
    name: str
    settings: ClientSettings | None = None


def configured(path: Path) -> Source:
    loaded = load(path)
    return Source(loaded, kept_in(loaded.state_dir), str(path))


def unconfigured(
    at: Place, servers: str, consumed_retention: str | None, command_config: Path | None
) -> Source:
    retention_ms = milliseconds(consumed_retention or CONSUMED_RETENTION)
    settings = client_settings(servers, command_config)
    policy = first_look(settings, [re.escape(at.topic)], retention_ms)
    return Source(policy, Kept(), "a look without a configuration", settings)


def parse_place(written: str) -> Place:
    """``TOPIC`` or ``TOPIC:PARTITION``; no topic's name holds a colon. Raises `UsageError`."""
    topic, colon, number = written.partition(":")
    if not topic or (colon and not re.fullmatch("[0-9]{1,10}", number)):
        raise UsageError(
            f"{written!a} is neither TOPIC nor TOPIC:PARTITION, as in orders or orders:3"
        )
    return Place(topic, int(number) if colon else None)


def explain_place(at: Place, source: Source, output: Output) -> None:
    """Explains, and shows it."""
    report, explanations = _explained(at, source)
    _show(at, report, explanations, output)


def _explained(at: Place, source: Source) -> tuple[CycleReport, tuple[Explanation, ...]]:
    """Raises `UsageError` for a topic that the policy doesn't enable, or that is not there."""
    if source.config.policy_for(at.topic) is None:
        raise UsageError(
            f"{source.name} does not enable topic {at.topic}, so nothing is deleted from it; "
            "give it an entry under topics with retention.commitoffset.enable: true"
            if source.settings is None
            else f"topic {at.topic} is Kafka's own, and never touched; name one that is not"
        )
    engine = Engine(source.config, threading.Event(), lambda *_: None, source.settings, once=True)
    kafka = engine.tools.kafka
    try:
        with progress("reading the cluster"):
            refuse_unknown(at.topic, kafka.topic_names())  # before Spark takes its seconds
            engine.warm_up()
            report, snapshot, remembered = plan_cycle(engine.tools, source.config, source.kept)
            partitions = partitions_at(snapshot, at.topic, at.partition)
            found = evidence(kafka, report, snapshot, remembered, partitions)
    finally:
        engine.close()
    return report, explained(found, at.topic, [each.partition for each in partitions])


def _show(
    at: Place, report: CycleReport, explanations: tuple[Explanation, ...], output: Output
) -> None:
    if output is Output.JSON:
        json.dump(_document(at, report, explanations), sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif at.partition is None:
        show_topic(printer(), report, explanations)
    else:
        show_partition(printer(), report, explanations[0])


def _document(
    at: Place, report: CycleReport, explanations: tuple[Explanation, ...]
) -> dict[str, Any]:
    plan = report.plan
    head = {
        "cluster_id": plan.cluster_id,
        "planned_at": rfc3339(plan.planned_at_ms),
        "dry_run": plan.dry_run,
        "complete": plan.complete,
        "problems": list(plan.problems),
        "paused": plan.paused,
    }
    if at.partition is None:
        return {**head, **topic_document(explanations)}
    return {**head, **partition_document(explanations[0])}
