"""A consumer of one group and topic, as an application would run it."""

import threading
import time

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from devkit.demo.account import Account

POLL_SECONDS = 0.2
BATCH_RECORDS = 200
COMMIT_SECONDS = 1.0
CLOSE_SECONDS = 30.0


class Reader:
    """Reads on a thread of its own and commits every second what its account has seen.

    It begins at the group's committed offset, at the log's start where there is none or where the
    broker has deleted it: then the account misses what lies between. A record is read once it is
    ``behind_seconds`` old.
    """

    def __init__(
        self, bootstrap_servers: str, account: Account, behind_seconds: float = 0.0
    ) -> None:
        self.error: str | None = None
        self._account = account
        self._behind_seconds = behind_seconds
        self._committed = account.next_offsets
        self._config = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": account.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,  # what matters comes with the records
        }
        self._stop = threading.Event()
        name = f"reader-{account.group}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

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
            consumer.subscribe([self._account.topic])
            self._read(consumer)
        except KafkaException as exc:
            self.error = str(exc)
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> None:
        commit_at = 0.0
        while not self._stop.is_set():
            for message in consumer.consume(BATCH_RECORDS, POLL_SECONDS):
                self._wait_until_due(message)
                if self._stop.is_set():
                    break
                self._see(message)
            if time.monotonic() >= commit_at:
                self._commit(consumer)
                commit_at = time.monotonic() + COMMIT_SECONDS
        self._commit(consumer)

    def _commit(self, consumer: Consumer) -> None:
        """What the account has seen; the client's own position is ahead by the rest of a batch."""
        seen = self._account.next_offsets
        if seen != self._committed:
            topic = self._account.topic
            offsets = [
                TopicPartition(topic, partition, offset) for partition, offset in seen.items()
            ]
            consumer.commit(offsets=offsets, asynchronous=False)
            self._committed = seen

    def _wait_until_due(self, message: Message) -> None:
        _, written_ms = message.timestamp()
        late_seconds = self._behind_seconds - (time.time() - written_ms / 1000)
        if late_seconds > 0:
            self._stop.wait(late_seconds)

    def _see(self, message: Message) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is not None:
            raise KafkaException(error)
        if partition is not None and offset is not None:
            self._account.see(partition, offset, message.value())
