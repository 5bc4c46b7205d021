"""The producers: each on a thread of its own, at a steady rate, until it is stopped."""

import itertools
import random
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from devkit.ledger.book import Book, Log
from devkit.ledger.record import encode
from devkit.ledger.scenario import Topic, Writing

TICK_SECONDS = 0.05
END_SECONDS = 60.0
LONG_SECONDS = 5.0

Delivered = Callable[[int | None, int, KafkaError | None, Message], None]
"""Told the incarnation and the sequence of what was sent, and the answer."""

ABANDONED, ABORTED, LONG = 0.05, 0.2, 0.05
"""How many of the transactions end so; a long one holds the last stable offset up."""


class Writer:
    """``error`` says what has broken down for good; a record that fails is simply not owed."""

    def __init__(
        self, servers: str, topic: Topic, book: Book, sequence: "itertools.count[int]", seed: str
    ) -> None:
        self.error: str | None = None
        self._topic = topic
        self._book = book
        self._sequence = sequence
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._burst = 0
        self._broken = False  # for good: an idempotent producer that has lost count
        self._config = {
            "bootstrap.servers": servers,
            "linger.ms": 200,  # fewer requests: the cores are few
            "acks": "all",
            "delivery.timeout.ms": 60_000,
            "log_level": 0,  # what matters comes with the delivery
            **_special(topic),
        }
        run = self._transact if topic.writing is Writing.TRANSACTIONAL else self._write
        self._thread = threading.Thread(
            target=self._guarded, args=(run,), name=f"writer-{topic.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def burst(self, records: int) -> None:
        """So many more than its rate, as soon as it can; not in transactions."""
        self._burst += records

    def stop(self) -> None:
        self._stop.set()

    def join(self) -> None:
        """Return when all is answered, or ``error`` says why not."""
        self._thread.join(2 * END_SECONDS)
        if self._thread.is_alive():
            self.error = f"the producer of {self._topic.name} did not end"

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception:  # noqa: BLE001 - a thread's end must be told
            self.error = f"the producer of {self._topic.name}: {traceback.format_exc()}"

    def _write(self) -> None:
        producer = Producer(self._config)
        started = time.monotonic()
        sent = 0
        while not self._stop.wait(TICK_SECONDS):
            if self._broken:
                producer, self._broken = Producer(self._config), False
            due = int((time.monotonic() - started) * self._topic.records_per_second)
            with suppress(BufferError, KafkaException):  # brokers or the topic are gone: later
                while sent < due + self._burst:
                    self._produce(producer, self._delivered)
                    sent += 1
            producer.poll(0)
        if left := producer.flush(END_SECONDS):
            self.error = f"{left} records of {self._topic.name} were not answered"

    def _transact(self) -> None:
        producer: Producer | None = None
        while not self._stop.is_set():
            try:
                if producer is None:
                    producer = Producer(self._config)
                    producer.init_transactions(END_SECONDS)
                if not self._transaction(producer):
                    producer = None
            except KafkaException as exc:
                self._book.count("transactions failed")
                producer = self._recovered(producer, exc)
        if producer is not None:
            producer.flush(END_SECONDS)

    def _transaction(self, producer: Producer) -> bool:
        """One, to its end; False when it was abandoned, and its producer with it."""
        acknowledged: list[tuple[Log, int, int]] = []

        def delivered(
            incarnation: int | None, sequence: int, error: KafkaError | None, message: Message
        ) -> None:
            log, offset = self._log(incarnation, message), message.offset()
            if error is None and log is not None and offset is not None:
                self._book.wrote(log, offset, sequence, owed=False)
                acknowledged.append((log, offset, sequence))

        producer.begin_transaction()
        for _ in range(self._random.randint(10, 120)):
            self._produce(producer, delivered)
            producer.poll(0)
            if self._stop.wait(1 / self._topic.records_per_second):
                break
        if self._random.random() < LONG:
            self._stop.wait(LONG_SECONDS)
        fate = self._random.random()
        if fate < ABANDONED:
            self._book.count("transactions abandoned")
            return False
        producer.flush(END_SECONDS)
        if fate < ABANDONED + ABORTED:
            producer.abort_transaction(END_SECONDS)
            self._book.count("transactions aborted")
            return True
        producer.commit_transaction(END_SECONDS)
        self._book.count("transactions committed")
        for log, offset, sequence in acknowledged:
            self._book.owes(log, offset, sequence)
        return True

    def _recovered(self, producer: Producer | None, exc: KafkaException) -> Producer | None:
        """The producer, if it can go on after an abort. What may have been committed is not
        owed, unless somebody was given it."""
        error = exc.args[0]
        if producer is not None and error.txn_requires_abort():
            with suppress(KafkaException):
                producer.abort_transaction(END_SECONDS)
                return producer
        self._stop.wait(1)
        return None

    def _produce(self, producer: Producer, delivered: Delivered) -> None:
        sequence = next(self._sequence)
        producer.produce(
            self._topic.name,
            encode(sequence),
            partition=self._random.randrange(self._topic.partitions),
            on_delivery=partial(delivered, self._book.living(self._topic.name), sequence),
        )

    def _delivered(
        self, incarnation: int | None, sequence: int, error: KafkaError | None, message: Message
    ) -> None:
        offset = message.offset()
        if error is not None or offset is None:
            self._book.count("records refused")
            self._broken |= error is not None and error.code() == KafkaError._FATAL
            return
        log = self._log(incarnation, message)
        if log is None:
            self._book.count("records written amid a recreation")
        else:
            self._book.wrote(log, offset, sequence)

    def _log(self, incarnation: int | None, message: Message) -> Log | None:
        """Where it is, if the topic was the same when it was sent and when it was answered."""
        topic, partition = self._topic.name, message.partition()
        if incarnation is None or partition is None or incarnation != self._book.living(topic):
            return None
        return (topic, incarnation, partition)


def _special(topic: Topic) -> dict[str, object]:
    match topic.writing:
        case Writing.PLAIN:
            return {"enable.idempotence": False}
        case Writing.IDEMPOTENT:
            return {"enable.idempotence": True}
        case Writing.TRANSACTIONAL:
            return {
                "transactional.id": f"writer-of-{topic.name}",
                "transaction.timeout.ms": 30_000,
                "delivery.timeout.ms": 30_000,
            }
