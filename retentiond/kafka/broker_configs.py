"""Settings of the brokers themselves, each asked for its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from retentiond.kafka import protocol_failures
from retentiond.kafka.connection import Connection
from retentiond.kafka.link import Link
from retentiond.model import Failure

BROKER = 4
"""The resource type of a broker's configuration."""


def broker_configs(
    connection: Connection, names: Collection[str]
) -> Mapping[int, Mapping[str, str] | Failure]:
    """Those settings of each live broker, as texts; one that has no value is left out.

    Raises `KafkaUnavailable` when no broker answers.
    """

    async def ask(link: Link) -> Mapping[int, Mapping[str, str] | Failure]:
        described = await link.describe_cluster()
        live = [each["broker_id"] for each in described["brokers"] if not each.get("is_fenced")]
        answers = await link.send_all([(broker, request_for(broker, names)) for broker in live])
        return dict(zip(live, map(settings_in, answers), strict=True))

    return connection.run(ask)


def request_for(broker: int, names: Collection[str]) -> Any:
    """To be sent to that very broker."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(broker), configuration_keys=list(names)
    )
    return DescribeConfigsRequest(resources=[resource])


def settings_in(answer: Any) -> Mapping[str, str] | Failure:
    """By name; ``answer`` is the response, or the error that came instead of it."""
    if isinstance(answer, Exception):
        return protocol_failures.of_kafka_python(answer)
    (result,) = answer.results
    if result.error_code:
        return protocol_failures.of_error_code(result.error_code, result.error_message)
    return {config.name: config.value for config in result.configs if config.value is not None}
