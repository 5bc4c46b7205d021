"""What a look-up by time proves: whether "no record is that young" can be believed, also where a
part of the log is in remote storage (KIP-405).

A broker looks up a time in the first segment that has, or had, a record of it or of later. Where
all such records of that segment are deleted and merely on disk, it finds nothing, whatever the
segments behind hold. They are on disk until the broker's next check, and longer in the active
segment. Any tool that deletes young records brings that about, Kafka Streams among them. So the
answer counts only where the newest timestamp on the disk, deleted records included, says the same.

A broker searches the remote segments first, in one of its few threads for remote reads, and then
the local ones. Two things are different from a log that is all local:

- It goes on with the local segments where the first remote one that has, or had, a record of that
  time or of later has none any more, because such records were deleted; whatever the remote
  segments behind hold. Only the segment with the log start can be such a one. So an answer in the
  local part, or none, proves nothing about the remote part, unless nothing was ever deleted. The
  largest timestamp, which the look-up uses, is the local one's (KAFKA-17552).
- More look-ups at once than the threads and their queue take fail, and consumers' reads with them.

An answer in the remote part is right. And the answer to an earlier time, if it lies there, is a
bound: the segment with the log start, where it hides young records, has none left itself; so all up
to that answer is older than the time that was asked about at first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retentiond.formatting import MINUTE_MS
from retentiond.kafka.interface import AGE_NOT_YET_KNOWN
from retentiond.kafka.topics import Leader
from retentiond.model import Failure, TopicPartition

Found = dict[TopicPartition, int | Failure | None]
"""The first offset that is young, None: there is none."""

AGE_IS_HIDDEN = Failure(
    "AGE_HIDDEN",
    "deleted records that are still on the leader's disk hide how old the others are; it ends when "
    "they are old enough themselves, or when the leader removes their segment "
    "(log.retention.check.interval.ms; the active segment stays)",
)


def offsets_at(
    timestamps_ms: Mapping[TopicPartition, int],
    look_up: Callable[[Mapping[TopicPartition, int]], Found],
    newest: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, object]],
) -> Found:
    """``look_up`` asks the brokers for times, ``newest`` for the largest timestamps that they
    have; -1: there is none; a `Failure`, or nothing: it is not known."""
    offsets = look_up(timestamps_ms)
    hidden = _hidden(offsets, timestamps_ms, newest)
    # A record may have come since.
    again = look_up({at: timestamps_ms[at] for at in hidden}) if hidden else {}
    return offsets | {at: hidden[at] if offset is None else offset for at, offset in again.items()}


def _hidden(
    offsets: Found,
    timestamps_ms: Mapping[TopicPartition, int],
    newest: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, object]],
) -> dict[TopicPartition, Failure]:
    """The partitions of which "none is that young" does not count, and why."""
    none_young = [at for at, offset in offsets.items() if offset is None]
    stamps = newest(none_young) if none_young else {}
    hidden = {}
    for at in none_young:
        newest_ms = stamps.get(at)
        if not isinstance(newest_ms, int) or newest_ms >= timestamps_ms[at]:
            hidden[at] = newest_ms if isinstance(newest_ms, Failure) else AGE_IS_HIDDEN
    return hidden


PARTITIONS_AT_ONCE = 4
"""Partitions that a broker is asked about at once: it has ten threads for it by default
(remote.log.reader.threads), and consumers want them, too."""

CALL_S = 10.0
"""How long one call goes on, but for the request that is under way then; what is known from earlier
counts, and the next call goes on."""

ATTEMPTS = 3

RETRY_S = 0.3
"""Before another attempt, for the queue to drain."""

QUEUE_IS_FULL = "UNKNOWN"
"""How `failure_of_code` calls UNKNOWN_SERVER_ERROR, which a full queue is answered with."""

SEARCH_STEPS_MS = tuple(15 * MINUTE_MS * 4**step for step in range(8))
"""How much earlier is asked about where a bound is sought: a quarter of an hour to 170 days."""

AGE_UNPROVEN = Failure(
    "AGE_HIDDEN",
    "the log begins in remote storage, where deleted records may hide how old the others are; it "
    "ends when Kafka's own retention has removed the first remote segment",
)

AGE_PENDING = Failure(
    AGE_NOT_YET_KNOWN,
    "look-ups in remote storage are made a few at a time; this partition's turn comes with one of "
    "the next",
)

Log: TypeAlias = tuple[object, Leader]
"""A topic's id, and who leads in which epoch: while both stay, records only come and go at the
ends."""


@dataclass(frozen=True, slots=True)
class BrokerQueries:
    """How brokers are asked. ``in_small_requests``: by time, `PARTITIONS_AT_ONCE` of each leader's
    partitions; ``newest`` as in `offsets_at`."""

    logs: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, Log | None]]
    log_starts: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int | Failure]]
    local_starts: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int | Failure]]
    newest: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, object]]
    in_small_requests: Callable[[Mapping[TopicPartition, int]], Found]


@dataclass(frozen=True, slots=True)
class _Known:
    """All below ``offset`` is older than ``time_ms``, and so than any later time."""

    log: Log
    time_ms: int
    offset: int


class TieredLookups:
    """Remembers what was found; not thread-safe. ``_steps``: with which of `SEARCH_STEPS_MS` the
    next search begins."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _Known] = {}
        self._asked_at: dict[TopicPartition, float] = {}
        self._steps: dict[TopicPartition, int] = {}

    def offsets_at(self, times_ms: Mapping[TopicPartition, int], ask: BrokerQueries) -> Found:
        """The offset of the first record at or after each time; where that can't be proven, a lower
        bound of it.

        What was found for the same time in the same log is not asked again, and what was found for
        an earlier one counts where this call can't ask any more.
        """
        logs = ask.logs(times_ms)
        lookups = {
            at: looked_up
            for at, time_ms in times_ms.items()
            if (looked_up := self._known.get(at)) and looked_up.log == logs.get(at)
            if looked_up.time_ms <= time_ms
        }
        offsets: Found = {
            at: lookup.offset for at, lookup in lookups.items() if lookup.time_ms == times_ms[at]
        }
        until = time.monotonic() + CALL_S
        turns = sorted(times_ms.keys() - offsets.keys(), key=lambda at: self._asked_at.get(at, 0.0))
        for row in _rows(turns, logs):
            if time.monotonic() >= until:
                break
            answers = self._look_up({at: times_ms[at] for at in row}, ask, until)
            self._asked_at |= dict.fromkeys(row, time.monotonic())
            offsets |= {at: answer for at, answer in answers.items() if not _is_busy(answer)}
        for at in turns:
            answer = offsets.get(at, AGE_PENDING)
            earlier = lookups.get(at)
            if earlier and answer is not None:
                proven = -1 if isinstance(answer, Failure) else answer
                answer = max(proven, earlier.offset)
            offsets[at] = answer
            self._remember(at, logs.get(at), times_ms[at], answer)
        return offsets

    def keep(self, listed: Collection[str]) -> None:
        """Forgets all other topics."""
        topics = frozenset(listed)
        for remembered in (self._known, self._asked_at, self._steps):
            for at in [at for at in remembered if at.topic not in topics]:
                del remembered[at]

    def _remember(
        self, at: TopicPartition, log: Log | None, time_ms: int, offset: int | Failure | None
    ) -> None:
        before = self._known.get(at)
        is_later = before is None or before.log != log or before.time_ms <= time_ms
        if log is not None and isinstance(offset, int) and is_later:
            self._known[at] = _Known(log, time_ms, offset)

    def _look_up(
        self, times_ms: Mapping[TopicPartition, int], ask: BrokerQueries, until: float
    ) -> Found:
        starts, local_starts = ask.log_starts(times_ms), ask.local_starts(times_ms)
        answers: Found = {}
        remote_ends: dict[TopicPartition, int] = {}  # where deleted records may hide others
        for at in times_ms:
            log_start, local_start = starts[at], local_starts[at]
            if isinstance(log_start, Failure) or isinstance(local_start, Failure):
                answers[at] = log_start if isinstance(log_start, Failure) else local_start
            elif 0 < log_start < local_start:
                remote_ends[at] = local_start
        readable = {at: time_ms for at, time_ms in times_ms.items() if at not in answers}
        answers |= _patiently(readable, ask, until)
        doubtful = {
            at: local_start
            for at, local_start in remote_ends.items()
            if at in readable and _is_local(answers[at], local_start)
        }
        for at, bound in self._proven(times_ms, doubtful, ask, until).items():
            if isinstance(bound, Failure) or bound < doubtful[at]:
                answers[at] = bound
        return answers | _hidden(answers, times_ms, ask.newest)

    def _proven(
        self,
        times_ms: Mapping[TopicPartition, int],
        local_starts: Mapping[TopicPartition, int],
        ask: BrokerQueries,
        until: float,
    ) -> dict[TopicPartition, int | Failure]:
        """Up to where the remote parts are surely older, by asking about earlier times until the
        answer is remote. ``local_starts``: where they end. The next call goes on with a search that
        the time cuts off."""
        proven: dict[TopicPartition, int | Failure] = dict.fromkeys(local_starts, AGE_PENDING)
        left = {at: self._steps.get(at, 0) for at in local_starts}
        while left and time.monotonic() < until:
            probes = {at: times_ms[at] - SEARCH_STEPS_MS[step] for at, step in left.items()}
            answers = _patiently(
                {at: probe for at, probe in probes.items() if probe > 0}, ask, until
            )
            for at, step in [*left.items()]:
                answer = answers.get(at)
                if isinstance(answer, Failure):  # one that is slow now is not asked on and on
                    del left[at]
                elif answer is not None and answer < local_starts[at]:
                    proven[at] = answer + 1
                    self._steps[at] = max(0, step - 1)  # records go to remote storage meanwhile
                    del left[at]
                elif at in answers and step + 1 < len(SEARCH_STEPS_MS):
                    self._steps[at] = left[at] = step + 1
                else:
                    proven[at] = AGE_UNPROVEN
                    self._steps[at] = 0
                    del left[at]
        return proven


