"""One life of a member of a classic or consumer group: where it stands and what it commits."""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from devkit.ledger.clock import now_ms
from devkit.ledger.dictation import Dictation
from devkit.ledger.record import decode
from devkit.ledger.scenario import Protocol

POLL_SECONDS = 0.2
BATCH_RECORDS = 200
ANSWER_SECONDS = 15.0


class Member:
    """A consumer that dictates all that it is given and commits.

    It begins at the committed offsets; where there is none, at the log start. It commits where
    it begins: nobody may have heard the answer to the last commit of a member that was killed.
    Whatever fails raises KafkaException, and ends this life.
    """

    def __init__(
        self, servers: str, group: str, topic: str, protocol: Protocol, dictation: Dictation
    ) -> None:
        self._topic = topic
        self._protocol = protocol
        self._dictation = dictation
        self._at: dict[int, int] = {}  # by partition: the next offset to read
        self._committed: dict[int, int] = {}
        self._failure: KafkaException | None = None
        self._consumer = Consumer(_config(servers, group, protocol))
        self._consumer.subscribe(
            [topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )

    @property
    def positions(self) -> dict[int, int]:
        """By partition that it reads: the next offset."""
        return dict(self._at)

    def read(self) -> None:
        """Take what has come."""
        new = {number: at for number, at in self._at.items() if number not in self._committed}
        if new:
            self._commit_offsets(new)
        for message in self._consumer.consume(BATCH_RECORDS, POLL_SECONDS):
            self._take(message)
        if self._failure is not None:
            raise self._failure

    def commit(self) -> None:
        """What has been taken; the client's own position is ahead by the rest of a batch."""
        changed = {
            number: at for number, at in self._at.items() if self._committed.get(number) != at
        }
        if changed:
            self._commit_offsets(changed)

    def log_start(self, number: int) -> int:
        at = TopicPartition(self._topic, number)
        answer = self._consumer.get_watermark_offsets(at, timeout=ANSWER_SECONDS, cached=False)
        if answer is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(answer[0])

    def go(self, number: int, offset: int) -> None:
        """Commit that, and read on there."""
        self._commit_offsets({number: offset})
        self._consumer.seek(TopicPartition(self._topic, number, offset))
        self._at[number] = offset

    def close(self) -> None:
        """Leave the group, without a commit."""
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        try:
            starts = self._starts(consumer, partitions)
        except KafkaException as exc:
            self._failure = exc  # the client would raise it as something that is no Exception
            return
        if self._protocol is Protocol.CONSUMER:
            consumer.incremental_assign(starts)
        else:
            consumer.assign(starts)

    def _starts(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """The client's own start would ask ``auto.offset.reset`` where there is no commit yet."""
        starts = []
        for each in consumer.committed(partitions, timeout=ANSWER_SECONDS):
            if each.error is not None:
                raise KafkaException(each.error)
            offset = each.offset if each.offset >= 0 else self.log_start(each.partition)
            self._at[each.partition] = offset
            starts.append(TopicPartition(each.topic, each.partition, offset))
        return starts

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._at.pop(each.partition, None)
            self._committed.pop(each.partition, None)

    def _take(self, message: Message) -> None:
        error, number, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET and number in self._at:
                self._reset(number)
            elif error.fatal() or error.code() == KafkaError._MAX_POLL_EXCEEDED:
                raise KafkaException(error)
            return  # a broker is away, and the client goes on by itself
        if number is None or offset is None or number not in self._at:
            return
        if offset > self._at[number]:
            self._dictation.skipped(number, self._at[number], offset, now_ms())
        self._dictation.saw(number, offset, decode(message.value()))
        self._at[number] = offset + 1

    def _reset(self, number: int) -> None:
        """What an operator would do: go on where the log begins."""
        at_ms = now_ms()
        log_start = self.log_start(number)
        self._dictation.was_reset(number, self._at[number], log_start, at_ms)
        self.go(number, log_start)

    def _commit_offsets(self, offsets: dict[int, int]) -> None:
        """Raises KafkaException unless all of them are acknowledged."""
        wanted = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
        acknowledged: set[int] = set()
        self._dictation.asked(offsets, now_ms())
        try:
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
            acknowledged = {each.partition for each in answers or () if each.error is None}
        finally:
            self._dictation.answered(acknowledged, now_ms())
        self._committed |= {number: offsets[number] for number in acknowledged}
        if acknowledged != set(offsets):
            raise KafkaException(KafkaError(KafkaError._FAIL, "not all was committed"))


def _config(servers: str, group: str, protocol: Protocol) -> dict[str, object]:
    classic = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1000}
    return {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol.value,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "fetch.min.bytes": 65_536,  # or what comes in half a second: the cores are few
        "socket.timeout.ms": int(ANSWER_SECONDS * 1000),
        "log_level": 0,  # what matters comes with the records
        **(classic if protocol is Protocol.CLASSIC else {}),
    }
