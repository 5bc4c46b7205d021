"""Partition leaders in memory that answer DeleteRecords as they are told to."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Event

from retentiond.act.approved import Approved, CommitEvidence
from retentiond.kafka.interface import DeleteFailure, OffsetBound, RequestResult, TopicDescription
from retentiond.model import DeletionOutcome, Failure, GroupKind, PlanRow, TopicPartition
from tests.support.builders.deletable_topics import PartOfKafka
from tests.support.builders.guard_readings import deletion


class Reply(Enum):
    """What a leader does with one request."""

    APPLIES = "moves its log start offset and says so"
    APPLIES_AND_IS_LOST = "moves its log start offset, and the request times out"
    IS_LOST = "the request times out"
    LAGS = "answers with a low watermark below the cutoff"
    REFUSES = "refuses"
    MOVED = "no longer leads"
    APPLIES_AND_MOVES = "moves its log start offset, and says that it no longer leads"
    SAYS_NOTHING = "is missing from the answer"
    SILENT = "did not answer the look, and was sent nothing"


@dataclass
class Log:
    topic_id: str
    log_start_offset: int


class Leaders(PartOfKafka):  # type: ignore[misc]  # as said there
    """A `Kafka` of logs, as far as act/ asks for it. ``replies`` are used up one a request; after
    that requests apply."""

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.logs = {at: Log(f"id-of-{at.topic}", 10) for at in partitions}
        self.replies: dict[TopicPartition, list[Reply]] = {}
        self.calls: list[str] = []
        self.requests: list[dict[TopicPartition, int]] = []
        self.deadlines: list[float] = []  # of the requests
        self.unreadable: set[TopicPartition] = set()  # their log start offset can't be read
        self.failing: dict[str, Exception] = {}  # by method

    def look_before_deleting(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[str, str | Failure]:
        self._called("look_before_deleting")
        ids = {at.topic: log.topic_id for at, log in self.logs.items()}
        unknown = Failure("UNKNOWN_TOPIC_OR_PARTITION", "no such topic")
        return {at.topic: ids.get(at.topic, unknown) for at in partitions}

    def delete_records(
        self, cutoffs: Mapping[TopicPartition, int], *, not_after: float = math.inf
    ) -> Mapping[TopicPartition, int | DeleteFailure]:
        self._called("delete_records")
        self.requests.append(dict(cutoffs))
        self.deadlines.append(not_after)
        answers: dict[TopicPartition, int | DeleteFailure] = {}
        for at, cutoff in cutoffs.items():
            replies = self.replies.get(at)
            reply = replies.pop(0) if replies else Reply.APPLIES
            answer = self.answer(at, cutoff, reply)
            if answer is not None:
                answers[at] = answer
        return answers

    def answer(self, at: TopicPartition, cutoff: int, reply: Reply) -> int | DeleteFailure | None:
        log = self.logs[at]
        if reply in (Reply.APPLIES, Reply.APPLIES_AND_IS_LOST, Reply.APPLIES_AND_MOVES):
            log.log_start_offset = max(log.log_start_offset, cutoff)
        match reply:
            case Reply.APPLIES | Reply.LAGS:
                return log.log_start_offset
            case Reply.APPLIES_AND_IS_LOST | Reply.IS_LOST:
                return _failure(RequestResult.UNKNOWN, "REQUEST_TIMED_OUT")
            case Reply.REFUSES:
                return _failure(RequestResult.REFUSED, "POLICY_VIOLATION")
            case Reply.MOVED | Reply.APPLIES_AND_MOVES:
                return _failure(RequestResult.MOVED, "NOT_LEADER_FOR_PARTITION")
            case Reply.SILENT:
                return _failure(RequestResult.NOT_SENT, "LEADER_NOT_AVAILABLE")
            case Reply.SAYS_NOTHING:
                return None

    def offsets(
        self, partitions: Collection[TopicPartition], bound: OffsetBound
    ) -> Mapping[TopicPartition, int | Failure]:
        self._called("offsets")
        assert bound is OffsetBound.LOG_START
        return {
            at: Failure("LEADER_NOT_AVAILABLE", "no leader")
            if at in self.unreadable or at not in self.logs
            else self.logs[at].log_start_offset
            for at in partitions
        }

    def describe_topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure]:
        self._called("describe_topics")
        ids = {at.topic: log.topic_id for at, log in self.logs.items()}
        return {
            name: TopicDescription(name, ids[name], is_internal=False, partitions=())
            if name in ids
            else Failure("UNKNOWN_TOPIC_OR_PARTITION", "no such topic")
            for name in names
        }

    def topic_names(self) -> frozenset[str]:
        self._called("topic_names")
        return frozenset(at.topic for at in self.logs)

    def cluster_id(self) -> str:
        self._called("cluster_id")
        return "cluster-a"

    def _called(self, method: str) -> None:
        self.calls.append(method)
        if method in self.failing:
            raise self.failing[method]


def _failure(result: RequestResult, code: str) -> DeleteFailure:
    return DeleteFailure(result, Failure(code, "as told"))


def approved(at: TopicPartition, cutoff: int = 100) -> Approved:
    """What the guard makes of `deletion`."""
    row: PlanRow = deletion(at, cutoff)
    return Approved(
        topic=at.topic,
        partition=at.partition,
        topic_id=f"id-of-{at.topic}",
        cutoff=cutoff,
        log_start_offset=10,
        evidence=CommitEvidence(
            (("billing", GroupKind.CLASSIC), ("search", GroupKind.CONSUMER)), (cutoff + 20, cutoff)
        ),
        row=row,
    )


def by_partition(outcomes: Sequence[DeletionOutcome]) -> dict[TopicPartition, DeletionOutcome]:
    return {TopicPartition(each.topic, each.partition): each for each in outcomes}


class CountingStop(Event):
    """Waits for nothing, and tells how long it was asked to wait; stops after ``patience``."""

    def __init__(self, patience: int | None = None) -> None:
        super().__init__()
        self.waits: list[float] = []
        self._patience = patience

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        if self._patience is not None and len(self.waits) >= self._patience:
            self.set()
        return self.is_set()
