"""A consumer of one group and topic, as an application would run it."""

import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from devkit.demo.ledger import Ledger

POLL_SECONDS = 0.2
BATCH_RECORDS = 200
COMMIT_SECONDS = 1.0
CLOSE_SECONDS = 30.0


class Reader:
    """Reads on a thread of its own and commits every second what its ledger has seen.

    It begins at the group's committed offset, at 0 where there is none. A start that the
    broker has deleted is an error to it, never a jump to another offset. A record is read
    once it is ``behind_seconds`` old.
    """

    def __init__(self, bootstrap_servers: str, ledger: Ledger, behind_seconds: float = 0.0) -> None:
        self.ledger = ledger
        self.error: str | None = None
        self._bootstrap_servers = bootstrap_servers
        self._behind_seconds = behind_seconds
        self._committed = ledger.next_offsets
        self._stop = threading.Event()
        name = f"reader-{ledger.group}"
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
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": self.ledger.group,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "log_level": 0,  # what matters comes with the records
            }
        )
        try:
            consumer.subscribe([self.ledger.topic], on_assign=_begin_at_commits)
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
        """What the ledger has seen; the client's own position is ahead by the rest of a batch."""
        seen = self.ledger.next_offsets
        if seen != self._committed:
            offsets = [
                TopicPartition(self.ledger.topic, partition, offset)
                for partition, offset in seen.items()
            ]
            consumer.commit(offsets=offsets, asynchronous=False)
            self._committed = seen

    def _wait_until_due(self, message: Message) -> None:
        _, written_ms = message.timestamp()
        age_seconds = time.time() - written_ms / 1000
        if age_seconds < self._behind_seconds:
            self._stop.wait(self._behind_seconds - age_seconds)

    def _see(self, message: Message) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is not None:
            if error.code() != KafkaError._AUTO_OFFSET_RESET or partition is None:
                raise KafkaException(error)
            self.ledger.reset(partition, error.str())
        elif partition is not None and offset is not None:
            self.ledger.see(partition, offset, message.value())


def _begin_at_commits(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """The client's own start would ask ``auto.offset.reset`` where there is no commit yet."""
    committed = consumer.committed(partitions, timeout=30)
    for each in committed:
        if each.error is not None:
            raise KafkaException(each.error)
    consumer.assign(
        [TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in committed]
    )
