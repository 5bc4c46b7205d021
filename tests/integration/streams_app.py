"""A real application of Kafka Streams, driven through py4j: it copies one topic to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from devkit.embedded import EmbeddedKafka, jars
from devkit.embedded.java import find_java

BYTES = "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"


@contextmanager
def copying(
    kafka: EmbeddedKafka, group: str, source: str, sink: str, folder: Path
) -> Iterator[None]:
    """The application runs in the block, as a member of the streams group (KIP-1071)."""
    py4j = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    port = launch_gateway(  # type: ignore[no-untyped-call]  # py4j has no types
        classpath=jars.classpath(kafka.version, "broker", "streams"),
        jarpath=str(py4j),
        java_path=str(find_java().path),
        die_on_exit=True,
    )
    gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port))  # type: ignore[no-untyped-call]  # py4j has no types
    try:
        properties = gateway.jvm.java.util.Properties()
        for name, value in {
            "application.id": group,
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.protocol": "streams",
            "default.key.serde": BYTES,
            "default.value.serde": BYTES,
            "commit.interval.ms": "100",
            "state.dir": str(folder),
        }.items():
            properties.put(name, value)
        streams = gateway.jvm.org.apache.kafka.streams
        builder = streams.StreamsBuilder()
        builder.stream(source).to(sink)
        application = streams.KafkaStreams(builder.build(), properties)
        application.start()
        yield
        application.close()
    finally:
        gateway.shutdown()
