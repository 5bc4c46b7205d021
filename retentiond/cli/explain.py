"""``retentiond explain``: why a partition, or a topic, stands where it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from retentiond.cli.options import (
    WITH_SERVER,
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    ConsumedRetention,
    Debug,
    Output,
    OutputFormat,
    client_settings,
    consumed_retention_ms,
    load,
    one_engine,
    refuse_without,
    set_up,
    start_without_configuration,
)
from retentiond.cli.output.printing import print_json, printer
from retentiond.errors import UsageError
from retentiond.kafka.settings.properties import ClientSettings

if TYPE_CHECKING:
    from retentiond.config import Config
    from retentiond.state.state import StoredState
    from retentiond.tell.explain.explanation import TopicExplanation
    from retentiond.tell.report import CycleReport


def explain(  # noqa: PLR0917 - typer hands each option over by its name
    context: typer.Context,
    place: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC[:PARTITION]",
            help="The topic or partition to explain.",
        ),
    ],
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    consumed_retention: ConsumedRetention = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Explain why records are deleted or kept, which group binds, and what to do; delete nothing.

    Example: retentiond explain orders.enriched

    Example: retentiond explain orders.enriched:3 --output json | jq .relevant_groups
    """

    at = parse_place(place)
    if bootstrap_server is not None:
        start_without_configuration(context, config, debug)
        source = unconfigured_source(at, bootstrap_server, consumed_retention, command_config)
    else:
        refuse_without(
            WITH_SERVER,
            {"--consumed-retention": consumed_retention, "--command-config": command_config},
        )
        source = configured_source(set_up(context, config, debug))
    report, explained = _explained(at, source)
    _show(at, report, explained, output)


class ExplainedPlace(NamedTuple):
    """``partition`` is None for all of the topic."""

    topic: str
    partition: int | None


class Source(NamedTuple):
    """The policy to explain by. ``name``: where it stands, for sentences; ``settings``: the
    clients', where they are not those of the configuration."""

    config: Config
    kept: StoredState
    name: str
    settings: ClientSettings | None = None


def configured_source(path: Path) -> Source:
    from retentiond.state.state import read_stored_state

    loaded = load(path)
    return Source(loaded, read_stored_state(loaded.state_dir), str(path))


def unconfigured_source(
    at: ExplainedPlace, servers: str, consumed_retention: str | None, command_config: Path | None
) -> Source:
    from retentiond.state.state import StoredState
    from retentiond.tell.first_look.look import first_look

    retention_ms = consumed_retention_ms(consumed_retention)
    settings = client_settings(servers, command_config)
    policy = first_look(settings, [re.escape(at.topic)], retention_ms)
    return Source(policy, StoredState(), "a look without a configuration", settings)


def parse_place(written: str) -> ExplainedPlace:
    """``TOPIC`` or ``TOPIC:PARTITION``; no topic's name holds a colon. Raises `UsageError`."""
    topic, colon, number = written.partition(":")
    if not topic or (colon and not re.fullmatch("[0-9]{1,10}", number)):
        raise UsageError(
            f"{written!a} is neither TOPIC nor TOPIC:PARTITION, as in orders or orders:3"
        )
    return ExplainedPlace(topic, int(number) if colon else None)


def _explained(at: ExplainedPlace, source: Source) -> tuple[CycleReport, TopicExplanation]:
    """Raises `UsageError` for a topic that the policy doesn't enable, or that is not there."""
    from retentiond.cycle import plan_cycle
    from retentiond.tell.explain.evidence import evidence, partitions_at, refuse_unknown
    from retentiond.tell.explain.explanation import explained

    if source.config.policy_for(at.topic) is None:
        raise UsageError(
            f"{source.name} does not enable topic {at.topic}, so nothing is deleted from it; "
            "give it an entry under topics with retention.commitoffset.enable: true"
            if source.settings is None
            else f"topic {at.topic} is Kafka's own, and never touched; name one that is not"
        )
    with one_engine(source.config, source.settings) as engine:
        kafka = engine.context.kafka
        refuse_unknown(at.topic, kafka.topic_names())  # before Spark takes its seconds
        engine.warm_up()
        report, snapshot, remembered = plan_cycle(engine.context, source.config, source.kept)
        partitions = partitions_at(snapshot, at.topic, at.partition)
        found = evidence(kafka, report, snapshot, remembered, partitions)
    return report, explained(found, at.topic, [each.partition for each in partitions])


def _show(
    at: ExplainedPlace, report: CycleReport, explained: TopicExplanation, output: Output
) -> None:
    from retentiond.cli.output.explain import show_partition, show_topic
    from retentiond.tell.explain.explanation import explanation_document, topic_document
    from retentiond.tell.report import evidence_document

    if output is Output.JSON:
        answer = (
            topic_document(explained)
            if at.partition is None
            else explanation_document(explained, explained.partitions[0])
        )
        print_json({**evidence_document(report), **answer})
    elif at.partition is None:
        show_topic(printer(), report, explained)
    else:
        show_partition(printer(), report, explained)
