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
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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
    found = look_up(timestamps_ms)
    none_young = {at: timestamps_ms[at] for at, offset in found.items() if offset is None}
    if not none_young:
        return found
    stamps = newest(none_young)
    doubtful = {
        at: time_ms for at, time_ms in none_young.items() if not _is_older(stamps.get(at), time_ms)
    }
    again = look_up(doubtful) if doubtful else {}  # a record may have come since
    return found | {
        at: _why_not(stamps.get(at)) if offset is None else offset for at, offset in again.items()
    }


def _why_not(newest_ms: object) -> Failure:
    """Why "none is that young" does not count."""
    return newest_ms if isinstance(newest_ms, Failure) else AGE_IS_HIDDEN


def _is_older(newest_ms: object, than_ms: int) -> bool:
    """False where it is not known."""
    return isinstance(newest_ms, int) and newest_ms < than_ms


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

HALVINGS = 4
"""How often in a call what is left between two times is halved; the next call goes on with it."""

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
    ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int | Failure]]
    newest: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, object]]
    in_small_requests: Callable[[Mapping[TopicPartition, int]], Found]


@dataclass(frozen=True, slots=True)
class _Known:
    """All below ``offset`` is older than ``time_ms``, and so than any later time."""

    log: Log
    time_ms: int
    offset: int


class _Bounds(NamedTuple):
    log_start: int
    local_start: int
    end: int


