"""Is a broker up? Its own metadata answers that, not its log and not the clock."""

import socket
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

POLL_SECONDS = 0.05
ANSWER_SECONDS = 2.0


def registered_brokers(server: str) -> frozenset[int]:
    """Ids of the registered brokers, as the broker at ``HOST:PORT`` sees them; empty when it
    does not answer.

    A broker opens its port only when it knows of its own new registration, and each call uses
    a fresh client that knows no other broker: no neighbour's stale view can answer instead.
    """
    if not accepts_connections(server):
        return frozenset()
    client = AdminClient({"bootstrap.servers": server, "log_level": 0})
    try:
        return frozenset(client.list_topics(timeout=ANSWER_SECONDS).brokers)
    except KafkaException:
        return frozenset()


def accepts_connections(server: str) -> bool:
    """Whether somebody listens at ``HOST:PORT``; "no" takes a moment, so that it may be polled."""
    host, port = server.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except OSError:
        time.sleep(POLL_SECONDS)
        return False
    return True
