"""Whether the records that a look-up by time counts as old have a timestamp at all.

Brokers take records with a negative timestamp: -1, or the year 1 of a language's empty date. Kafka
counts it as none. A look-up finds the first record at or after a time, so records without one stand
in front of its answer like old ones. How old they are can be concluded from one thing alone: they
were appended before the records behind them. So what stands in front of an answer is old if

- the record at the answer is dated hardly later than the time that was asked about, or
- the last record in front of the answer has a timestamp, which is then an old one.

The first record is looked at, too. If that one has no timestamp, the age counts as unknown: a
record behind it may be dated back (a backfill), and then proves nothing. Records without a
timestamp between the two can't be seen, and count as old as the dated record behind them.

Both records are fetched, which takes READ on the topic. Without it a look-up of the year 1970 tells
whether the first record has a timestamp, and nothing tells it of the last one. A look-up may pass
over young records in remote storage, so there the age stays unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from kafka.errors import KafkaError, UnsupportedCodecError
from kafka.protocol.consumer import FetchRequest, IsolationLevel
from kafka.record import MemoryRecords

from retentiond.formatting import MINUTE_MS
from retentiond.kafka.interface import AGE_UNKNOWN, NOT_ANSWERED, LogRange
from retentiond.kafka.network_client import failure_of_exception
from retentiond.kafka.offsets.by_time import AGE_IS_HIDDEN, Found, Log
from retentiond.kafka.remedies import TOPIC_REFUSED
from retentiond.kafka.wire.by_hand import OffsetQuery
from retentiond.model import Failure, TopicPartition

LONGEST_GAP_MS = 5 * MINUTE_MS
GAP_IN_AGE = 20
"""How much later than the time that was asked about the record at the answer may be dated, at most,
and as a part of the age. What stands in front of it can be younger by as much."""

MAY_NOT_READ = Failure(TOPIC_REFUSED, "its records can't be fetched, as an earlier attempt showed")

REFUSED_FOR_S = 300.0
"""For how long a refusal is believed: somebody may grant READ."""

NEEDS_READ = Failure(
    TOPIC_REFUSED,
    "of records in remote storage only READ tells whether they have timestamps; grant this "
    f"principal READ on the topic, which is tried again within {REFUSED_FOR_S / 60:.0f} minutes",
)

FETCHES_PER_REQUEST = 50
FETCH_BYTES = 16 * 1024
"""Of each partition. A larger batch is left out of the response, unless nothing else is asked."""

FETCH_WAIT_MS = 500
"""For records in remote storage."""

LAST_FETCH_BY_NAME = 12
"""The last version of Fetch that names topics; the first that is sent knows leader epochs."""
FIRST_FETCH_WITH_EPOCHS = 9

Fetch: TypeAlias = Callable[[Mapping[TopicPartition, int], int], Mapping[TopicPartition, Any]]
"""The batches from each offset on, so many partitions in a request."""


Known: TypeAlias = dict[tuple[TopicPartition, int], int]
"""The timestamps of records, by partition and offset."""


def in_doubt(
    times_ms: Mapping[TopicPartition, int],
    offsets: Found,
    stamps_ms: Known,
    logs: Mapping[TopicPartition, LogRange],
    now_ms: int,
) -> dict[TopicPartition, tuple[int, ...]]:
    """The offsets of the records that tell whether what stands in front of the answers is old."""
    doubtful: dict[TopicPartition, tuple[int, ...]] = {}
    for at, (start, end) in logs.items():
        answer = offsets.get(at, NOT_ANSWERED)
        if isinstance(answer, Failure):
            if answer is AGE_IS_HIDDEN and start < end:
                doubtful[at] = (start,)  # this may be why
            continue
        last = (end if answer is None else min(answer, end)) - 1
        behind_ms = now_ms if answer is None else stamps_ms.get((at, answer), now_ms)
        longest_gap_ms = min(LONGEST_GAP_MS, (now_ms - times_ms[at]) // GAP_IN_AGE)
        is_gap = behind_ms - times_ms[at] > longest_gap_ms
        if last >= start and is_gap and (at, last) not in stamps_ms:
            doubtful[at] = (start, last)
    return doubtful


class RecordStamps:
    """Thread-safe. Remembers which records have a timestamp, as long as the same leader leads."""

    def __init__(self) -> None:
        self._stamped: dict[TopicPartition, tuple[Log, frozenset[int]]] = {}
        self._refused_at_s: Mapping[str, float] = {}  # by topic; monotonic

    def keep(self, listed: Collection[str]) -> None:
        """Forgets all other topics."""
        names = frozenset(listed)
        self._refused_at_s = {
            topic: at_s for topic, at_s in self._refused_at_s.items() if topic in names
        }
        for at in [at for at in list(self._stamped) if at.topic not in names]:
            self._stamped.pop(at, None)

    def unknown(
        self,
        offsets: Mapping[TopicPartition, tuple[int, ...]],
        logs: Mapping[TopicPartition, Log | None],
        fetch: Fetch,
        first_dated: Callable[[Collection[TopicPartition]], Found],
    ) -> dict[TopicPartition, Failure]:
        """Those partitions whose records at these offsets have no timestamp, or can't be read.
        ``first_dated`` looks for the first record that has one."""
        failed = self._failed(offsets, logs, fetch)
        refused = {at for at, failure in failed.items() if failure.code == TOPIC_REFUSED}
        now_s = dict.fromkeys((at.topic for at in refused), time.monotonic())
        self._refused_at_s = now_s | self._believed()
        for at, log in logs.items():
            if log is not None and at not in failed:
                self._stamped[at] = log, frozenset(offsets[at])
        unknown = {at: failure for at, failure in failed.items() if at not in refused}
        first_offsets = first_dated(refused) if refused else {}
        for at in refused:
            first = first_offsets.get(at, NEEDS_READ)  # remote storage is not asked
            if isinstance(first, Failure):
                unknown[at] = first
            elif first != offsets[at][0]:
                unknown[at] = AGE_UNKNOWN
        return unknown

    def _failed(
        self,
        offsets: Mapping[TopicPartition, tuple[int, ...]],
        logs: Mapping[TopicPartition, Log | None],
        fetch: Fetch,
    ) -> dict[TopicPartition, Failure]:
        """Why the timestamps of these records are not known, by partition. All first records are
        fetched before the last ones, which are not looked at where the first one has failed."""
        may_not_read = self._believed()
        failed = {at: MAY_NOT_READ for at in offsets if at.topic in may_not_read}
        for turn in range(max(map(len, offsets.values()), default=0)):
            offsets_in_turn = {
                at: records[turn]
                for at, records in offsets.items()
                if at not in failed and turn < len(records)
                if not self._has_stamp(at, logs.get(at), records[turn])
            }
            answers = _stamps(offsets_in_turn, fetch)
            failed |= {at: answer for at, answer in answers.items() if isinstance(answer, Failure)}
        return failed

    def _believed(self) -> dict[str, float]:
        since_s = time.monotonic() - REFUSED_FOR_S
        return {topic: at_s for topic, at_s in self._refused_at_s.items() if at_s > since_s}

    def _has_stamp(self, at: TopicPartition, log: Log | None, offset: int) -> bool:
        """Whether the record was seen to have one in the same log."""
        known_log, stamped = self._stamped.get(at, (None, frozenset()))
        return known_log == log and offset in stamped


def fetch_request(
    wanted: Mapping[str, Collection[OffsetQuery]],
    isolation: int = IsolationLevel.READ_UNCOMMITTED,
    wait_ms: int = FETCH_WAIT_MS,
    each_bytes: int = FETCH_BYTES,
) -> Any:
    """For the batches from those offsets on, of each partition at least one if it is alone."""
    topic = FetchRequest.FetchTopic
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=FETCHES_PER_REQUEST * each_bytes,
        isolation_level=isolation,
        topics=[
            topic(
                topic=name,
                partitions=[
                    topic.FetchPartition(
                        partition=query.partition,
                        current_leader_epoch=query.leader_epoch,
                        fetch_offset=query.value,
                        partition_max_bytes=each_bytes,
                    )
                    for query in partitions
                ],
            )
            for name, partitions in wanted.items()
        ],
        min_version=FIRST_FETCH_WITH_EPOCHS,
        max_version=LAST_FETCH_BY_NAME,
    )


def _stamps(
    offsets: Mapping[TopicPartition, int], fetch: Fetch
) -> dict[TopicPartition, int | Failure]:
    """The timestamp of the first record at or behind each offset."""
    batches = dict(fetch(offsets, FETCHES_PER_REQUEST)) if offsets else {}
    if large := {at: offsets[at] for at, answer in batches.items() if not answer}:
        batches |= fetch(large, 1)
    return {
        at: answer if isinstance(answer, Failure) else stamp_at(offset, answer)
        for at, offset in offsets.items()
        for answer in [batches.get(at, NOT_ANSWERED)]
    }


def stamp_at(offset: int, batches: bytes | None) -> int | Failure:
    """The timestamp of the first record at or behind the offset; `AGE_UNKNOWN`: it has none."""
    try:
        for batch in MemoryRecords(batches or b""):
            stamp_ms = _in_batch(offset, batch)
            if stamp_ms is not None:
                return stamp_ms if stamp_ms >= 0 else AGE_UNKNOWN
    except (KafkaError, ValueError, AssertionError) as error:
        return failure_of_exception(error)
    return Failure("NOT_ANSWERED", f"the leader sent no record from offset {offset} on")


def _in_batch(offset: int, batch: Any) -> int | None:
    """None: the batch ends before the offset. The old formats know no, or one, time for each; of a
    batch that can't be unpacked the largest one counts."""
    try:
        stamps = (record.timestamp for record in batch if record.offset >= offset)
        return next((-1 if stamp is None else int(stamp) for stamp in stamps), None)
    except UnsupportedCodecError:
        is_over = getattr(batch, "last_offset", batch.base_offset) < offset
        return None if is_over else int(getattr(batch, "max_timestamp", -1))
