"""The producer of all topics, at a steady rate."""

import threading
import time
from collections import Counter
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer

from devkit.demo.account import encode
from devkit.demo.scenario import Topic

TICK_SECONDS = 0.05
FLUSH_SECONDS = 30.0


class Writer:
    """Writes on a thread of its own until it is stopped; what is acknowledged counts. A record that
    is not within ``timeout_seconds`` is an error."""

    def __init__(
        self, bootstrap_servers: str, topics: Sequence[Topic], timeout_seconds: float = 300.0
    ) -> None:
        # Idempotent: in order and without duplicates, so that a record's number is its offset.
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": int(1000 * timeout_seconds),
                "log_level": 0,  # what matters comes with the delivery
            }
        )
        self._topics = tuple(topics)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._sent: Counter[str] = Counter()
        self._written: Counter[tuple[str, int]] = Counter()
        self.error: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, flush: bool = True) -> None:
        """Return when every record is acknowledged, or ``error`` says why not. Without ``flush``
        what is not acknowledged yet is given up."""
        if not flush:
            self._producer.purge()
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(FLUSH_SECONDS + 5)

    def written(self, topic: Topic) -> dict[int, int]:
        """Records that the broker has acknowledged, by partition."""
        return {number: self._written[topic.name, number] for number in range(topic.partitions)}

    def records(self, topic: Topic) -> int:
        return sum(self.written(topic).values())

    def _run(self) -> None:
        started = time.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            for topic in self._topics:
                self._catch_up(topic, time.monotonic() - started)
            self._producer.poll(0)
        if left := self._producer.flush(FLUSH_SECONDS):
            self.error = f"{left} records were not acknowledged in {FLUSH_SECONDS:g} s"

    def _catch_up(self, topic: Topic, seconds: float) -> None:
        for number in range(self._sent[topic.name], int(seconds * topic.records_per_second)):
            sequence, partition = divmod(number, topic.partitions)
            self._producer.produce(
                topic.name,
                encode(topic.name, partition, sequence),
                partition=partition,
                on_delivery=self._delivered,
            )
            self._sent[topic.name] += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic, partition = message.topic(), message.partition()
        if error is not None or topic is None or partition is None:
            self.error = f"a record could not be written ({error})"
        else:
            self._written[topic, partition] += 1
