"""The result of a look at the directories, and whether the cluster assigns a folder to this broker.

Invariant: if any broker says that a folder is assigned, it is assigned. A folder is an orphan only
if every live broker denies it, in a complete reading. An answer that is missing or failed proves
nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from retentiond.errors import UsageError
from retentiond.fields import (
    BYTES,
    FLAG,
    MILLISECONDS,
    NUMBER,
    PATH,
    SENTENCE,
    TEXTS,
    TIME,
    WORD,
    FiguresOf,
    described,
    figure,
    inlined,
    rows_of,
    said,
)
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


@described
class Orphan:
    """A folder that is an orphan.

    - ``observed_ms``: how much time has certainly passed since it is known to be one.
    - ``is_cut_off``: whether a removal has renamed it and was then cut off.
    """

    folder: PartitionFolder = inlined(PartitionFolder)
    contents: Contents = inlined(Contents)
    since_ms: int = said(
        TIME, "since when it is known to be an orphan", column="ORPHAN SINCE", spare=True
    )
    why: str = said(SENTENCE, "why it is one", column="BECAUSE")
    fate: Fate = said(WORD, f"what becomes of it: {', '.join(Fate)}")
    reason: str | None = said(SENTENCE, "why it is kept, or what failed", default=None)

    @figure(SENTENCE, "what becomes of it, and why", (), column="FATE")
    def fate_and_reason(self) -> str:
        return self.fate if self.reason is None else f"{self.fate}: {self.reason}"

    is_cut_off: bool = False
    observed_ms: int = 0

    def kept(self, reason: str) -> Orphan:
        return replace(self, fate=Fate.KEPT, reason=reason)

    def failed(self, reason: str) -> Orphan:
        return replace(self, fate=Fate.FAILED, reason=reason)

    def removed(self) -> Orphan:
        return replace(self, fate=Fate.REMOVED, reason=None)


OF_ORPHANS = FiguresOf("orphans")


@described
class OrphansInLogDir:
    """The orphans in a log directory, without those that were removed."""

    log_dir: Path = said(PATH, "its path", column="LOG DIRECTORY")
    orphans: tuple[Orphan, ...]

    @figure(NUMBER, "how many orphans it has", column="ORPHANS")
    def count(self) -> int:
        return len(self.orphans)

    size_bytes = OF_ORPHANS.sum(
        BYTES, "what their segments take", of="contents.segment_bytes", column="BYTES"
    )


@described
class Scan:
    """The result of a look. If it has problems, nothing is removed."""

    disks: BrokerLogDirs = inlined(BrokerLogDirs)
    at_ms: int = said(TIME, "when the look was taken, by the earlier of two clocks")

    @figure(FLAG, "whether the cluster was read completely")
    def complete(self) -> bool:
        return not self.problems

    problems: tuple[str, ...] = said(TEXTS, "why it was not")
    retention_ms: int | None = said(
        MILLISECONDS, "how long records in orphans are kept; null: unlimited, or not known"
    )

    @figure(rows_of(OrphansInLogDir), "the log directories, without what was removed")
    def log_dirs(self) -> tuple[OrphansInLogDir, ...]:
        left = [orphan for orphan in self.orphans if orphan.fate is not Fate.REMOVED]
        return tuple(
            OrphansInLogDir(path, tuple(orphan for orphan in left if orphan.folder.log_dir == path))
            for path in self.disks.log_dirs
        )

    orphans: tuple[Orphan, ...] = said(rows_of(Orphan), "the orphans")
    unclear: tuple[UnknownFolder, ...] = said(
        rows_of(UnknownFolder), "folders that may be orphans or not", name="left_alone"
    )


@dataclass(frozen=True, slots=True)
class Conditions:
    """When an orphan may be removed.

    - ``now_ms``: the earlier of two clocks, the host's and the cluster's.
    - ``after_ms``: for how long a folder must have been an orphan.
    - ``passed_ms``: how much time has certainly passed since the last complete look.
    """

    now_ms: int
    after_ms: int
    retention_ms: int | Failure | None
    is_complete: bool
    passed_ms: int = 0


def objection(contents: Contents, observed_ms: int, conditions: Conditions) -> str | None:
    """Why the folder is kept for now; None if it may be removed."""
    retention_ms, newest_ms = conditions.retention_ms, contents.newest_ms
    if contents.problem is not None:
        return f"not understood: {contents.problem}"
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
    """The duration rounded up to the second, in two units."""
    return " ".join(say_duration(max(1000, -(-ms // 1000) * 1000)).split()[:4])


class AssignmentSource(Protocol):
    """The part of `retentiond.kafka.cluster.KafkaCluster` that tells what is assigned. Raises
    `KafkaUnavailable` if no broker answers."""

    def replicas(self, names: Collection[str]) -> ClusterView: ...

    def retention_ms(self, broker: int) -> int | Failure | None: ...

    def cluster_time(self) -> int | Failure | None: ...


def refuse_another(view: ClusterView, disks: BrokerLogDirs) -> None:
    """Raises `UsageError` if the directories belong to another cluster."""
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
    """Why the reading of the cluster is not complete. If there is a problem, nothing is removed.

    ``was_alive``: an earlier look saw the broker alive. It counts if the cluster does not tell
    which brokers are down.
    """
    sentences = [
        f"broker {broker} did not tell its view of the cluster: {answer}"
        for broker, answer in sorted(view.answers.items())
        if isinstance(answer, Failure)
    ]
    if not view.answers:
        sentences.append("no broker is alive")
    if not view.may_describe_cluster:
        sentences.append("the principal may not DESCRIBE the cluster; grant it")
    is_known = disks.broker in view.registered or (was_alive and not view.tells_fenced)
    if not is_known:
        sentences.append(
            f"the cluster knows no broker {disks.broker} now; start it, or look at its id"
        )
    return tuple(sentences)


def judge(
    folder: PartitionFolder,
    view: ClusterView,
    disks: BrokerLogDirs,
    replicas: Collection[TopicPartition],
) -> Judgement:
    """Whether the cluster assigns the folder to the broker of these disks. ``replicas``: the
    partitions that have a folder without a suffix on these disks."""
    name = folder.parsed_name
    if name.may_be_cut:
        return Judgement(Assignment.UNCLEAR, "Kafka may have cut the topic's name short")
    judgements = [
        _by_one_broker(folder, answers.get(name.topic, NOT_ANSWERED), disks.broker)
        for answers in view.answers.values()
        if not isinstance(answers, Failure)
    ]
    for assignment in (Assignment.ASSIGNED, Assignment.UNCLEAR):
        for judgement in judgements:
            if judgement.assignment is assignment:
                return _unless_superseded(folder, judgement, replicas)
    return judgements[0] if judgements else Judgement(Assignment.UNCLEAR, "no broker answered")


def _by_one_broker(folder: PartitionFolder, answer: TopicReplicasAnswer, broker: int) -> Judgement:
    """The judgement from one broker's answer."""
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


def _unless_superseded(
    folder: PartitionFolder, judgement: Judgement, replicas: Collection[TopicPartition]
) -> Judgement:
    """The judgement, but a stray is an orphan if another folder has the replica that was assigned
    again: Kafka never takes a stray back. Without such a folder, the stray may have all that is
    left of the partition here."""
    name = folder.parsed_name
    has_replica = TopicPartition(name.topic, name.partition) in replicas
    is_assigned = judgement.assignment is Assignment.ASSIGNED
    if is_assigned and name.kind is FolderKind.STRAY and has_replica:
        return Judgement(Assignment.ORPHAN, "another folder is the broker's replica now")
    return judgement
