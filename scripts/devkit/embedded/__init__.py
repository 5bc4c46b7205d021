"""A real Apache Kafka from Maven Central, in this process's care (Linux).

with EmbeddedKafka(nodes=1, version="4.4.0") as kafka:
    kafka.create_topic("orders", partitions=3)
    client = Consumer({"bootstrap.servers": kafka.bootstrap_servers, ...})
"""

from devkit.embedded.cluster import DEFAULT_VERSION, EmbeddedKafka, default_version
from devkit.embedded.node import Node
from devkit.embedded.processes import EmbeddedKafkaError

__all__ = ["DEFAULT_VERSION", "EmbeddedKafka", "EmbeddedKafkaError", "Node", "default_version"]
