"""``python -m devkit.ledger.share_member SERVERS GROUP TOPIC``: a member of a share group.

A process of its own, because librdkafka calls its share consumer a preview, and so that a member
can die as one does. It tells each record that it is given before it acknowledges it, as
`devkit.ledger.member` does.
"""

import signal
import sys
import threading
from contextlib import suppress

from confluent_kafka import KafkaException, ShareConsumer

from devkit.ledger.member import sign, tell
from devkit.ledger.record import decode

POLL_SECONDS = 0.5
ANSWER_SECONDS = 5.0


def main() -> None:
    servers, group, topic = sys.argv[1:]
    ending = threading.Event()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Only noted: an exception would throw away what a poll has just given, and the end of
        # the consumer would acknowledge it.
        signal.signal(number, lambda *_: ending.set())
    config = {"bootstrap.servers": servers, "group.id": group, "socket.timeout.ms": 10_000}
    consumer = ShareConsumer({**config, "log_level": 0})
    consumer.subscribe([topic])
    while not ending.is_set():
        for message in consumer.poll(POLL_SECONDS):
            if message.error() is None:
                sequence = decode(message.value())
                at = (topic, message.partition(), message.offset())
                tell("saw", *at, sequence, message.timestamp()[1])
        sign()
        with suppress(KafkaException):  # then they are given to a member again
            consumer.commit_sync(ANSWER_SECONDS)
    consumer.close()


if __name__ == "__main__":
    main()
