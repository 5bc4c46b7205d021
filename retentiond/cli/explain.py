"""``retentiond explain``: why a partition, or a topic, stands where it does."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from retentiond.cli.options import (
    WITH_SERVER,
    BootstrapServer,
    CommandConfig,
    ConfigPath,
    ConsumedRetention,
    Debug,
    Fresh,
    Output,
    OutputFormat,
    client_settings,
    consumed_retention_ms,
    load,
    one_engine,
    refuse,
    set_up,
)
from retentiond.cli.output.printing import Printer
from retentiond.errors import UsageError

if TYPE_CHECKING:
    from retentiond.config import Config
    from retentiond.kafka.settings.properties import ClientSettings
    from retentiond.state.state import StoredState
    from retentiond.tell.explanation import TopicExplanation
    from retentiond.tell.report import CycleReport


def explain(  # noqa: PLR0917 - typer hands each option over by its name
    place: Annotated[
        str,
        typer.Argument(metavar="TOPIC[:PARTITION]", help="The topic or partition to explain."),
    ],
    config: ConfigPath = None,
    bootstrap_server: BootstrapServer = None,
    consumed_retention: ConsumedRetention = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Output.TABLE,
    fresh: Fresh = False,
    debug: Debug = False,
) -> None:
    """Explain why records are deleted or kept, which group binds, and what to do; delete nothing.

    If a daemon of this user runs with the same configuration, it answers at once, as of its last
    cycle, and the answer says how old it is. Otherwise, and with --fresh, the cluster is read.

    Example: retentiond explain orders.enriched

    Example: retentiond explain orders.enriched:3 --output json | jq .relevant_groups
    """
    topic, colon, number = place.partition(":")  # no topic's name holds a colon
    if not topic or (colon and not re.fullmatch("[0-9]{1,10}", number)):
        raise UsageError(
            f"{place!a} is neither TOPIC nor TOPIC:PARTITION, as in orders or orders:3"
        )
    from retentiond.cli.output.beside_daemon import answered

    settings, path = None, set_up(config, debug, bootstrap_server)
    if bootstrap_server is not None:
        from retentiond.tell.first_look import first_look

        retention_ms = consumed_retention_ms(consumed_retention)
        settings = client_settings(bootstrap_server, command_config)
        loaded = first_look(settings, [re.escape(topic)], retention_ms)
        not_enabled = f"topic {topic} is Kafka's own, and never touched; name one that is not"
    else:
        of_server = {"--consumed-retention": consumed_retention, "--command-config": command_config}
        refuse(of_server, WITH_SERVER)
        loaded = load(path)
        not_enabled = (
            f"{path} does not enable topic {topic}, so nothing is deleted from it; give it an "
            "entry under topics with retention.commitoffset.enable: true"
        )
    if loaded.policy_for(topic) is None:
        raise UsageError(not_enabled)
    partition = int(number) if colon else None
    if bootstrap_server is None and not fresh:
        about = {"topic": topic, "partition": number, "output": output.value}
        if (answer := answered(loaded, "explain", about, Printer())) is not None:
            sys.stdout.write(answer)
            return
    from retentiond.cli.output.explain import show, with_state
    from retentiond.state.state import StoredState, read_stored_state

    stored = StoredState() if settings else read_stored_state(loaded.state_dir)
    report, explained = _explained(topic, partition, loaded, stored, settings=settings)
    if bootstrap_server is None:
        explained = with_state(explained, loaded, partition)
    show(Printer(), report, explained, output, is_whole=partition is None)


def _explained(
    topic: str,
    partition: int | None,
    config: Config,
    stored: StoredState,
    *,
    settings: ClientSettings | None,
) -> tuple[CycleReport, TopicExplanation]:
    """Raises `UsageError` for a topic or a partition that is not there."""
    from retentiond.cycle import plan_cycle
    from retentiond.tell.explained_evidence import evidence, partitions_at, refuse_unknown
    from retentiond.tell.explanation import explained

    with one_engine(config, settings) as engine:
        kafka = engine.context.kafka
        refuse_unknown(topic, kafka.topic_names())  # before Spark takes its seconds
        engine.warm_up()
        report, snapshot, remembered = plan_cycle(engine.context, config, stored)
        partitions = partitions_at(snapshot, topic, partition)
        found = evidence(kafka, report, snapshot, remembered, partitions)
    return report, explained(found, topic, [row.partition for row in partitions])
