"""One look: the directories, then the cluster, then what is remembered.

`scan` changes nothing; a `Session` keeps what it saw, and makes the removals that it allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from retentiond.clock import Uptime, earlier_time, elapsed_ms, now_ms, uptime
from retentiond.kafka import brokers, log_dirs
from retentiond.kafka.client import Client
from retentiond.kafka.log_dirs import ClusterView
from retentiond.kafka.settings.properties import ClientSettings
from retentiond.model import Failure, TopicPartition
from retentiond.state.operator_actions import read_pause
from retentiond.tools.orphans.broker_process import (
    BrokerLogDirs,
    OpenFiles,
    OpenFilesUnknown,
    open_files,
    running_broker,
)
from retentiond.tools.orphans.contents import Contents, Gone, read_contents
from retentiond.tools.orphans.folder import FolderKind, PartitionFolder, UnknownFolder, list_folders
from retentiond.tools.orphans.memory import Key, OrphanMemory, OrphanMemoryFile, folder_key
from retentiond.tools.orphans.orphan import (
    Assignment,
    AssignmentSource,
    Conditions,
    Fate,
    Judgement,
    Orphan,
    Scan,
    judge,
    objection,
    problems,
    refuse_another,
)
from retentiond.tools.orphans.remove import RemovalJournal, Remover, held_open

REMOVAL_CUT_OFF = "its removal was cut off"


@dataclass(frozen=True, slots=True)
class RemovalTerms:
    """``retention_ms``: instead of the broker's own."""

    after_ms: int
    retention_ms: int | None = None


class HostClocks(NamedTuple):
    """``host_time_ms`` dates what is seen; only ``uptime`` says how much time has passed."""

    host_time_ms: Callable[[], int] = now_ms
    uptime: Callable[[], Uptime] = uptime


HOSTS_CLOCKS = HostClocks()


def scan(
    disks: BrokerLogDirs,
    cluster: AssignmentSource,
    memory: OrphanMemory,
    terms: RemovalTerms,
    clocks: HostClocks,
) -> tuple[Scan, OrphanMemory]:
    """What there is, and what to remember of it. Raises `UsageError`, `KafkaUnavailable`."""
    listings = [list_folders(log_dir) for log_dir in disks.log_dirs]
    folders = [folder for listing in listings for folder in listing.folders]
    unclear = [stranger for listing in listings for stranger in listing.strangers]
    view = cluster.replicas({folder.parsed_name.topic for folder in folders})
    refuse_another(view, disks)
    is_alive = disks.broker in view.answers
    lacks = list(problems(view, disks, was_alive=memory.was_alive))
    told: int | Failure | None = Failure("BROKER_NOT_AVAILABLE", "it is down")
    if is_alive:
        told = cluster.retention_ms(disks.broker)
    retention = _retention(told, memory, terms)
    if isinstance(retention, Failure):
        lacks.append(
            f"broker {disks.broker} does not tell its log.retention.* ({retention}); "
            "grant DESCRIBE_CONFIGS on the cluster, or give --retention"
        )
    at_ms, unreadable = earlier_time(clocks.host_time_ms(), cluster.time_ms())
    up = clocks.uptime()
    lacks.extend(unreadable)
    passed_ms = elapsed_ms(memory.looked_at, up)
    conditions = Conditions(at_ms, terms.after_ms, retention, not lacks, passed_ms)
    orphans: list[Orphan] = []
    for folder, judgement in _judged(folders, view, disks, memory):
        if judgement.assignment is Assignment.UNCLEAR:
            unclear.append(UnknownFolder(folder.log_dir, folder.name, judgement.why))
        if judgement.assignment is Assignment.ORPHAN:
            orphan = _orphan(folder, judgement.why, memory, conditions)
            if isinstance(orphan, UnknownFolder):
                unclear.append(orphan)
            elif orphan is not None:
                orphans.append(orphan)
    taken = Scan(disks, at_ms, tuple(orphans), tuple(unclear), tuple(lacks), retention)
    kept = remembered(taken, folders, memory)
    kept = replace(kept, was_alive=kept.was_alive or is_alive)
    if not lacks:
        kept = replace(kept, looked_at=up)
    return taken, kept if isinstance(told, Failure) else replace(kept, retention_ms=told)


def _retention(
    told: int | Failure | None, memory: OrphanMemory, terms: RemovalTerms
) -> int | Failure | None:
    """A broker that is down has told its own before, maybe."""
    if terms.retention_ms is not None:
        return terms.retention_ms
    if isinstance(told, Failure) and memory.retention_ms is not None:
        return memory.retention_ms
    return told


def remembered(
    taken: Scan, folders: Sequence[PartitionFolder], memory: OrphanMemory
) -> OrphanMemory:
    """After a complete look only its orphans; after another one nothing is forgotten that is still
    there, and nothing new counts. Directories that were not looked at stay as they are."""
    looked_at = {str(log_dir) for log_dir in taken.disks.log_dirs}
    present = {folder_key(folder) for folder in folders}
    seen = {folder_key(orphan.folder): orphan.since_ms for orphan in taken.orphans}

    def stays(each: Key) -> bool:
        if each[0] not in looked_at:
            return True
        return bool(taken.problems) and each in present

    first_seen = {each: since for each, since in memory.first_seen_ms.items() if stays(each)}
    if not taken.problems:
        unclear = {(str(each.log_dir), each.name) for each in taken.unclear}
        first_seen |= {
            each: since
            for each, since in memory.first_seen_ms.items()
            if each in present and each[:2] in unclear
        }
        first_seen |= seen
    observed = {folder_key(each.folder): each.observed_ms for each in taken.orphans}
    return replace(
        memory,
        first_seen_ms=first_seen,
        observed_ms={
            each: memory.observed_ms.get(each, 0)
            if taken.problems
            else observed.get(each, memory.observed_ms.get(each, 0))
            for each in first_seen
        },
        renamed={
            each: old
            for each, old in memory.renamed.items()
            if each[0] not in looked_at or each in present
        },
    )