class TieredLookups:
    """Remembers what was found; not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _Known] = {}
        self._asked_at: dict[TopicPartition, float] = {}
        self._windows: dict[TopicPartition, _Window | None] = {}

    def offsets_at(self, times_ms: Mapping[TopicPartition, int], ask: BrokerQueries) -> Found:
        """The offset of the first record at or after each time; where that can't be proven, a lower
        bound of it.

        What was found for the same time in the same log is not asked again, and what was found for
        an earlier one counts where this call can't ask any more.
        """
        logs = ask.logs(times_ms)
        known = {
            at: each
            for at, time_ms in times_ms.items()
            if (each := self._known.get(at)) and each.log == logs.get(at)
            if each.time_ms <= time_ms
        }
        found: Found = {
            at: each.offset for at, each in known.items() if each.time_ms == times_ms[at]
        }
        until = time.monotonic() + CALL_S
        turns = sorted(times_ms.keys() - found.keys(), key=lambda at: self._asked_at.get(at, 0.0))
        for row in _rows(turns, logs):
            if time.monotonic() >= until:
                break
            asked = self._look_up({at: times_ms[at] for at in row}, ask, until)
            self._asked_at |= dict.fromkeys(row, time.monotonic())
            found |= {at: answer for at, answer in asked.items() if not _is_busy(answer)}
        for at in turns:
            answer = found.get(at, AGE_PENDING)
            earlier = known.get(at)
            if earlier and answer is not None:
                proven = -1 if isinstance(answer, Failure) else answer
                answer = max(proven, earlier.offset)
            found[at] = answer
            self._remember(at, logs.get(at), times_ms[at], answer)
        return found

    def keep(self, listed: Collection[str]) -> None:
        """Nothing is remembered of partitions of other topics."""
        topics = frozenset(listed)
        for remembered in (self._known, self._asked_at, self._windows):
            for at in [at for at in remembered if at.topic not in topics]:
                del remembered[at]

    def _remember(
        self, at: TopicPartition, log: Log | None, time_ms: int, found: int | Failure | None
    ) -> None:
        before = self._known.get(at)
        is_later = before is None or before.log != log or before.time_ms <= time_ms
        if log is not None and isinstance(found, int) and is_later:
            self._known[at] = _Known(log, time_ms, found)

    def _look_up(
        self, times_ms: Mapping[TopicPartition, int], ask: BrokerQueries, until: float
    ) -> Found:
        answers: Found = {}
        figures: dict[TopicPartition, list[int]] = {at: [] for at in times_ms}
        for read in (ask.log_starts, ask.local_starts, ask.ends):
            for at, figure in read(list(figures)).items():
                if isinstance(figure, Failure):
                    answers[at] = figure
                    del figures[at]
                else:
                    figures[at].append(figure)
        bounds = {at: _Bounds(*each) for at, each in figures.items()}
        answers |= _patiently({at: times_ms[at] for at in bounds}, ask, until)
        doubtful = {
            at: times_ms[at]
            for at, (log_start, local_start, _) in bounds.items()
            if 0 < log_start < local_start and _is_local(answers[at], local_start)
        }
        for at, bound in self._proven(doubtful, bounds, ask, until).items():
            if isinstance(bound, Failure) or bound < bounds[at].local_start:
                answers[at] = bound
        none_young = [at for at in bounds if answers[at] is None]
        newest = ask.newest(none_young) if none_young else {}
        for at in none_young:
            stamp = newest.get(at)
            if not isinstance(stamp, int) or stamp >= times_ms[at]:
                answers[at] = AGE_IS_HIDDEN
        return answers

    def _proven(
        self,
        times_ms: Mapping[TopicPartition, int],
        bounds: Mapping[TopicPartition, _Bounds],
        ask: BrokerQueries,
        until: float,
    ) -> dict[TopicPartition, int | Failure]:
        """Up to where the remote parts are surely older, by asking about earlier times. A search
        that finds no end now goes on with the next call."""
        proven: dict[TopicPartition, int | Failure] = dict.fromkeys(times_ms, AGE_PENDING)
        searches = {at: _search(each, self._windows.get(at)) for at, each in times_ms.items()}
        steps = {at: step for at, search in searches.items() if (step := next(search, None))}
        while steps and time.monotonic() < until:
            answers = _patiently({at: step.probe_ms for at, step in steps.items()}, ask, until)
            steps = {}
            for at, answer in answers.items():
                if isinstance(answer, Failure):  # one that is slow now is not asked on and on
                    continue
                is_remote = answer is not None and answer < bounds[at].local_start
                if answer is not None and is_remote:
                    before = proven[at]
                    proven[at] = max(0 if isinstance(before, Failure) else before, answer + 1)
                try:
                    steps[at] = searches[at].send(is_remote)
                    self._windows[at] = steps[at].window
                except StopIteration as end:
                    self._windows[at] = end.value
                    if proven[at] is AGE_PENDING:
                        proven[at] = AGE_UNPROVEN
        return proven


class _Window(NamedTuple):
    """Times: the answer to ``hit_ms`` was remote, None: to none yet; that to ``missed_ms`` was
    not."""

    hit_ms: int | None
    missed_ms: int


class _Step(NamedTuple):
    """The time to ask about next, and how far the search has come."""

    probe_ms: int
    window: _Window


def _search(before_ms: int, last: _Window | None) -> Generator[_Step, bool, _Window | None]:
    """Which times to ask about, so that the answer comes close to the remote part's end; it is
    sent whether an answer was remote. It begins where the ``last`` search ended."""
    if last is None or last.missed_ms >= before_ms:
        last = _Window(None, before_ms)
    hit, missed = None, last.missed_ms
    if last.hit_ms is not None:
        if (yield _Step(missed, last)):
            hit, missed = missed, before_ms
        elif (yield _Step(last.hit_ms, last)):
            hit = last.hit_ms
    earlier = [probe for step in SEARCH_STEPS_MS if 0 < (probe := before_ms - step) < missed]
    for probe in earlier if hit is None else ():
        if (yield _Step(probe, _Window(None, missed))):
            hit = probe
            break
        missed = probe
    if hit is None:
        return None
    for _ in range(HALVINGS):
        middle = (hit + missed) // 2
        if middle in (hit, missed):
            break
        if (yield _Step(middle, _Window(hit, missed))):
            hit = middle
        else:
            missed = middle
    return _Window(hit, missed)


def _is_local(answer: int | Failure | None, local_start: int) -> bool:
    return answer is None or (isinstance(answer, int) and answer >= local_start)


def _is_busy(answer: int | Failure | None) -> bool:
    return isinstance(answer, Failure) and answer.code == QUEUE_IS_FULL


def _patiently(times_ms: Mapping[TopicPartition, int], ask: BrokerQueries, until: float) -> Found:
    """With further attempts where a broker's queue was full, as long as there is time."""
    found = ask.in_small_requests(times_ms) if times_ms else {}
    for _ in range(ATTEMPTS - 1):
        left = {at: each for at, each in times_ms.items() if _is_busy(found[at])}
        if not left or time.monotonic() + RETRY_S >= until:
            break
        time.sleep(RETRY_S)
        found |= ask.in_small_requests(left)
    return found


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
