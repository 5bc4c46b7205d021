"""How many requests a cycle sends: counted by the broker, which logs each for the time of one."""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.settings import CONSUMED_RETENTION_MS, settings
from devkit.embedded import EmbeddedKafka
from retentiond.config import Config
from retentiond.engine import Engine
from retentiond.state.state import open_state

LOGGER = "kafka.request.logger"

LOGGED = re.compile(r'"isForwarded":false,.*?"clientId":"([^"]*)".*?"requestApiKeyName":"(\w+)"')
"""Client and name. What a broker forwards to the controller, under its client's name, is logged
once more there: the client has sent it once."""

CLIENT = "retentiond-bench"

SET = 0
"""The operation of a change."""

WARM_UP = 2

KEPT_MS = 24 * 60 * 60 * 1000
"""A consumed retention that no record is as old as."""


def measure(kafka: EmbeddedKafka, layout: Layout, folder: Path) -> list[Result]:
    """Of two warm dry-run cycles: one could delete from every partition, and the other from none.

    What could lose records is read twice, so the second cycle has only half of the readings.
    """
    name = layout.name
    at_most = 20 + 2 * len(kafka.nodes) + layout.groups / 50
    twice = _sent(kafka, folder, CONSUMED_RETENTION_MS, layout.topics * layout.partitions)
    once = _sent(kafka, folder, KEPT_MS, 0)
    what = f"{name}: requests of a cycle"
    return [
        Result(what, twice.total(), "", at_most),
        *(Result(f"{name}: of these {api}", count, "") for api, count in twice.most_common()),
        Result(f"{what} that deletes nothing", once.total(), "", at_most),
    ]


def _sent(
    kafka: EmbeddedKafka, folder: Path, consumed_retention_ms: int, deletions: int
) -> Counter[str]:
    """By name. Raises ValueError unless the cycle would delete from so many partitions."""
    changes = {"kafka": {"bootstrap.servers": kafka.bootstrap_servers, "client.id": CLIENT}}
    config = Config.model_validate(
        settings(
            kafka.bootstrap_servers, folder, consumed_retention_ms=consumed_retention_ms, **changes
        )
    )
    engine = Engine(config, threading.Event(), lambda *_: None)
    with closing(engine), open_state(folder) as state:
        for _ in range(WARM_UP):
            engine.run_cycle(state)
        with _counted(kafka) as sent:
            report = engine.run_cycle(state)
    if len(report.outcomes) != deletions:
        raise ValueError(f"a cycle would delete from {len(report.outcomes)}, not {deletions}")
    return sent


@contextmanager
def _counted(kafka: EmbeddedKafka) -> Iterator[Counter[str]]:
    """Filled when the block ends: by name, what `CLIENT` has sent within it."""
    sent: Counter[str] = Counter()
    starts = {node: node.log_file.stat().st_size for node in kafka.nodes}
    with closing(KafkaAdminClient(bootstrap_servers=kafka.internal_servers)) as admin:
        _log_requests(admin, kafka, "DEBUG")
        try:
            yield sent
        finally:
            _log_requests(admin, kafka, "INFO")
    for node, start in starts.items():
        with node.log_file.open() as log:
            log.seek(start)
            sent.update(sent_by_us(log))


def sent_by_us(log: Iterable[str]) -> Iterator[str]:
    """The name of each request of `CLIENT` in a broker's lines."""
    for line in log:
        if (found := LOGGED.search(line)) and found[1].startswith(CLIENT):
            yield found[2]


def _log_requests(admin: KafkaAdminClient, kafka: EmbeddedKafka, level: str) -> None:
    resource_type = IncrementalAlterConfigsRequest.AlterConfigsResource
    for node in kafka.nodes:
        request = IncrementalAlterConfigsRequest(
            resources=[
                resource_type(
                    resource_type=ConfigResourceType.BROKER_LOGGER.value,
                    resource_name=str(node.spec.node_id),
                    configs=[
                        resource_type.AlterableConfig(
                            name=LOGGER, config_operation=SET, value=level
                        )
                    ],
                )
            ],
            validate_only=False,
        )
        answer = admin._manager.run(admin._manager.send, request, node.spec.node_id)
        if any(response.error_code for response in answer.responses):
            raise ValueError(f"broker {node.spec.node_id} does not change its log level: {answer}")
