"""How many requests a cycle sends: counted by the broker, which logs each for the time of one."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import IncrementalAlterConfigsRequest

from devkit.bench.layouts import Layout
from devkit.bench.result import Result
from devkit.bench.settings import settings
from devkit.embedded import EmbeddedKafka
from retentiond.config import Config

LOGGER = "kafka.request.logger"

LOGGED = re.compile(r'"isForwarded":false,.*?"clientId":"([^"]*)".*?"requestApiKeyName":"(\w+)"')
"""Client and name. What a broker forwards to the controller, under its client's name, is logged
once more there: the client has sent it once."""

CLIENT = "retentiond-bench"

SET = 0
"""The operation of a change."""


def results(what: str, sent: Counter[str], kafka: EmbeddedKafka, layout: Layout) -> list[Result]:
    """Their number beside the one to stay below, and of which kinds they are."""
    at_most = 20 + 2 * len(kafka.nodes) + layout.groups / 50
    kinds = (Result(f"{what}, {api}", count, "") for api, count in sent.most_common())
    return [Result(what, sent.total(), "", at_most), *kinds]


def config(kafka: EmbeddedKafka, layout: Layout, folder: Path, *, dry_run: bool) -> Config:
    """With a client id of its own, by which the broker's log tells whose a request is."""
    clients = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": CLIENT}
    document = settings(layout, kafka.bootstrap_servers, folder, kafka=clients, dry_run=dry_run)
    return Config.model_validate(document)


@contextmanager
def counted(kafka: EmbeddedKafka) -> Iterator[Counter[str]]:
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