def _is_local(answer: int | Failure | None, local_start: int) -> bool:
    return answer is None or (isinstance(answer, int) and answer >= local_start)


def _is_busy(answer: int | Failure | None) -> bool:
    return isinstance(answer, Failure) and answer.code == QUEUE_IS_FULL


def _patiently(times_ms: Mapping[TopicPartition, int], ask: BrokerQueries, until: float) -> Found:
    """With further attempts where a broker's queue was full, as long as there is time."""
    offsets = ask.in_small_requests(times_ms) if times_ms else {}
    for _ in range(ATTEMPTS - 1):
        left = {at: time_ms for at, time_ms in times_ms.items() if _is_busy(offsets[at])}
        if not left or time.monotonic() + RETRY_S >= until:
            break
        time.sleep(RETRY_S)
        offsets |= ask.in_small_requests(left)
    return offsets


def _rows(
    turns: Iterable[TopicPartition], logs: Mapping[TopicPartition, Log | None]
) -> Iterable[list[TopicPartition]]:
    """In each at most `PARTITIONS_AT_ONCE` of one leader: what is asked about at once."""
    rows: dict[int, list[TopicPartition]] = {}
    counts: Counter[int | None] = Counter()
    for at in turns:
        log = logs.get(at)
        node = log[1].node if log else None
        rows.setdefault(counts[node] // PARTITIONS_AT_ONCE, []).append(at)
        counts[node] += 1
    return rows.values()
