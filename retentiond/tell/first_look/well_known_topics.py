"""Topics that, by their names, belong to a system that reads them without committing.

Most of these systems read such a topic from the beginning whenever they start: Streams restores its
state, Debezium a database's schema, a registry all its schemas. The commits of consumer groups say
nothing about these reads. A name proves nothing, so it never enables anything: a first look doesn't
enable a topic that matches, and `doctor` names it.

`SYSTEMS` is the only table of these names. Its comments say where the names come from.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from retentiond.config import Config
from retentiond.config.policy import PolicyEntry
from retentiond.config.values import is_unknown
from retentiond.kafka.interface import INTERNAL_TOPICS


class KnownSystem(NamedTuple):
    """A system that owns topics. ``short``: for a cell of a table. ``meaning``: why such a topic is
    not one to begin with. ``example``: the name of one."""

    short: str
    meaning: str
    example: str


CONNECT = re.compile(
    # Kafka Connect's and Debezium's own examples, Strimzi's connect-cluster-offsets.
    r"(?:.*[._-])?(?:connect(?:ors?)?(?:[._-].*)?|debezium|dbz)"
    r"[._-](?:configs?|offsets?|status(?:es)?)"
    # https://docs.aws.amazon.com/msk/latest/developerguide/msk-connect-state-management.html
    r"|__(?:amazon_)?msk_connect_(?:configs|offsets|status)_.*",
    re.IGNORECASE,
)

MIRRORS = re.compile(
    # With replication.policy.separator, _ or - stand where a dot is by default (KIP-382, KIP-690).
    r"mm2-(?:offset-syncs|offsets|configs|status)[._-].*|.*[._-]checkpoints[._-]internal"
    r"|mirrormaker2-cluster-(?:offsets|configs|status)"  # Strimzi's default
    r"|(?:.*\.)?heartbeats"
)

SYSTEMS = (
    (
        # https://kafka.apache.org/documentation/streams/developer-guide/manage-topics.html
        re.compile(r".*-changelog"),
        KnownSystem(
            "changelog of Streams",
            "by its name a changelog of Kafka Streams, which restores its state from it without "
            "committing",
            "app-store-changelog",
        ),
    ),
    (
        # As above. The topics of foreign-key joins are those of KIP-213.
        re.compile(r".*-repartition|.*-KTABLE-FK-JOIN-SUBSCRIPTION-.*-topic"),
        KnownSystem(
            "repartition topic of Streams",
            "by its name a repartition topic of Kafka Streams, which deletes what it has read",
            "app-store-repartition",
        ),
    ),
    (
        # https://kafka.apache.org/documentation/#connectconfigs: *.storage.topic
        CONNECT,
        KnownSystem(
            "Kafka Connect's own",
            "by its name Kafka Connect's own, which reads it from the beginning without committing",
            "connect-offsets",
        ),
    ),
    (
        # https://cwiki.apache.org/confluence/display/KAFKA/KIP-382%3A+MirrorMaker+2.0
        re.compile(rf"mm2-.*|.*\.internal|{MIRRORS.pattern}"),
        KnownSystem(
            "MirrorMaker's own",
            "by its name MirrorMaker's own, which reads it from the beginning without committing",
            "mm2-offset-syncs.eu.internal",
        ),
    ),
    (
        # schema.history.internal.kafka.topic, before Debezium 2 database.history.kafka.topic. It
        # has no default; these are the names of Debezium's documentation and tutorials:
        # https://debezium.io/documentation/reference/stable/connectors/mysql.html
        # KafkaSchemaHistory makes it with cleanup.policy=delete and the longest retention.ms.
        re.compile(
            r"(?:.*[._-])?(?:schema[._-]?(?:history|changes)|(?:db|database)[._-]?history)"
            r"(?:[._-].*)?",
            re.IGNORECASE,
        ),
        KnownSystem(
            "Debezium's schema history",
            "by its name a schema history of Debezium, which reads it from the beginning at each "
            "start and can't go on without it",
            "schema-changes.inventory",
        ),
    ),
    (
        # Apicurio Registry 2 and 3: defaults of apicurio.kafkasql.{topic,snapshots.topic,
        # events.topic} in its KafkaSqlConfiguration; 1: of its Kafka and Streams storages.
        # https://www.apicur.io/registry/docs/apicurio-registry/3.2.x/index.html
        re.compile(
            r"(?:.*[._-])?kafkasql[._-](?:journal|snapshots?|events)(?:[._-].*)?"
            r"|storage-topic|global-id-topic"
        ),
        KnownSystem(
            "Apicurio's journal",
            "by its name a journal of Apicurio Registry, which reads all its schemas from it at "
            "each start",
            "kafkasql-journal",
        ),
    ),
    (
        # kafkastore.topic of Confluent's Schema Registry, topic_name of Karapace; Redpanda's own
        # registry uses the same name.
        # https://docs.confluent.io/platform/current/schema-registry/installation/config.html
        re.compile(r"(?:.*[._-])?_schemas(?:[._-].*)?|_schema_encoders"),
        KnownSystem(
            "Schema Registry's own",
            "by its name a schema registry's own, which reads all its schemas from it at each "
            "start",
            "_schemas",
        ),
    ),
    (
        # _confluent-ksql-SERVICE_ID_command_topic, and KSQL's ksql__commands before:
        # https://docs.ksqldb.io/en/latest/reference/server-configuration/ (ksql.service.id)
        re.compile(r".*__command_topic|_confluent-ksql-.*_command_topic|.*ksql__commands"),
        KnownSystem(
            "ksqlDB's command topic",
            "by its name a command topic of ksqlDB, which reads all its statements from it at each "
            "start",
            "_confluent-ksql-default__command_topic",
        ),
    ),
    (
        # https://docs.datahub.com/docs/how/kafka-config: "infinite retention"
        re.compile(r"(?:.*_)?DataHubUpgradeHistory_v1"),
        KnownSystem(
            "DataHub's upgrade history",
            "by its name DataHub's upgrade history, which it reads from the beginning at each "
            "start",
            "DataHubUpgradeHistory_v1",
        ),
    ),
    (
        # A convention of many systems: _confluent-*, __CruiseControl*, __strimzi*, _redpanda*, …
        re.compile(r"_.*"),
        KnownSystem(
            "some system's own",
            "by its name internal to some system, which may read it without committing",
            "__CruiseControlMetrics",
        ),
    ),
)
"""Patterns for whole names. The first one that matches counts."""


def system_of(topic: str) -> KnownSystem | None:
    """The system that owns the topic by its name, or None."""
    return next((system for names, system in SYSTEMS if names.fullmatch(topic)), None)


_LITERALLY = re.compile(r"\\(.)|(?:\.|\[[^]]*\])[*+?]?")
"""A character that a pattern takes literally, or what stands for any character."""


def risky_entries(config: Config) -> tuple[str, ...]:
    """A sentence for each entry that enables names which a first look would not enable."""
    sentences = (_risk(config, entry) for entry in config.entries if entry.policy.enabled)
    return tuple(sentence for sentence in sentences if sentence is not None)


def _risk(config: Config, entry: PolicyEntry) -> str | None:
    text, is_pattern = entry.about
    if is_unknown(text):
        return None
    names = [text]
    if is_pattern:  # what its literal parts say, and examples
        names = [_LITERALLY.sub(lambda found: found[1] or "x", text)]
        names += [system.example for _, system in SYSTEMS]
    found: dict[KnownSystem, str] = {}
    for name in names:
        system = None if name in INTERNAL_TOPICS else system_of(name)
        follows = not is_pattern or (entry.matches(name) and config.policy_for(name) is not None)
        if system is not None and follows:
            found.setdefault(system, name)
    if not found:
        return None
    system, name = next(iter(found.items()))
    if not is_pattern:
        return (
            f"{entry.source} enables {name}: {system.meaning}. A first look would not enable it. "
            "Leave the topic to Kafka, unless you know that nothing reads it so"
        )
    others = f" and of {len(found) - 1} other systems" if len(found) > 1 else ""
    return (
        f"{entry.source}: {text} also matches topics such as {name} ({system.short}){others}. A "
        "first look would not enable them, because their systems read them without committing. "
        "Name such topics under except, or switch them off by an entry of their own"
    )
