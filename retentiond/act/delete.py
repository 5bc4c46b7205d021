"""Asks the leaders to delete what was approved, and says what became of each partition.

Invariant: what will be deleted is on disk before its request goes out, and its outcome after.
At whatever point the process ends, the journal therefore says nothing false: an intent without
outcome is open, and `retentiond.act.reconcile` reads back what it can.

An answer is taken for what it proves and no more: only the broker's word or the log start
offset itself makes an outcome `deleted`, only a refusal of the one request that went out makes
it `failed`. The rest is `unknown`: a request that timed out may still be applied, and a leader
that says it leads no more may have moved its log start before it lost the lead (KIP-107: it
waits for its followers in between).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from retentiond.act.approved import Approved
from retentiond.act.journal import Journal
from retentiond.act.readback import LogStarts, not_read, read_log_starts
from retentiond.kafka.port import DeleteFailure, Kafka, RequestResult, TopicDescription
from retentiond.model import DeletionOutcome, Failure, Outcome, TopicPartition

Answer: TypeAlias = "int | DeleteFailure"  # the low watermark, or why there is none


class Stop(Protocol):
    """Set when the process is to end; `threading.Event` is one."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How requests go out. Retries are for moved leaders only: the new one needs to be told."""

    batch_size: int = 5000  # partitions in one request; each takes the broker 0.05 to 0.25 ms
    attempts: int = 3
    backoff_seconds: float = 0.5  # before the second attempt; grows by as much each time
    max_evidence_age_ms: int = 30_000


DEFAULT_PACE = Pace()


def no_brake() -> None:
    """Nobody keeps deletions from going on."""


@dataclass(frozen=True, slots=True)
class _Run:
    kafka: Kafka
    now: Callable[[], int]
    stop: Stop
    evidence_at_ms: int
    brake: Callable[[], object]
    pace: Pace

    def objection(self) -> str | None:
        """Why no request may go out any more, or not on the evidence at hand."""
        if pause := self.brake():
            return str(pause)
        age_ms = self.now() - self.evidence_at_ms
        if age_ms < 0:
            return "the clock was set back since the groups were read"
        if age_ms > self.pace.max_evidence_age_ms:
            return (
                f"the groups were read {age_ms / 1000:.1f} s ago, "
                f"longer than {self.pace.max_evidence_age_ms / 1000:.1f} s"
            )
        return None


def execute(
    approved: Sequence[Approved],
    kafka: Kafka,
    journal: Journal,
    *,
    cycle_id: str,
    evidence_at_ms: int,
    now: Callable[[], int],
    stop: Stop,
    brake: Callable[[], object] = no_brake,
    pace: Pace = DEFAULT_PACE,
) -> tuple[DeletionOutcome, ...]:
    """One outcome for each approved deletion, in order.

    ``evidence_at_ms`` is when the guard's second reading began, ``now`` gives the time in the
    same epoch milliseconds. ``stop`` ends it between batches, and so does ``brake`` for as long as
    it gives a reason; a batch that went out is answered
    and recorded, but not read back: a silent broker would hold up the end, and the next start
    reads it back anyway. Raises `StateError` when the journal fails: before its batch goes out,
    or leaving the batch's intents open.
    """
    run = _Run(kafka, now, stop, evidence_at_ms, brake, pace)
    outcomes: list[DeletionOutcome] = []
    for start in range(0, len(approved), pace.batch_size):
        batch = approved[start : start + pace.batch_size]
        objection = "retentiond is stopping" if stop.is_set() else run.objection()
        if objection is not None:
            outcomes.extend(_not_attempted(each, objection) for each in batch)
            continue
        journal.intend(cycle_id, batch, now(), evidence_at_ms=evidence_at_ms)
        settled = _delete(batch, run)
        journal.settle(cycle_id, settled, now())
        outcomes.extend(settled)
    return tuple(outcomes)


def _delete(batch: Sequence[Approved], run: _Run) -> list[DeletionOutcome]:
    objection = run.objection()  # again: writing the intents may have taken long
    if objection is not None:
        return [_not_attempted(each, objection) for each in batch]
    answers = _ask(batch, run)
    unclear = [
        each.topic_partition
        for each in batch
        if _proves_nothing(answers[each.topic_partition], each.offset)
    ]
    log_starts = not_read(unclear) if run.stop.is_set() else read_log_starts(run.kafka, unclear)
    return [_outcome(each, answers[each.topic_partition], log_starts) for each in batch]


