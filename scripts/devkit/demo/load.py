"""``python -m devkit.demo.load SERVERS``: the demo's topics, written and read until SIGTERM.

What ``deploy/compose.yaml`` runs beside the broker, in retentiond's image: it needs no more than
the clients.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from devkit.demo.scenario import TOPIC_CONFIG, TOPICS, Group, Topic
from devkit.demo.writer import Writer

KEPT = {"retention.ms": "3600000", "retention.bytes": "67108864"}
"""What bounds the disk of somebody who forgets that it runs."""

BATCH_RECORDS = 200


def main(servers: str) -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    _make_topics(servers)
    readers = [
        threading.Thread(target=_read, args=(servers, topic, group, stop))
        for topic in TOPICS
        for group in topic.groups
    ]
    writer = Writer(servers, TOPICS)
    writer.start()
    for reader in readers:
        reader.start()
    while not stop.wait(1.0) and writer.error is None:
        pass
    stop.set()
    writer.stop()
    for reader in readers:
        reader.join()
    if writer.error is not None:
        print(writer.error, file=sys.stderr)
    return int(writer.error is not None)


def _make_topics(servers: str) -> None:
    wanted = [
        NewTopic(topic.name, topic.partitions, 1, config={**TOPIC_CONFIG, **KEPT})
        for topic in TOPICS
    ]
    admin = AdminClient({"bootstrap.servers": servers})  # without a name it would end at once
    for future in admin.create_topics(wanted).values():
        try:
            future.result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _read(servers: str, topic: Topic, group: Group, stop: threading.Event) -> None:
    """As an application would, ``group.behind_seconds`` late."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": group.name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic.name])
    while not stop.is_set():
        for message in consumer.consume(BATCH_RECORDS, 0.2):
            _, written_ms = message.timestamp()
            if (late_s := group.behind_seconds - (time.time() - written_ms / 1000)) > 0:
                stop.wait(late_s)
    consumer.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