def _judged(
    folders: Sequence[PartitionFolder],
    view: ClusterView,
    disks: BrokerLogDirs,
    memory: OrphanMemory,
) -> Iterator[tuple[PartitionFolder, Judgement]]:
    """The folders with their judgements, less those that the broker itself is about to delete."""
    replicas = {
        TopicPartition(folder.parsed_name.topic, folder.parsed_name.partition)
        for folder in folders
        if folder.parsed_name.kind is FolderKind.REPLICA
    }
    for folder in folders:
        if folder_key(folder) in memory.renamed:
            yield folder, Judgement(Assignment.ORPHAN, REMOVAL_CUT_OFF)
        elif folder.parsed_name.kind is not FolderKind.DELETE:
            yield folder, judge(folder, view, disks, replicas)


def _orphan(
    folder: PartitionFolder, why: str, memory: OrphanMemory, conditions: Conditions
) -> Orphan | UnknownFolder | None:
    """None: it is gone meanwhile."""
    try:
        contents = read_contents(folder)
    except Gone:
        return None
    except OSError as error:
        return UnknownFolder(folder.log_dir, folder.name, f"it can't be read ({error.strerror})")
    since_ms = _since(folder, contents, memory, conditions)
    observed_ms = 0
    if since_ms == memory.first_seen_ms.get(folder_key(folder)):
        observed_ms = memory.observed_ms.get(folder_key(folder), 0) + conditions.passed_ms
    reason = objection(contents, observed_ms, conditions)
    return Orphan(
        folder,
        why,
        contents,
        since_ms,
        Fate.REMOVABLE if reason is None else Fate.KEPT,
        reason,
        is_cut_off=folder_key(folder) in memory.renamed,
        observed_ms=observed_ms,
    )


def _since(
    folder: PartitionFolder, contents: Contents, memory: OrphanMemory, conditions: Conditions
) -> int:
    """From anew where anything in it was changed since: a broker may have had it meanwhile."""
    since_ms = memory.first_seen_ms.get(folder_key(folder))
    if since_ms is None or not contents.changed_ms <= since_ms <= conditions.now_ms:
        return conditions.now_ms
    return since_ms


Approve = Callable[[Sequence[Orphan]], bool]
"""Asked before the first removal of a look, with all that may go."""


@dataclass(frozen=True, slots=True)
class Session:
    """``approve``: None looks only."""

    disks: BrokerLogDirs
    cluster: AssignmentSource
    terms: RemovalTerms
    state_dir: Path
    journal: RemovalJournal
    approve: Approve | None = None
    clocks: HostClocks = HOSTS_CLOCKS

    def run(self) -> Scan:
        """Raises `RetentiondError`."""
        memory_file = OrphanMemoryFile(self.state_dir, self.disks)
        with memory_file.locked():
            taken, memory = scan(
                self.disks, self.cluster, memory_file.read(), self.terms, self.clocks
            )
            memory_file.write(memory)
            taken = replace(taken, orphans=tuple(self._closed(taken.orphans)))
            due = [orphan for orphan in taken.orphans if orphan.fate is Fate.REMOVABLE]
            if self.approve is None or not due or not self.approve(due):
                return taken
            return replace(taken, orphans=self._removed(taken.orphans, memory_file))

    def _closed(self, orphans: Sequence[Orphan]) -> Iterator[Orphan]:
        """What is held open, or may be at any moment, is kept; looking changes nothing."""
        known: dict[Path, tuple[int | None, OpenFiles]] = {}
        for orphan in orphans:
            if orphan.fate is not Fate.REMOVABLE:
                yield orphan
                continue
            log_dir = orphan.folder.log_dir
            try:
                if log_dir not in known:
                    broker = running_broker(log_dir)
                    known[log_dir] = (broker, open_files(broker))
            except OpenFilesUnknown as unseen:
                yield orphan.kept(str(unseen))
                continue
            broker, files = known[log_dir]
            reason = held_open(orphan, files, broker)
            yield orphan if reason is None else orphan.kept(reason)

    def _removed(
        self, orphans: Sequence[Orphan], memory_file: OrphanMemoryFile
    ) -> tuple[Orphan, ...]:
        remover = Remover(
            self.disks,
            self.cluster,
            memory_file,
            self.journal,
            why_paused=lambda: read_pause(self.state_dir),
        )
        return tuple(
            remover.remove(orphan) if orphan.fate is Fate.REMOVABLE else orphan
            for orphan in orphans
        )


class KafkaReplicas:
    def __init__(self, settings: ClientSettings) -> None:
        self._connection = Client(settings)

    def replicas(self, topics: Collection[str]) -> ClusterView:
        return log_dirs.read_replicas(self._connection, topics)

    def retention_ms(self, broker: int) -> int | Failure | None:
        return log_dirs.read_retention_ms(self._connection, broker)

    def time_ms(self) -> int | Failure | None:
        return brokers.cluster_time(self._connection)

    def close(self) -> None:
        self._connection.close()
