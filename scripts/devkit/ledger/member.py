"""A member of a classic or consumer group: where it stands, what it tells and what it commits.

It may be killed at any moment, and still no commit may be missing from the book: so it tells on
its standard output what it has read and which commit it asks for before it asks, and the answer
afterwards. A line is a JSON array, its kind first (`devkit.ledger.readers` enters them); a blank
one is a sign of life.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from devkit.ledger.record import decode, now_ms
from devkit.ledger.scenario import RENEWED, Partition, Protocol, Return

POLL_SECONDS = 0.2
BATCH_RECORDS = 200
SLOW_RECORDS = 2
ANSWER_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Life:
    """``own``: by topic, partition, the next offset and the last record's timestamp, as the
    reader keeps them by itself. ``commits`` False: it tells nobody what it has read. ``again``:
    another consumer follows in the same process, which saves its start."""

    servers: str
    group: str
    protocol: str
    subscription: list[str]
    way: str = Return.EARLIEST
    commits: bool = True
    again: bool = False
    slow: bool = False
    habits: tuple[str, ...] = ()
    own: tuple[tuple[str, int, int, int], ...] = ()
    seed: str = ""


def tell(*words: object) -> None:
    print(json.dumps(words))


def sign() -> None:
    """Of life; what was told before arrives, whatever comes."""
    print(flush=True)


class Member:
    """A consumer that tells all that it is given and commits.

    It begins where its life says (`Return`), and at the committed offsets where there are any and
    it trusts them. It commits where it begins, unless it commits nothing: nobody may have heard
    the answer to the last commit of a member that was killed. Whatever fails raises
    KafkaException, and ends this life.
    """

    def __init__(self, life: Life) -> None:
        self._life = life
        self._own = {(topic, number): (at, stamp) for topic, number, at, stamp in life.own}
        self._at: dict[Partition, int] = {}  # the next offset to read
        self._committed: dict[Partition, int] = {}
        self._failure: KafkaException | None = None
        self._consumer = Consumer(_config(life))
        self._consumer.subscribe(
            life.subscription,
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )

    @property
    def positions(self) -> dict[Partition, int]:
        """By partition that it reads: the next offset."""
        return dict(self._at)

    def read(self) -> None:
        new = {each: at for each, at in self._at.items() if each not in self._committed}
        if new:
            self._commit(new)
        for message in self._consumer.consume(
            SLOW_RECORDS if self._life.slow else BATCH_RECORDS, POLL_SECONDS
        ):
            self._take(message)
        if self._life.slow:
            time.sleep(POLL_SECONDS)
        if self._failure is not None:
            raise self._failure

    def commit(self) -> None:
        """What has been taken; the client's own position is ahead by the rest of a batch."""
        changed = {each: at for each, at in self._at.items() if self._committed.get(each) != at}
        if changed:
            self._commit(changed)

    def log_start(self, partition: Partition) -> int:
        return self._bounds(partition)[0]

    def rewind(self, partition: Partition, offset: int) -> None:
        """Commit that, and read on there."""
        tell("moved", *partition, offset)
        self._go(partition, offset)

    def start_over(self) -> None:
        """The topic is another one: what was its position means nothing any more."""
        for partition in self._at:
            if partition[0] == RENEWED.name:
                start = self.log_start(partition)
                tell("began", *partition, start, False, now_ms())
                self._go(partition, start)

    def close(self) -> None:
        """Leave the group, without a commit."""
        self._consumer.close()

    def _go(self, partition: Partition, offset: int) -> None:
        self._commit({partition: offset})
        self._consumer.seek(TopicPartition(*partition, offset))
        self._at[partition] = offset

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        at = TopicPartition(*partition)
        answer = self._consumer.get_watermark_offsets(at, timeout=ANSWER_SECONDS, cached=False)
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(answer[0]), int(answer[1])

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            starts = [
                TopicPartition(each.topic, each.partition, self._start(each))
                for each in consumer.committed(partitions, timeout=ANSWER_SECONDS)
            ]
        except KafkaException as exc:
            self._failure = exc  # the client would raise it as something that is no Exception
            return
        if self._life.protocol == Protocol.CONSUMER:
            consumer.incremental_assign(starts)
        else:
            consumer.assign(starts)
        tell("assigned", sorted({each.topic for each in starts}), now_ms())

    def _start(self, found: TopicPartition) -> int:
        """The client's own start would ask ``auto.offset.reset`` where there is no commit yet."""
        if found.error is not None:
            raise KafkaException(found.error)
        partition = (found.topic, found.partition)
        committed = found.offset if found.offset >= 0 else None
        own = self._own.get(partition)
        gave_up = False
        if self._life.way == Return.OWN and own is not None:
            offset = own[0]
        elif self._life.way == Return.TIME and own is not None:
            offset = self._at_time(partition, own[1])
        elif committed is not None:
            offset = committed
        else:
            gave_up = self._life.way == Return.LATEST
            offset = self._bounds(partition)[gave_up]
        tell("began", *partition, offset, gave_up, now_ms())
        self._at[partition] = offset
        return offset

    def _at_time(self, partition: Partition, stamp_ms: int) -> int:
        at = TopicPartition(*partition, stamp_ms)
        found = self._consumer.offsets_for_times([at], timeout=ANSWER_SECONDS)[0]
        if found.error is not None:
            raise KafkaException(found.error)
        return int(found.offset) if found.offset >= 0 else self._bounds(partition)[1]

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._at.pop((each.topic, each.partition), None)
            self._committed.pop((each.topic, each.partition), None)
        tell("revoked", now_ms())

    def _take(self, message: Message) -> None:
        error, offset = message.error(), message.offset()
        partition = (str(message.topic()), int(message.partition() or 0))
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET and partition in self._at:
                self._reset(partition)
            elif error.fatal() or error.code() == KafkaError._MAX_POLL_EXCEEDED:
                raise KafkaException(error)
            return  # a broker is away, and the client goes on by itself
        if offset is None or partition not in self._at:
            return
        if offset > self._at[partition]:
            tell("skipped", *partition, self._at[partition], offset, now_ms())
        tell("saw", *partition, offset, decode(message.value()), message.timestamp()[1])
        self._at[partition] = offset + 1

    def _reset(self, partition: Partition) -> None:
        """What an operator would do: go on where the log begins."""
        at_ms = now_ms()
        start = self.log_start(partition)
        tell("was reset", *partition, self._at[partition], start, at_ms)
        self._go(partition, start)

    def _commit(self, offsets: Mapping[Partition, int]) -> None:
        """Raises KafkaException unless all of them are acknowledged."""
        if not self._life.commits:
            self._committed |= offsets
            return
        wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        acknowledged: list[Partition] = []
        tell("asked", [[*partition, offset] for partition, offset in offsets.items()], now_ms())
        sign()
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
            acknowledged = [(at.topic, at.partition) for at in answers or () if at.error is None]
        finally:
            tell("answered", acknowledged, now_ms())
        self._committed |= {partition: offsets[partition] for partition in acknowledged}
        if set(acknowledged) != set(offsets):
            raise KafkaException(KafkaError(KafkaError._FAIL, "not all was committed"))


def _config(life: Life) -> dict[str, object]:
    classic = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1000}
    slow = {"fetch.message.max.bytes": 16_384, "queued.min.messages": 1}  # nothing far ahead
    return {
        "bootstrap.servers": life.servers,
        "group.id": life.group,
        "group.protocol": life.protocol,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "topic.metadata.refresh.interval.ms": 3000,  # a pattern's new topics
        "fetch.min.bytes": 65_536,  # or what comes in half a second: the cores are few
        "socket.timeout.ms": int(ANSWER_SECONDS * 1000),
        "log_level": 0,  # what matters comes with the records
        **(classic if life.protocol == Protocol.CLASSIC else {}),
        **(slow if life.slow else {}),
    }
