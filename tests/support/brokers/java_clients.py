"""Kafka's own clients in Java, those of the broker's release, driven through py4j."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from devkit.embedded import EmbeddedKafka, jars
from devkit.embedded.processes import find_java
from tests.support.waiting import eventually

BYTES = "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"
BYTES_READ = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@contextmanager
def consuming(kafka: EmbeddedKafka, group: str, topic: str) -> Iterator[Callable[[int], None]]:
    """A member of the consumer group (KIP-848) that has read something and commits nothing by
    itself. The block gets a function that commits an offset of partition 0."""
    with _jvm(kafka, "broker") as jvm:
        settings = jvm.java.util.Properties()
        for name, value in {
            "bootstrap.servers": kafka.internal_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "key.deserializer": BYTES_READ,
            "value.deserializer": BYTES_READ,
        }.items():
            settings.put(name, value)
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
        consumer.subscribe(jvm.java.util.Collections.singletonList(topic))
        eventually(lambda: not consumer.poll(jvm.java.time.Duration.ofMillis(50)).isEmpty())

        def commit(offset: int) -> None:
            at = jvm.org.apache.kafka.common.TopicPartition(topic, 0)
            upto = jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset)
            consumer.commitSync(jvm.java.util.Collections.singletonMap(at, upto))

        try:
            yield commit
        finally:
            consumer.close()


@contextmanager
def copying(
    kafka: EmbeddedKafka, group: str, source: str, sink: str, folder: Path, *more_sources: str
) -> Iterator[None]:
    """It copies one topic to another, as a member of the streams group (KIP-1071)."""
    with _jvm(kafka, "broker", "streams") as jvm:
        builder = jvm.org.apache.kafka.streams.StreamsBuilder()
        sources = jvm.java.util.ArrayList()
        for name in (source, *more_sources):
            sources.add(name)
        builder.stream(sources).to(sink)
        settings = {"group.protocol": "streams"}
        with _running(jvm, builder, _properties(jvm, kafka, group, folder, settings)):
            yield


@contextmanager
def keeping_a_table(
    kafka: EmbeddedKafka, group: str, source: str, folder: Path, protocol: str
) -> Iterator[Callable[[], int]]:
    """It keeps a topic as a table, whose changelog is the topic itself (topology.optimization).
    The block gets a function that counts the table's entries; 0 until it is restored."""
    with _jvm(kafka, "broker", "streams") as jvm:
        streams = jvm.org.apache.kafka.streams
        builder = streams.StreamsBuilder()
        in_memory = streams.state.Stores.inMemoryKeyValueStore("table")  # RocksDB's jar is not here
        builder.table(source, getattr(streams.kstream.Materialized, "as")(in_memory))
        settings = {"group.protocol": protocol, "topology.optimization": "all"}
        properties = _properties(jvm, kafka, group, folder, settings)
        with _running(jvm, builder, properties) as application:
            stores = streams.state.QueryableStoreTypes.keyValueStore()
            wanted = streams.StoreQueryParameters.fromNameAndType("table", stores)

            def entries() -> int:
                if application.state().toString() != "RUNNING":
                    return 0
                found, every = 0, application.store(wanted).all()
                while every.hasNext():
                    every.next()
                    found += 1
                every.close()
                return found

            yield entries


@contextmanager
def _jvm(kafka: EmbeddedKafka, *parts: jars.Part) -> Iterator[Any]:
    """With these jars on its class path."""
    py4j = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    version = jars.beside(kafka.version)
    port = launch_gateway(  # type: ignore[no-untyped-call]  # py4j has no types
        classpath=jars.classpath(version, *parts),
        jarpath=str(py4j),
        java_path=str(find_java().path),
        die_on_exit=True,
    )
    gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port))  # type: ignore[no-untyped-call]  # py4j has no types
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def _properties(
    jvm: Any, kafka: EmbeddedKafka, group: str, folder: Path, more: Mapping[str, str]
) -> Any:
    properties = jvm.java.util.Properties()
    for name, value in {
        "application.id": group,
        "bootstrap.servers": kafka.internal_servers,
        "default.key.serde": BYTES,
        "default.value.serde": BYTES,
        "commit.interval.ms": "100",
        "state.dir": str(folder),
        **more,
    }.items():
        properties.put(name, value)
    return properties


@contextmanager
def _running(jvm: Any, builder: Any, properties: Any) -> Iterator[Any]:
    """The application runs in the block."""
    application = jvm.org.apache.kafka.streams.KafkaStreams(builder.build(properties), properties)
    application.start()
    try:
        yield application
    finally:
        application.close()