def _ask(batch: Sequence[Approved], run: _Run) -> dict[TopicPartition, Answer]:
    """Each partition's last answer."""
    answers = _request(run.kafka, batch)
    asked: Sequence[Approved] = batch
    for attempt in range(1, run.pace.attempts):
        moved = [each for each in asked if _has_moved(answers[each.topic_partition])]
        if not moved or run.stop.wait(run.pace.backoff_seconds * attempt):
            break
        asked = _still_the_same(run.kafka, moved)
        if not asked or run.objection() is not None:
            break
        again = _request(run.kafka, asked)
        answers |= {partition: _second(answer) for partition, answer in again.items()}
    return answers


def _second(answer: Answer) -> Answer:
    """A refusal of the second request says nothing about the first."""
    if isinstance(answer, DeleteFailure) and answer.result is RequestResult.REFUSED:
        return replace(answer, result=RequestResult.UNKNOWN)
    return answer


def _request(kafka: Kafka, asked: Sequence[Approved]) -> dict[TopicPartition, Answer]:
    cutoffs = {each.topic_partition: each.offset for each in asked}
    lost: DeleteFailure
    try:
        answers = kafka.delete_records(cutoffs)
    except Exception as exc:  # noqa: BLE001 - whatever it was, the request may have gone out
        lost = DeleteFailure(RequestResult.UNKNOWN, Failure(type(exc).__name__, str(exc)))
        answers = {}
    else:
        lost = DeleteFailure(RequestResult.UNKNOWN, Failure("NO_ANSWER", "nothing came back"))
    return {partition: answers.get(partition, lost) for partition in cutoffs}


def _still_the_same(kafka: Kafka, moved: Sequence[Approved]) -> list[Approved]:
    """Those whose topic, looked up anew, still has its id: DeleteRecords goes by name."""
    try:
        kafka.topic_names()  # refreshes the client's idea of who leads
        described = kafka.describe_topics({each.topic for each in moved})
    except Exception:  # noqa: BLE001 - then nobody can say whose name it is
        return []
    return [each for each in moved if _topic_id(described.get(each.topic)) == each.topic_id]


def _topic_id(described: TopicDescription | Failure | None) -> str | None:
    return described.topic_id if isinstance(described, TopicDescription) else None


def _has_moved(answer: Answer) -> bool:
    return isinstance(answer, DeleteFailure) and answer.result is RequestResult.MOVED


def _proves_nothing(answer: Answer, cutoff: int) -> bool:
    if isinstance(answer, DeleteFailure):
        return answer.result is not RequestResult.REFUSED
    return answer < cutoff


def _outcome(approved: Approved, answer: Answer, log_starts: LogStarts) -> DeletionOutcome:
    if not _proves_nothing(answer, approved.offset):
        if isinstance(answer, DeleteFailure):
            return _of(approved, Outcome.FAILED, error=str(answer.failure))
        return _of(approved, Outcome.DELETED, low_watermark=answer)
    proof = log_starts.proof(approved.topic_partition, approved.topic_id, approved.offset)
    if proof.log_start_offset is not None:
        return _of(approved, Outcome.DELETED, low_watermark=proof.log_start_offset)
    if isinstance(answer, DeleteFailure):
        return _of(approved, Outcome.UNKNOWN, error=f"{answer.failure}; {proof.note}")
    error = f"the broker answered with the low watermark {answer}; {proof.note}"
    return _of(approved, Outcome.UNKNOWN, low_watermark=answer, error=error)


def _not_attempted(approved: Approved, why: str) -> DeletionOutcome:
    return _of(approved, Outcome.NOT_ATTEMPTED, error=why)


def _of(
    approved: Approved,
    outcome: Outcome,
    *,
    low_watermark: int | None = None,
    error: str | None = None,
) -> DeletionOutcome:
    return DeletionOutcome(approved.topic, approved.partition, outcome, low_watermark, error)
