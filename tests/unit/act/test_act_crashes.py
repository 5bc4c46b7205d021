"""The process ends, or something raises, at every step of a deletion and of its reconciliation.

Whatever the step, after the next start the audit log says nothing false: no log start offset
was moved without an intent, nothing is called deleted that is there, or failed that is gone.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection

import pytest

from retentiond.act.delete import EvidenceAge, execute, reconcile
from retentiond.kafka.interface import DeleteFailure, OffsetBound, TopicDescription
from retentiond.model import DeletionOutcome, Failure, Outcome, TopicPartition
from retentiond.state.audit import Audit
from retentiond.state.audit_records import read_deletions
from tests.support.builders.topic_leaders import CountingStop, Leaders, Reply, approved
from tests.unit.state.test_state_audit import CYCLE

PARTITIONS = [TopicPartition("orders", number) for number in range(7)]
REPLIES = {
    PARTITIONS[1]: [Reply.APPLIES_AND_IS_LOST],
    PARTITIONS[2]: [Reply.MOVED],
    PARTITIONS[3]: [Reply.REFUSES],
    PARTITIONS[4]: [Reply.IS_LOST],
    PARTITIONS[5]: [Reply.MOVED, Reply.APPLIES_AND_IS_LOST],
    PARTITIONS[6]: [Reply.APPLIES_AND_MOVES, Reply.REFUSES],
}
START, CUTOFF = 10, 100
SLICE_SIZE = 3


class Killed(BaseException):
    """As SIGKILL: nothing handles it."""


class Broken(Exception):
    """Something in the way raises: the network, the disk, a bug."""


class Steps:
    """Counts the steps that are reached; at number ``fatal`` it raises ``error``."""

    def __init__(self, fatal: int | None = None, error: type[BaseException] = Killed) -> None:
        self.reached: list[str] = []
        self._fatal = fatal
        self._error = error

    def reach(self, name: str) -> None:
        self.reached.append(name)
        if len(self.reached) - 1 == self._fatal:
            raise self._error(name)


class FragileLeaders(Leaders):
    def __init__(self, steps: Steps) -> None:
        super().__init__(PARTITIONS)
        self.replies = {at: list(replies) for at, replies in REPLIES.items()}
        self.steps = steps

    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int], *, not_after: float = math.inf
    ) -> Mapping[TopicPartition, int | DeleteFailure]:
        self.steps.reach("before the request")
        answers = super().delete_records(cutoffs, not_after=not_after)
        self.steps.reach("after the request")
        return answers

    def answer(self, at: TopicPartition, cutoff: int, reply: Reply) -> int | DeleteFailure | None:
        answer = super().answer(at, cutoff, reply)
        self.steps.reach(f"within the request, after {at}")
        return answer

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        self.steps.reach("before the log starts are read back")
        return super().offsets(partitions, bound)

    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        self.steps.reach("before the topics are described")
        return super().describe_topics(names)

    def look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]:
        self.steps.reach("before the last look")
        return super().look_before_deleting(partitions)


class FragileAudit(Audit):
    steps: Steps

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self.steps.reach("before the transaction")
        with super()._transaction() as connection:
            yield connection
            self.steps.reach("before the commit")
        self.steps.reach("after the commit")


def start(state_dir: Path, steps: Steps) -> FragileAudit:
    audit = FragileAudit.open(state_dir)
    audit.steps = steps
    return audit


def run(state_dir: Path, kafka: FragileLeaders, steps: Steps) -> list[DeletionOutcome]:
    audit = start(state_dir, steps)
    try:
        audit.record_cycle(CYCLE)
        outcomes: list[DeletionOutcome] = []
        for first in range(0, len(PARTITIONS), SLICE_SIZE):
            execute(
                [approved(at, CUTOFF) for at in PARTITIONS[first : first + SLICE_SIZE]],
                kafka,
                audit,
                cycle_id="cycle-1",
                evidence=EvidenceAge(0, 0.0),
                now=lambda: 1000,
                elapsed=lambda: 0.0,
                stop=CountingStop(),
                why_paused=lambda: None,
                outcomes=outcomes,
            )
        return outcomes
    finally:
        audit.close()


def start_again(state_dir: Path, kafka: FragileLeaders, steps: Steps) -> None:
    audit = start(state_dir, steps)
    kafka.steps = steps
    try:
        reconcile(audit, kafka, 2000)
    finally:
        audit.close()


def steps_of_a_run() -> list[str]:
    steps = Steps()
    with tempfile.TemporaryDirectory() as state_dir:
        run(Path(state_dir), FragileLeaders(steps), steps)
    return steps.reached


def steps_of_a_start_after(fatal: int) -> list[str]:
    steps = Steps()
    with tempfile.TemporaryDirectory() as state_dir:
        kafka = FragileLeaders(Steps(fatal))
        with pytest.raises(Killed):
            run(Path(state_dir), kafka, kafka.steps)
        start_again(Path(state_dir), kafka, steps)
    return steps.reached


STEPS = steps_of_a_run()
AFTER_THE_FIRST_REQUEST = STEPS.index("after the request")
STEPS_OF_A_START = steps_of_a_start_after(AFTER_THE_FIRST_REQUEST)


def check(state_dir: Path, kafka: FragileLeaders) -> None:
    audit = Audit.open(state_dir)
    try:
        recorded = {
            TopicPartition(r.row.topic, r.row.partition): r for r in read_deletions(audit.state_dir)
        }
        for at, log in kafka.logs.items():
            assert log.log_start_offset in (START, CUTOFF)
            if log.log_start_offset == CUTOFF:
                assert recorded[at].row.cutoff == CUTOFF
                assert recorded[at].outcome in (Outcome.DELETED, Outcome.UNKNOWN)
        for at, record in recorded.items():
            assert record.outcome is not None
            if record.outcome is Outcome.DELETED:
                assert kafka.logs[at].log_start_offset >= CUTOFF
            if record.outcome in (Outcome.FAILED, Outcome.NOT_ATTEMPTED):
                assert kafka.logs[at].log_start_offset == START
            assert record.evidence == tuple(approved(at, CUTOFF).evidence)
        assert {each.topic_partition for each in audit.unsettled("cluster-a")} == {
            at for at, record in recorded.items() if record.outcome is Outcome.UNKNOWN
        }
    finally:
        audit.close()


def test_the_run_that_is_interrupted_below_goes_through_every_kind_of_step(
    tmp_path: Path,
) -> None:
    outcomes = run(tmp_path, FragileLeaders(Steps()), Steps())

    assert [each.outcome for each in outcomes] == [
        Outcome.DELETED,
        Outcome.DELETED,
        Outcome.DELETED,
        Outcome.FAILED,
        Outcome.UNKNOWN,
        Outcome.DELETED,
        Outcome.DELETED,
    ]
    assert {step.partition(", after")[0] for step in STEPS} == {
        "before the transaction",
        "before the commit",
        "after the commit",
        "before the request",
        "within the request",
        "after the request",
        "before the last look",
        "before the topics are described",
        "before the log starts are read back",
    }


@pytest.mark.parametrize("fatal", range(len(STEPS)), ids=lambda n: f"{n}: {STEPS[n]}")
def test_when_the_process_is_killed_at_a_step_the_next_start_makes_the_audit_true(
    tmp_path: Path, fatal: int
) -> None:
    steps = Steps(fatal)
    kafka = FragileLeaders(steps)
    with pytest.raises(Killed):
        run(tmp_path, kafka, steps)

    start_again(tmp_path, kafka, Steps())

    check(tmp_path, kafka)


@pytest.mark.parametrize("fatal", range(len(STEPS)), ids=lambda n: f"{n}: {STEPS[n]}")
def test_when_a_step_raises_the_next_start_makes_the_audit_true(tmp_path: Path, fatal: int) -> None:
    steps = Steps(fatal, Broken)
    kafka = FragileLeaders(steps)
    by_audit = "transaction" in STEPS[fatal] or "commit" in STEPS[fatal]
    if by_audit:
        with pytest.raises(Broken):
            run(tmp_path, kafka, steps)
    else:  # what the cluster can't do is an outcome and not an error
        assert len(run(tmp_path, kafka, steps)) == len(PARTITIONS)
    steps_of_start = Steps()

    start_again(tmp_path, kafka, steps_of_start)

    check(tmp_path, kafka)


@pytest.mark.parametrize(
    "fatal", range(len(STEPS_OF_A_START)), ids=lambda n: f"{n}: {STEPS_OF_A_START[n]}"
)
@pytest.mark.parametrize("error", [Killed, Broken])
def test_when_the_start_is_interrupted_as_well_the_one_after_makes_the_audit_true(
    tmp_path: Path, fatal: int, error: type[BaseException]
) -> None:
    steps = Steps(AFTER_THE_FIRST_REQUEST)
    kafka = FragileLeaders(steps)
    with pytest.raises(Killed):
        run(tmp_path, kafka, steps)
    try:
        start_again(tmp_path, kafka, Steps(fatal, error))
    except (Killed, Broken):
        interrupted = True
    else:
        interrupted = False

    start_again(tmp_path, kafka, Steps())

    assert interrupted or (error is Broken and "before the" in STEPS_OF_A_START[fatal])
    check(tmp_path, kafka)
