"""Whether the cluster assigns a folder's partition to this broker.

Invariant: what any broker says is assigned is assigned, and only what every live broker denies,
in a complete reading, is an orphan. An answer that is missing or failed proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from retentiond.kafka.replicas import Answer, ClusterView, TopicReplicas
from retentiond.model import Failure, TopicPartition
from retentiond.orphans.folder import Folder
from retentiond.orphans.identity import Disks
from retentiond.orphans.name import Kind


class Standing(StrEnum):
    ASSIGNED = "assigned"
    ORPHAN = "orphan"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Judgement:
    standing: Standing
    why: str


def problems(view: ClusterView, disks: Disks, *, was_alive: bool) -> tuple[str, ...]:
    """What keeps the reading from being complete: while there is anything, nothing is removed.

    ``was_alive``: an earlier look saw the broker alive. That counts where the cluster does not
    tell which brokers are down.
    """
    found = [
        f"broker {broker} did not tell its view of the cluster: {answer}"
        for broker, answer in sorted(view.answers.items())
        if isinstance(answer, Failure)
    ]
    if not view.answers:
        found.append("no broker is alive")
    if not view.may_describe_cluster:
        found.append("the principal may not DESCRIBE the cluster; grant it")
    is_known = disks.broker in view.registered or (was_alive and not view.tells_fenced)
    if not is_known:
        found.append(f"the cluster knows no broker {disks.broker} now; start it, or look at its id")
    return tuple(found)


def judge(
    folder: Folder, view: ClusterView, disks: Disks, replicas: Collection[TopicPartition]
) -> Judgement:
    """``replicas``: the partitions that have a folder of their own (no suffix) on these disks."""
    name = folder.means
    if name.may_be_cut:
        return Judgement(Standing.UNCLEAR, "Kafka may have cut the topic's name short")
    judgements = [
        _by_one(folder, answers.get(name.topic, _UNANSWERED), disks.broker)
        for answers in view.answers.values()
        if not isinstance(answers, Failure)
    ]
    for standing in (Standing.ASSIGNED, Standing.UNCLEAR):
        for judgement in judgements:
            if judgement.standing is standing:
                return _of_stray(folder, judgement, replicas)
    return judgements[0] if judgements else Judgement(Standing.UNCLEAR, "no broker answered")


_UNANSWERED = Failure("NOT_ANSWERED", "the broker left the topic out of its answer")


def _by_one(folder: Folder, answer: Answer, broker: int) -> Judgement:
    """By one broker's answer."""
    partition = folder.means.partition
    match answer:
        case Failure():
            return Judgement(Standing.UNCLEAR, f"the topic can't be read: {answer}")
        case None:
            return Judgement(Standing.ORPHAN, "there is no such topic")
        case TopicReplicas(topic_id=str(topic_id)) if folder.topic_id not in (None, topic_id):
            return Judgement(Standing.ORPHAN, "the topic was recreated, with another id")
    if broker in answer.brokers.get(partition, ()):
        return Judgement(Standing.ASSIGNED, "the broker has this replica")
    if partition in answer.unclear:
        return Judgement(Standing.UNCLEAR, "the cluster is not sure about the partition")
    if partition not in answer.brokers:
        return Judgement(Standing.ORPHAN, "the topic has no such partition")
    return Judgement(Standing.ORPHAN, "other brokers have the replicas")


def _of_stray(
    folder: Folder, judgement: Judgement, replicas: Collection[TopicPartition]
) -> Judgement:
    """Kafka never takes a stray back. Beside the folder of the replica that was assigned anew it
    is left over; without one it may be all that is left of the partition here."""
    name = folder.means
    is_beside = TopicPartition(name.topic, name.partition) in replicas
    if judgement.standing is Standing.ASSIGNED and name.kind is Kind.STRAY and is_beside:
        return Judgement(Standing.ORPHAN, "another folder is the broker's replica now")
    return judgement
