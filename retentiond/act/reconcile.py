"""Settles what an earlier run left open, by reading the log start offsets back.

Invariant: an offset that was requested counts as spent. It becomes `deleted` once the log start
offset of the same topic has reached it, and stays `unknown` until then; it never becomes
`failed`, because a request without an answer may come true later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from retentiond.act.journal import Journal, Unsettled
from retentiond.act.readback import Proof, read_log_starts
from retentiond.kafka.port import Kafka
from retentiond.model import DeletionOutcome, Outcome


def reconcile(journal: Journal, kafka: Kafka, now_ms: int) -> tuple[DeletionOutcome, ...]:
    """The outcomes that are new: proven, given up, or of an intent that had none.

    Asks the cluster for the partitions in question only, and for nothing when there are none.
    Raises `KafkaUnavailable` when the cluster doesn't say who it is, `StateError`.
    """
    unsettled = journal.unsettled(kafka.cluster_id())
    log_starts = read_log_starts(kafka, {each.topic_partition for each in unsettled})
    proofs = [
        (each, log_starts.proof(each.topic_partition, each.topic_id, each.cutoff))
        for each in unsettled
    ]
    gone = [(each, proof) for each, proof in proofs if proof.topic_is_gone]
    news = [
        (each, proof)
        for each, proof in proofs
        if not proof.topic_is_gone and (proof.log_start_offset is not None or each.outcome is None)
    ]
    return (
        *_settle(journal, gone, now_ms, give_up=True),
        *_settle(journal, news, now_ms, give_up=False),
    )


def _settle(
    journal: Journal, proofs: Iterable[tuple[Unsettled, Proof]], now_ms: int, *, give_up: bool
) -> list[DeletionOutcome]:
    by_cycle: defaultdict[str, list[DeletionOutcome]] = defaultdict(list)
    for each, proof in proofs:
        by_cycle[each.cycle_id].append(_outcome(each, proof))
    for cycle_id, outcomes in by_cycle.items():
        journal.settle(cycle_id, outcomes, now_ms, give_up=give_up)
    return [outcome for outcomes in by_cycle.values() for outcome in outcomes]


def _outcome(unsettled: Unsettled, proof: Proof) -> DeletionOutcome:
    topic, partition = unsettled.topic_partition
    if proof.log_start_offset is not None:
        return DeletionOutcome(topic, partition, Outcome.DELETED, proof.log_start_offset)
    what = (
        "the daemon stopped before the outcome was recorded"
        if unsettled.outcome is None
        else "the outcome was never proven"
    )
    return DeletionOutcome(topic, partition, Outcome.UNKNOWN, error=f"{what}; {proof.note}")
