"""One partition's log, as far as offsets and timestamps go."""

from __future__ import annotations

from dataclasses import dataclass, field

from retentiond.model import Failure

UNDECIDED = Failure("NOT_ANSWERED", "a transaction is open")


@dataclass(eq=False)
class Transaction:
    """A producer's transaction; ``open`` until it is committed or aborted."""

    open: bool = True
    is_aborted: bool = False
    partitions: list[FakePartition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Record:
    timestamp_ms: int
    transaction: Transaction | None
    is_marker: bool = False


@dataclass(eq=False)
class FakePartition:
    """A record's offset is its position in ``records``; what lies below ``log_start`` is gone.

    ``leader`` is None while none of the ``replicas`` is up; ``epoch`` counts the elections.
    ``moved``: clients still know the former leader.
    """

    replicas: tuple[int, ...]
    leader: int | None
    epoch: int = 0
    moved: bool = False
    log_start: int = 0
    records: list[Record] = field(default_factory=list)
    epoch_starts: dict[int, int] = field(default_factory=lambda: {0: 0})

    @property
    def high_watermark(self) -> int:
        return len(self.records)

    @property
    def last_stable(self) -> int:
        """First offset of an open transaction, else the high watermark."""
        for offset in range(self.log_start, self.high_watermark):
            transaction = self.records[offset].transaction
            if transaction is not None and transaction.open:
                return offset
        return self.high_watermark

    def append(self, timestamp_ms: int, transaction: Transaction | None = None) -> int:
        """The record's offset."""
        self.records.append(Record(timestamp_ms, transaction))
        if transaction is not None and self not in transaction.partitions:
            transaction.partitions.append(self)
        return self.high_watermark - 1

    def first_at(self, timestamp_ms: int) -> int | None:
        """First offset *by offset* whose record is at or after the timestamp."""
        for offset in range(self.log_start, self.high_watermark):
            if self.records[offset].timestamp_ms >= timestamp_ms:
                return offset
        return None

    def first_record(self, offset: int) -> int | Failure | None:
        """The first committed one; none where only markers are left."""
        for at in range(max(offset, self.log_start), self.last_stable):
            record = self.records[at]
            is_aborted = record.transaction is not None and record.transaction.is_aborted
            if not (record.is_marker or is_aborted):
                return at
        return None if self.last_stable == self.high_watermark else UNDECIDED

    def is_dated(self, offset: int) -> bool:
        return offset < len(self.records) and self.records[offset].timestamp_ms >= 0

    def delete_to(self, offset: int) -> None:
        """The log start never goes back, nor past the high watermark."""
        self.log_start = max(self.log_start, min(offset, self.high_watermark))

    def expire(self, before_ms: int) -> None:
        """Kafka's own retention by age, each record a segment of its own."""
        young = self.first_at(before_ms)
        self.delete_to(self.high_watermark if young is None else young)

    def elect(self, leader: int | None) -> None:
        self.leader = leader
        self.epoch += 1
        self.moved = True
        if leader is not None:
            self.epoch_starts[self.epoch] = self.high_watermark

    def lose_from(self, offset: int, to: int) -> None:
        """An unclean election: the new leader lacks the records from there on."""
        del self.records[offset:]
        self.epoch_starts = {each: at for each, at in self.epoch_starts.items() if at < offset}
        self.elect(to)

    def epoch_end(self, epoch: int) -> tuple[int | None, int | None]:
        """The last known epoch up to that one, and the start of the next."""
        later = [start for known, start in sorted(self.epoch_starts.items()) if known > epoch]
        if not later and epoch not in self.epoch_starts:
            return None, None
        known = max((each for each in self.epoch_starts if each <= epoch), default=epoch)
        return known, later[0] if later else self.high_watermark
