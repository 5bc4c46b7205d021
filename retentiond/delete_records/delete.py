"""Sends the one request, and takes each answer for what it proves and no more.

A request that timed out may still be applied, minutes later even: its outcome is unknown, unless
the log start offset, read back, proves that it was. So is one that was refused after a request
to an earlier leader, which may have moved the log start before it lost the lead.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from retentiond.act.readback import LogStarts, read_log_starts
from retentiond.delete_records.cluster import Cluster
from retentiond.delete_records.item import Item
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.port import DeleteFailure, OffsetBound, RequestResult
from retentiond.model import Failure, Outcome, TopicPartition

ATTEMPTS = 3
"""Only for partitions whose leader moved: the new one needs to be asked too."""

BACKOFF_S = 0.5  # before the second attempt, and twice as much before the third

Answers = dict[TopicPartition, int | DeleteFailure]

SENTENCES = {
    "OFFSET_OUT_OF_RANGE": "the offset is beyond the high watermark; nothing was deleted",
    "POLICY_VIOLATION": "the topic's cleanup.policy has no delete; nothing was deleted",
    "TOPIC_AUTHORIZATION_FAILED": "you may not delete from it (that needs DELETE on the topic)",
    "TOPIC_EXCEPTION": "the broker deletes nothing from a topic like this",
}


def delete(
    cluster: Cluster,
    items: Sequence[Item],
    timeout_s: float,
    wait: Callable[[float], object] = time.sleep,
) -> list[Item]:
    """All items, in order; the pending ones with what became of them."""
    pending = [item for item in items if item.is_pending]
    answers = _ask(cluster, pending, timeout_s, wait)
    unclear = [item.at for item in pending if _is_unclear(answers[item.at])]
    log_starts = read_log_starts(cluster, unclear)
    return [
        _settled(item, answers[item.at], log_starts) if item.is_pending else item for item in items
    ]


def _ask(
    cluster: Cluster, pending: Sequence[Item], timeout_s: float, wait: Callable[[float], object]
) -> Answers:
    answers = _request(cluster, pending, timeout_s)
    for attempt in range(1, ATTEMPTS):
        moved = [item for item in pending if _has_moved(answers[item.at])]
        if not moved:
            break
        wait(BACKOFF_S * attempt)
        with contextlib.suppress(KafkaUnavailable):
            cluster.topic_names()  # refreshes the client's idea of who leads
        again = _request(cluster, moved, timeout_s)
        answers |= {at: _second(answer) for at, answer in again.items()}
    return answers


def _request(cluster: Cluster, asked: Sequence[Item], timeout_s: float) -> Answers:
    targets = {item.at: item.target for item in asked if item.target is not None}
    if not targets:
        return {}
    answers: Answers = {}
    lost = Failure("NO_ANSWER", "nothing came back")
    try:
        answers.update(cluster.delete_up_to(targets, timeout_s))
    except Exception as error:  # noqa: BLE001 - whatever it was, the request may have gone out
        lost = Failure(type(error).__name__, str(error))
    return {at: answers.get(at, DeleteFailure(RequestResult.UNKNOWN, lost)) for at in targets}


def _second(answer: int | DeleteFailure) -> int | DeleteFailure:
    """A refusal of the second request says nothing about the first."""
    if isinstance(answer, DeleteFailure) and answer.result is RequestResult.REFUSED:
        return replace(answer, result=RequestResult.UNKNOWN)
    return answer


def _has_moved(answer: int | DeleteFailure) -> bool:
    return isinstance(answer, DeleteFailure) and answer.result is RequestResult.MOVED


def _is_unclear(answer: int | DeleteFailure) -> bool:
    return isinstance(answer, DeleteFailure) and answer.result is not RequestResult.REFUSED


def _settled(item: Item, answer: int | DeleteFailure, log_starts: LogStarts) -> Item:
    if not isinstance(answer, DeleteFailure):
        return replace(item, outcome=Outcome.DELETED, low_watermark=answer)
    failure = answer.failure
    if answer.result is RequestResult.REFUSED:
        return item.failed(f"{failure.code}: {SENTENCES.get(failure.code, failure.message)}")
    if item.target is OffsetBound.HIGH_WATERMARK or item.target is None or not item.topic_id:
        note = "no log start offset can prove it"
    else:
        proof = log_starts.proof(item.at, item.topic_id, item.target)
        if proof.log_start_offset is not None:
            return replace(item, outcome=Outcome.DELETED, low_watermark=proof.log_start_offset)
        note = proof.note
    error = f"{failure}; it may be done yet, so look at the log start offset later ({note})"
    return replace(item, outcome=Outcome.UNKNOWN, error=error)
