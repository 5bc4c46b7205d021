"""What a look at the directories found, and whether the cluster assigns it to this broker.

Invariant: what any broker says is assigned is assigned, and only what every live broker denies,
in a complete reading, is an orphan. An answer that is missing or failed proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from retentiond.errors import UsageError
from retentiond.formatting import say_duration
from retentiond.kafka.interface import NOT_ANSWERED
from retentiond.kafka.log_dirs import ClusterView, TopicReplicas, TopicReplicasAnswer
from retentiond.model import Failure, TopicPartition
from retentiond.tools.orphans.broker_process import BrokerLogDirs
from retentiond.tools.orphans.contents import Contents
from retentiond.tools.orphans.folder import FolderKind, PartitionFolder, UnknownFolder


class Fate(StrEnum):
    KEPT = "kept"
    REMOVABLE = "removable"
    REMOVED = "removed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Orphan:
    """``why`` it is one; ``since_ms``: since when it is known to be; ``observed_ms``: how much time
    has certainly passed since.

    ``reason``: why it is kept, or what failed. ``is_cut_off``: a removal renamed it and has not
    come to its end.
    """

    folder: PartitionFolder
    why: str
    contents: Contents
    since_ms: int
    fate: Fate
    reason: str | None = None
    is_cut_off: bool = False
    observed_ms: int = 0

    def kept(self, reason: str) -> Orphan:
        return replace(self, fate=Fate.KEPT, reason=reason)

    def failed(self, reason: str) -> Orphan:
        return replace(self, fate=Fate.FAILED, reason=reason)

    def removed(self) -> Orphan:
        return replace(self, fate=Fate.REMOVED, reason=None)


@dataclass(frozen=True, slots=True)
class Scan:
    """``problems``: what keeps it from being complete; nothing is removed then.

    ``unclear``: folders that may be orphans or not. ``retention_ms``: of records in orphans; None
    is unlimited.
    """

    disks: BrokerLogDirs
    at_ms: int
    orphans: tuple[Orphan, ...]
    unclear: tuple[UnknownFolder, ...]
    problems: tuple[str, ...]
    retention_ms: int | Failure | None

    def totals(self) -> dict[Path, tuple[int, int]]:
        """Orphans and their bytes by directory. One that was removed is no orphan any more."""
        found = dict.fromkeys(self.disks.log_dirs, (0, 0))
        for orphan in self.orphans:
            if orphan.fate is not Fate.REMOVED:
                count, size = found[orphan.folder.log_dir]
                found[orphan.folder.log_dir] = (count + 1, size + orphan.contents.segment_bytes)
        return found


@dataclass(frozen=True, slots=True)
class Conditions:
    """``now_ms``: the earlier of two clocks, the host's and the cluster's. ``passed_ms``: how much
    time has certainly passed since the last complete look."""

    now_ms: int
    after_ms: int
    retention_ms: int | Failure | None
    is_complete: bool
    passed_ms: int = 0


def objection(contents: Contents, observed_ms: int, conditions: Conditions) -> str | None:
    """Why the folder is kept for now; None: it may go."""
    retention_ms, newest_ms = conditions.retention_ms, contents.newest_ms
    if contents.stranger is not None:
        return f"not understood: {contents.stranger}"
    if not conditions.is_complete:
        return "the cluster was not read completely"
    if isinstance(retention_ms, Failure):
        return "the retention period is not known"
    if retention_ms is None:
        return "the broker's retention is unlimited"
    lacking_ms = conditions.after_ms - observed_ms
    if lacking_ms > 0:
        return f"an orphan for too short a time: {_rough(lacking_ms)} more"
    if newest_ms is not None and newest_ms + retention_ms >= conditions.now_ms:
        wait_ms = newest_ms + retention_ms - conditions.now_ms
        return f"it holds records within the retention period: {_rough(wait_ms)} more"
    return None


def _rough(ms: int) -> str:
    """The duration rounded down to the second, in two units."""
    return " ".join(say_duration(max(1000, -(-ms // 1000) * 1000)).split()[:4])


class AssignmentSource(Protocol):
    """Raises `KafkaUnavailable` when no broker answers."""

    def replicas(self, topics: Collection[str]) -> ClusterView: ...

    def retention_ms(self, broker: int) -> int | Failure | None: ...

    def time_ms(self) -> int | Failure | None:
        """The cluster's clock; None where it does not tell."""


def refuse_another(view: ClusterView, disks: BrokerLogDirs) -> None:
    """Raises `UsageError` where the directories are another cluster's."""
    if view.cluster_id != disks.cluster_id:
        raise UsageError(
            f"the directories belong to cluster {disks.cluster_id}, and --bootstrap-server is "
            f"cluster {view.cluster_id}; name a broker of the directories' own cluster"
        )


class Assignment(StrEnum):
    ASSIGNED = "assigned"
    ORPHAN = "orphan"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Judgement:
    assignment: Assignment
    why: str


def problems(view: ClusterView, disks: BrokerLogDirs, *, was_alive: bool) -> tuple[str, ...]:
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
    folder: PartitionFolder,
    view: ClusterView,
    disks: BrokerLogDirs,
    replicas: Collection[TopicPartition],
) -> Judgement:
    """``replicas``: the partitions that have a folder of their own (no suffix) on these disks."""
    name = folder.parsed_name
    if name.may_be_cut:
        return Judgement(Assignment.UNCLEAR, "Kafka may have cut the topic's name short")
    judgements = [
        _by_one(folder, answers.get(name.topic, NOT_ANSWERED), disks.broker)
        for answers in view.answers.values()
        if not isinstance(answers, Failure)
    ]
    for standing in (Assignment.ASSIGNED, Assignment.UNCLEAR):
        for judgement in judgements:
            if judgement.assignment is standing:
                return _of_stray(folder, judgement, replicas)
    return judgements[0] if judgements else Judgement(Assignment.UNCLEAR, "no broker answered")


def _by_one(folder: PartitionFolder, answer: TopicReplicasAnswer, broker: int) -> Judgement:
    """The judgement by one broker's answer."""
    partition = folder.parsed_name.partition
    match answer:
        case Failure():
            return Judgement(Assignment.UNCLEAR, f"the topic can't be read: {answer}")
        case None:
            return Judgement(Assignment.ORPHAN, "there is no such topic")
        case TopicReplicas(topic_id=str(topic_id)) if folder.topic_id not in (None, topic_id):
            return Judgement(Assignment.ORPHAN, "the topic was recreated, with another id")
    if broker in answer.brokers.get(partition, ()):
        return Judgement(Assignment.ASSIGNED, "the broker has this replica")
    if partition in answer.unclear:
        return Judgement(Assignment.UNCLEAR, "the cluster is not sure about the partition")
    if partition not in answer.brokers:
        return Judgement(Assignment.ORPHAN, "the topic has no such partition")
    return Judgement(Assignment.ORPHAN, "other brokers have the replicas")


def _of_stray(
    folder: PartitionFolder, judgement: Judgement, replicas: Collection[TopicPartition]
) -> Judgement:
    """Kafka never takes a stray back. Beside the folder of the replica that was assigned anew it
    is left over; without one it may be all that is left of the partition here."""
    name = folder.parsed_name
    is_beside = TopicPartition(name.topic, name.partition) in replicas
    if judgement.assignment is Assignment.ASSIGNED and name.kind is FolderKind.STRAY and is_beside:
        return Judgement(Assignment.ORPHAN, "another folder is the broker's replica now")
    return judgement
