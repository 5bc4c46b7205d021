"""DeleteRecords: what Kafka answers, and what becomes of a request without an answer."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from retentiond.kafka.interface import DeleteFailure, RequestResult
from retentiond.model import Failure, TopicPartition
from tests.support.fakes.log import FakePartition


class HowDeletionEnds(Enum):
    """What becomes of the next request for a partition."""

    TIMES_OUT_APPLIED = "times_out_applied"  # a slow follower
    TIMES_OUT_LOST = "times_out_lost"  # it never reached the leader
    TIMES_OUT_LATE = "times_out_late"  # a frozen leader: `FakeCluster.apply_late` thaws it
    MOVED = "moved"  # asked the wrong broker
    REFUSED = "refused"  # not allowed


TIMED_OUT = DeleteFailure(
    RequestResult.UNKNOWN, Failure("REQUEST_TIMED_OUT", "Broker: Request timed out")
)
MOVED = DeleteFailure(
    RequestResult.MOVED,
    Failure("NOT_LEADER_FOR_PARTITION", "Broker: Not leader for partition"),
)

TOO_LATE = DeleteFailure(
    RequestResult.NOT_SENT,
    Failure("TOO_LATE", "the groups were read too long ago when the request was about to go out"),
)

SILENT = DeleteFailure(
    RequestResult.NOT_SENT,
    Failure("LEADER_NOT_AVAILABLE", "the partition's leader did not answer right before"),
)


def refused(code: str, message: str) -> DeleteFailure:
    return DeleteFailure(RequestResult.REFUSED, Failure(code, message))


def refusal(
    partition: FakePartition, offset: int, internal: bool, policy: str
) -> DeleteFailure | None:
    """Why Kafka would not delete, in the order in which it looks."""
    if internal:
        return refused("INVALID_TOPIC_EXCEPTION", "Broker: Invalid topic")
    if partition.leader is None:
        return DeleteFailure(
            RequestResult.MOVED, Failure("LEADER_NOT_AVAILABLE", "Broker: Leader not available")
        )
    if partition.moved:
        return MOVED
    if "delete" not in policy.split(","):
        return refused("POLICY_VIOLATION", "Broker: Policy violation")
    if offset > partition.high_watermark:
        return refused("OFFSET_OUT_OF_RANGE", "Broker: Offset out of range")
    return None


def check(cutoffs: Mapping[TopicPartition, int]) -> None:
    """Raises ValueError, as the interface promises, before anything is deleted."""
    for partition, cutoff in cutoffs.items():
        if cutoff <= 0:
            raise ValueError(f"refusing to delete {partition} up to {cutoff}")
