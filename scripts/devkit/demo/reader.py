"""A consumer of one group and topic, as an application would run it."""

import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message

See = Callable[[int, int, bytes | None], None]
"""Told the partition, the offset and the value of each record."""

POLL_SECONDS = 0.2
BATCH_RECORDS = 200
CLOSE_SECONDS = 30.0


class Reader:
    """Reads on a thread of its own and commits every second what was seen.

    It begins at the group's committed offset, at the log's start where there is none or where the
    broker has deleted it: then what lies between is missed. A record is read once it is
    ``behind_seconds`` old.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        topic: str,
        see: See = lambda *_: None,
        behind_seconds: float = 0.0,
    ) -> None:
        self.error: str | None = None
        self._topic = topic
        self._see = see
        self._behind_seconds = behind_seconds
        self._config = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "enable.auto.offset.store": False,  # not of the whole batch at once
            "log_level": 0,  # what matters comes with the records
        }
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader-{group}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Commit, leave the group, and return when that is done."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)
        if self._thread.is_alive():
            self.error = f"it did not stop in {CLOSE_SECONDS:g} s"

    def _run(self) -> None:
        consumer = Consumer(self._config)
        try:
            consumer.subscribe([self._topic])
            while not self._stop.is_set():
                for message in consumer.consume(BATCH_RECORDS, POLL_SECONDS):
                    self._wait_until_due(message)
                    if self._stop.is_set():
                        break
                    self._take(message)
                    consumer.store_offsets(message)
        except KafkaException as exc:
            self.error = str(exc)
        finally:
            consumer.close()

    def _wait_until_due(self, message: Message) -> None:
        _, written_ms = message.timestamp()
        late_seconds = self._behind_seconds - (time.time() - written_ms / 1000)
        if late_seconds > 0:
            self._stop.wait(late_seconds)

    def _take(self, message: Message) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is not None:
            raise KafkaException(error)
        if partition is not None and offset is not None:
            self._see(partition, offset, message.value())
