"""``python -m devkit.demo.load SERVERS``: the demo's topics, written and read until SIGTERM.

What ``deploy/compose.yaml`` runs beside the broker, in retentiond's image: it needs no more than
the clients.
"""

from __future__ import annotations

import signal
import sys
import threading

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from devkit.demo.reader import Reader
from devkit.demo.scenario import TOPIC_CONFIG, TOPICS
from devkit.demo.writer import Writer

KEPT = {"retention.ms": "3600000", "retention.bytes": "67108864"}
"""What bounds the disk of somebody who forgets that it runs."""


def main(servers: str) -> int:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    _make_topics(servers)
    clients: list[Writer | Reader] = [
        Writer(servers, TOPICS),
        *(
            Reader(servers, group.name, topic.name, behind_seconds=group.behind_seconds)
            for topic in TOPICS
            for group in topic.groups
        ),
    ]
    for each in clients:
        each.start()
    while not stop.wait(1.0) and not any(each.error for each in clients):
        pass
    for each in clients:
        each.stop()
    errors = [each.error for each in clients if each.error]
    if errors:
        print(*errors, sep="\n", file=sys.stderr)
    return int(bool(errors))


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
