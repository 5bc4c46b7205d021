"""A broker with an authorizer, and what it grants to retentiond."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from devkit.embedded import EmbeddedKafka
from retentiond.kafka.cluster import KafkaCluster
from retentiond.kafka.settings.properties import translate
from tests.contract.real import TIMEOUT_S, RealDriver
from tests.support.waiting import eventually

PRINCIPAL = "User:retentiond"

CLUSTER = (ResourceType.BROKER, "kafka-cluster")
EVERY_TOPIC = (ResourceType.TOPIC, "*")
EVERY_GROUP = (ResourceType.GROUP, "*")
OFFSETS_TOPIC = (ResourceType.TOPIC, "__consumer_offsets")

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # whoever comes in by the internal listener
}

Resource = tuple[ResourceType, str]


def rule(
    resource: Resource,
    operation: AclOperation = AclOperation.DESCRIBE,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(*resource, ResourcePatternType.LITERAL, PRINCIPAL, "*", operation, permission)


TOPICS = (
    rule(EVERY_TOPIC, AclOperation.DESCRIBE),
    rule(EVERY_TOPIC, AclOperation.DESCRIBE_CONFIGS),
    rule(EVERY_TOPIC, AclOperation.DELETE),
)

ENOUGH = (rule(CLUSTER), rule(EVERY_GROUP), *TOPICS)
"""The rights that the documents ask for."""


class Guarded:
    """A broker that lets its operator do everything, and retentiond what it was granted."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.driver = RealDriver(kafka, kafka.internal_servers)
        self._admin: AdminClient = kafka.admin()
        self.section = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "retentiond",
            "sasl.password": "secret",
        }
        self.port = KafkaCluster(translate(self.section), lambda *_: None)

    def close(self) -> None:
        self.port.close()
        self.driver.close()

    def grant(self, *rules: AclBinding) -> None:
        """Just these, for retentiond; returns when the broker goes by them."""
        wanted, found = set(rules), self.rules()
        if missing := wanted - found:
            for created in self._admin.create_acls(list(missing)).values():
                created.result(TIMEOUT_S)
        if surplus := found - wanted:
            for deleted in self._admin.delete_acls([only(each) for each in surplus]).values():
                deleted.result(TIMEOUT_S)
        eventually(lambda: self.rules() == wanted)

    def rules(self) -> set[AclBinding]:
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # its stub lacks it: anything
            ResourcePatternType.ANY,
            PRINCIPAL,
            None,  # type: ignore[arg-type]  # its stub lacks it: anything
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        return set(self._admin.describe_acls(every).result(TIMEOUT_S))


def only(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


@contextmanager
def guarded_kafka(*, tiered: bool = False) -> Iterator[Guarded]:
    """One broker; its own listener, which the tests' clients use, asks for no credentials."""
    config = {
        **AUTHORIZER,
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="x" password="x" user_retentiond="secret";'
        ),
    }
    with (
        EmbeddedKafka(security_protocol="SASL_PLAINTEXT", config=config, tiered=tiered) as kafka,
        closing(Guarded(kafka)) as made,
    ):
        yield made
