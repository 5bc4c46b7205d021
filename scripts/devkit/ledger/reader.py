"""A member of a classic or consumer group, which enters all that it is given and commits."""

import random
import threading
import time
import traceback

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from devkit.ledger.book import Book, Commit, Reset, Skip
from devkit.ledger.clock import now_ms
from devkit.ledger.record import decode
from devkit.ledger.scenario import Group, Partition, Protocol

POLL_SECONDS = 0.2
BATCH_RECORDS = 200
COMMIT_SECONDS = 0.7
ANSWER_SECONDS = 15.0
AGAIN_SECONDS = 0.5
END_SECONDS = 60.0


class _Away(Exception):
    """This life is over, and the next begins later."""


class Reader:
    """Reads on a thread of its own, in one life after another, each with a new consumer.

    A life ends when the client fails, or with `restart`; the next begins at the committed
    offsets. Where there is none, it begins at the log start, and commits that before it reads.
    ``error`` says what has broken down for good.
    """

    def __init__(self, servers: str, group: Group, book: Book, seed: str) -> None:
        self.group = group
        self.error: str | None = None
        self._servers = servers
        self._book = book
        self._random = random.Random(seed)
        self._calm = False
        self._stop = threading.Event()
        self._renew = threading.Event()
        self._at: dict[int, int] = {}  # by partition: the next offset to read
        self._committed: dict[int, int] = {}
        self._failure: KafkaException | None = None
        self._thread = threading.Thread(
            target=self._guarded, name=f"reader-{group.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def calm_down(self) -> None:
        """From now on only read and commit, with a new consumer that has fetched nothing ahead."""
        self._calm = True
        self._renew.set()

    def stop(self) -> None:
        """Ask for the end."""
        self._stop.set()
        self._renew.set()

    def join(self) -> None:
        """Return when it has ended, or ``error`` says why not."""
        if self._thread.ident is not None:
            self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            self.error = f"a consumer of {self.group.name} did not end"

    def _guarded(self) -> None:
        try:
            while not self._stop.is_set():
                self._renew.clear()
                try:
                    self._live()
                except _Away:
                    self._renew.wait(self._random.uniform(1, 8))
                except KafkaException:
                    self._book.count("consumer failures")
                    self._stop.wait(AGAIN_SECONDS)
        except Exception:  # noqa: BLE001 - a thread's end must be told
            self.error = f"a consumer of {self.group.name}: {traceback.format_exc()}"

    def _live(self) -> None:
        consumer = Consumer(self._config())
        try:
            self._at, self._committed, self._failure = {}, {}, None
            consumer.subscribe(
                [self.group.topic.name],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._revoked,
            )
            habit_at = self._next_habit()
            commit_at = 0.0
            while not self._renew.is_set() and not self._stop.is_set():
                if self._failure is not None:
                    raise self._failure
                self._claim_new(consumer)
                for message in consumer.consume(BATCH_RECORDS, POLL_SECONDS):
                    self._take(consumer, message)
                if time.monotonic() >= commit_at:
                    self._commit(consumer)
                    commit_at = time.monotonic() + COMMIT_SECONDS
                if time.monotonic() >= habit_at and not self._calm:
                    self._indulge(consumer)
                    habit_at = self._next_habit()
            self._commit(consumer)
        finally:
            consumer.close()

    def _config(self) -> dict[str, object]:
        classic = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1000}
        return {
            "bootstrap.servers": self._servers,
            "group.id": self.group.name,
            "group.protocol": self.group.protocol.value,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.min.bytes": 65_536,  # or what comes in half a second: the cores are few
            "socket.timeout.ms": int(ANSWER_SECONDS * 1000),
            "log_level": 0,  # what matters comes with the records
            **(classic if self.group.protocol is Protocol.CLASSIC else {}),
        }

    # Where it stands

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            starts = self._starts(consumer, partitions)
        except KafkaException as exc:
            self._failure = exc  # the client would raise it as something that is no Exception
            return
        if self.group.protocol is Protocol.CONSUMER:
            consumer.incremental_assign(starts)
        else:
            consumer.assign(starts)

    def _starts(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The client's own start would ask ``auto.offset.reset`` where there is no commit yet."""
        committed = consumer.committed(partitions, timeout=ANSWER_SECONDS)
        starts = []
        for each in committed:
            if each.error is not None:
                raise KafkaException(each.error)
            offset = each.offset
            if offset < 0:
                offset = self._log_start(consumer, each.partition)
            else:
                self._committed[each.partition] = offset
            self._at[each.partition] = offset
            starts.append(TopicPartition(each.topic, each.partition, offset))
        return starts

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._at.pop(each.partition, None)
            self._committed.pop(each.partition, None)

    def _log_start(self, consumer: Consumer, partition: int) -> int:
        at = TopicPartition(self.group.topic.name, partition)
        answer = consumer.get_watermark_offsets(at, timeout=ANSWER_SECONDS, cached=False)
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(answer[0])

    def _take(self, consumer: Consumer, message: Message) -> None:
        error, number, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET and number in self._at:
                self._reset(consumer, number)
            elif error.fatal() or error.code() == KafkaError._MAX_POLL_EXCEEDED:
                raise KafkaException(error)
            return  # a broker is away, and the client goes on by itself
        if number is None or offset is None or number not in self._at:
            return
        partition = self._partition(number)
        at = self._at[number]
        if offset > at:
            self._book.skipped(Skip(self.group.name, partition, at, offset, now_ms()))
        self._book.saw(self.group.name, partition, offset, decode(message.value()))
        self._at[number] = offset + 1

    def _reset(self, consumer: Consumer, number: int) -> None:
        """What an operator would do: go on where the log begins."""
        at_ms = now_ms()
        log_start = self._log_start(consumer, number)
        self._book.was_reset(
            Reset(self.group.name, self._partition(number), self._at[number], log_start, at_ms)
        )
        self._go(consumer, number, log_start)

    # What it commits

    def _claim_new(self, consumer: Consumer) -> None:
        """A first commit, before anything is read."""
        new = {number: at for number, at in self._at.items() if number not in self._committed}
        if new:
            self._commit_offsets(consumer, new, first=True)

    def _commit(self, consumer: Consumer) -> None:
        """What has been taken; the client's own position is ahead by the rest of a batch."""
        changed = {
            number: at for number, at in self._at.items() if self._committed.get(number) != at
        }
        if changed:
            self._commit_offsets(consumer, changed)

    def _commit_offsets(
        self, consumer: Consumer, offsets: dict[int, int], *, first: bool = False
    ) -> None:
        """Raises KafkaException unless all of them are acknowledged."""
        wanted = [
            TopicPartition(self.group.topic.name, number, offset)
            for number, offset in offsets.items()
        ]
        acknowledged: set[int] = set()
        sent_ms = now_ms()
        try:
            answers = consumer.commit(offsets=wanted, asynchronous=False)
            acknowledged = {each.partition for each in answers or () if each.error is None}
        finally:
            ended_ms = now_ms()
            commits = (
                (
                    self._partition(number),
                    Commit(offset, sent_ms, ended_ms, number in acknowledged),
                )
                for number, offset in offsets.items()
            )
            self._book.committed(self.group.name, commits, first=first)
        self._committed |= {number: offsets[number] for number in acknowledged}
        if acknowledged != set(offsets):
            raise KafkaException(KafkaError(KafkaError._FAIL, "not all was committed"))

    def _go(self, consumer: Consumer, number: int, offset: int) -> None:
        """Commit that, and read on there."""
        self._commit_offsets(consumer, {number: offset})
        consumer.seek(TopicPartition(self.group.topic.name, number, offset))
        self._at[number] = offset

    def _partition(self, number: int) -> Partition:
        return (self.group.topic.name, number)

    # How it behaves

    def _next_habit(self) -> float:
        return time.monotonic() + self._random.uniform(4, 16)

    def _indulge(self, consumer: Consumer) -> None:
        habits = [self._lag, self._stop_for_a_while, self._crash]
        if self.group.rewinds:
            habits += [self._rewind, self._rewind]
        self._random.choice(habits)(consumer)

    def _lag(self, _consumer: Consumer) -> None:
        self._book.count("consumers lagged")
        self._renew.wait(self._random.uniform(2, 10))

    def _stop_for_a_while(self, consumer: Consumer) -> None:
        self._commit(consumer)
        self._book.count("consumers stopped")
        raise _Away

    def _crash(self, _consumer: Consumer) -> None:
        """What it has read since its last commit, it will read again."""
        self._book.count("consumers crashed")
        raise _Away

    def _rewind(self, consumer: Consumer) -> None:
        """To somewhere between the log start and where it stands; often to the very start."""
        if not self._at:
            return
        number = self._random.choice(sorted(self._at))
        log_start = self._log_start(consumer, number)
        if log_start >= self._at[number]:
            return
        choices = (log_start, self._random.randint(log_start, self._at[number]))
        self._go(consumer, number, self._random.choice(choices))
        self._book.count("rewinds")
