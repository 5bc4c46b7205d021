"""A look at the directories, then at the cluster, then at what is remembered.

`scan` changes nothing. `take_look` remembers the result, and removes what the look allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from retentiond.clock import Uptime, earlier_time, elapsed_ms, now_ms, uptime
from retentiond.errors import RetentiondError
from retentiond.kafka.log_dirs import ClusterView
from retentiond.model import Failure, TopicPartition
from retentiond.tools.orphans.broker_process import (
    BrokerLogDirs,
    OpenFiles,
    OpenFilesUnknown,
    open_files,
    running_broker,
)
from retentiond.tools.orphans.contents import Contents, Gone, read_contents
from retentiond.tools.orphans.folder import FolderKind, PartitionFolder, UnknownFolder, list_folders
from retentiond.tools.orphans.memory import OrphanKey, OrphanMemory, OrphanMemoryFile, folder_key
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
from retentiond.tools.orphans.remove import AuditedRemovals, Remover, held_open


@dataclass(frozen=True, slots=True)
class RemovalTerms:
    """``after_ms``: for how long a folder must have been an orphan. ``retention_ms``: replaces the
    broker's own retention."""

    after_ms: int
    retention_ms: int | None = None


class HostClocks(NamedTuple):
    """``host_time_ms`` dates what a look sees. Only ``uptime`` says how much time has passed."""

    host_time_ms: Callable[[], int] = now_ms
    uptime: Callable[[], Uptime] = uptime


HOST_CLOCKS = HostClocks()


def scan(
    disks: BrokerLogDirs,
    cluster: AssignmentSource,
    memory: OrphanMemory,
    terms: RemovalTerms,
    clocks: HostClocks,
) -> tuple[Scan, OrphanMemory]:
    """Looks at the directories and the cluster. Returns the result, and what to remember of it.
    Raises `UsageError`, `KafkaUnavailable`."""
    listed = [folder for log_dir in disks.log_dirs for folder in list_folders(log_dir)]
    folders = [folder for folder in listed if isinstance(folder, PartitionFolder)]
    unclear = [folder for folder in listed if isinstance(folder, UnknownFolder)]
    view = cluster.replicas({folder.parsed_name.topic for folder in folders})
    refuse_another(view, disks)
    is_alive = disks.broker in view.answers
    incomplete = list(problems(view, disks, was_alive=memory.was_alive))
    broker_retention: int | Failure | None = Failure("BROKER_NOT_AVAILABLE", "it is down")
    if is_alive:
        broker_retention = cluster.retention_ms(disks.broker)
    elif memory.retention_ms is not None:  # what it told before it went down
        broker_retention = memory.retention_ms
    retention = broker_retention if terms.retention_ms is None else terms.retention_ms
    if isinstance(retention, Failure):
        incomplete.append(
            f"broker {disks.broker} does not tell its log.retention.* ({retention}); "
            "grant DESCRIBE_CONFIGS on the cluster, or give --retention"
        )
    at_ms, unreadable = earlier_time(clocks.host_time_ms(), cluster.cluster_time())
    up = clocks.uptime()
    incomplete.extend(unreadable)
    passed_ms = elapsed_ms(memory.looked_at, up)
    conditions = Conditions(at_ms, terms.after_ms, retention, not incomplete, passed_ms)
    orphans: list[Orphan] = []
    assigned: set[OrphanKey] = set()
    for folder, judgement in _judged(folders, view, disks, memory):
        if judgement.assignment is Assignment.ASSIGNED:
            assigned.add(folder_key(folder))
        if judgement.assignment is Assignment.UNCLEAR:
            unclear.append(UnknownFolder(folder.log_dir, folder.name, judgement.why))
        if judgement.assignment is Assignment.ORPHAN:
            orphan = _orphan(folder, judgement.why, memory, conditions)
            if isinstance(orphan, UnknownFolder):
                unclear.append(orphan)
            elif orphan is not None:
                orphans.append(orphan)
    retention_ms = None if isinstance(retention, Failure) else retention
    taken = Scan(disks, at_ms, tuple(incomplete), retention_ms, tuple(orphans), tuple(unclear))
    was_alive = memory.was_alive or is_alive
    kept = replace(remembered(taken, folders, memory, assigned), was_alive=was_alive)
    if not incomplete:
        kept = replace(kept, looked_at=up)
    if not isinstance(broker_retention, Failure):
        kept = replace(kept, retention_ms=broker_retention)
    return taken, kept


def remembered(
    taken: Scan,
    folders: Sequence[PartitionFolder],
    memory: OrphanMemory,
    assigned: Collection[OrphanKey],
) -> OrphanMemory:
    """The memory after a look. After a complete look, it has the orphans of this look, and those
    that are unclear now. An incomplete look forgets no folder that still exists, except the
    ``assigned`` ones, and adds none. Directories that were not looked at stay as they are."""
    looked_at = {str(log_dir) for log_dir in taken.disks.log_dirs}
    present = {folder_key(folder) for folder in folders}
    unclear = {(str(folder.log_dir), folder.name) for folder in taken.unclear}

    def stays(key: OrphanKey) -> bool:
        if key[0] not in looked_at:
            return True
        if key not in present:
            return False
        return key not in assigned if taken.problems else key[:2] in unclear

    first_seen = {key: since for key, since in memory.first_seen_ms.items() if stays(key)}
    observed = {key: memory.observed_ms.get(key, 0) for key in first_seen}
    if not taken.problems:
        first_seen |= {folder_key(orphan.folder): orphan.since_ms for orphan in taken.orphans}
        observed |= {folder_key(orphan.folder): orphan.observed_ms for orphan in taken.orphans}
    return replace(
        memory,
        first_seen_ms=first_seen,
        observed_ms=observed,
        renamed={
            key: old_name
            for key, old_name in memory.renamed.items()
            if key[0] not in looked_at or key in present
        },
    )


def _judged(
    folders: Sequence[PartitionFolder],
    view: ClusterView,
    disks: BrokerLogDirs,
    memory: OrphanMemory,
) -> Iterator[tuple[PartitionFolder, Judgement]]:
    """The folders with their judgements, without those that the broker itself is about to
    delete."""
    replicas = {
        TopicPartition(folder.parsed_name.topic, folder.parsed_name.partition)
        for folder in folders
        if folder.parsed_name.kind is FolderKind.REPLICA
    }
    for folder in folders:
        if folder_key(folder) in memory.renamed:
            yield folder, Judgement(Assignment.ORPHAN, "its removal was cut off")
        elif folder.parsed_name.kind is not FolderKind.DELETE:
            yield folder, judge(folder, view, disks, replicas)


def _orphan(
    folder: PartitionFolder, why: str, memory: OrphanMemory, conditions: Conditions
) -> Orphan | UnknownFolder | None:
    """The folder as an orphan, or as unknown if it can't be read; None if it is gone meanwhile."""
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
        contents,
        since_ms,
        why,
        Fate.REMOVABLE if reason is None else Fate.KEPT,
        reason,
        is_cut_off=folder_key(folder) in memory.renamed,
        observed_ms=observed_ms,
    )


def _since(
    folder: PartitionFolder, contents: Contents, memory: OrphanMemory, conditions: Conditions
) -> int:
    """Since when the folder has been an orphan. That is now if a file in it has changed since it
    was first seen: a broker may have used it meanwhile."""
    since_ms = memory.first_seen_ms.get(folder_key(folder))
    if since_ms is None or not contents.changed_ms <= since_ms <= conditions.now_ms:
        return conditions.now_ms
    return since_ms


Approve = Callable[[Sequence[Orphan]], bool]
"""Called before the first removal of a look, with all orphans that can be removed."""


def take_look(
    disks: BrokerLogDirs,
    cluster: AssignmentSource,
    terms: RemovalTerms,
    state_dir: Path,
    journal: AuditedRemovals,
    *,
    approve: Approve | None = None,
    clocks: HostClocks = HOST_CLOCKS,
) -> Scan:
    """A run of the command. ``approve``: None if it only looks. Raises `RetentiondError`."""
    memory_file = OrphanMemoryFile(state_dir, disks)
    with memory_file.locked():
        taken, memory = scan(disks, cluster, memory_file.read(), terms, clocks)
        memory_file.write(memory)
        taken = replace(taken, orphans=tuple(_without_open(taken.orphans)))
        due = [orphan for orphan in taken.orphans if orphan.fate is Fate.REMOVABLE]
        if approve is None or not due or not approve(due):
            return taken
        return _with_removed(taken, Remover(disks, cluster, memory_file, journal, state_dir))


def _without_open(orphans: Sequence[Orphan]) -> Iterator[Orphan]:
    """Keeps orphans that a process has open, or may have open. It changes nothing on disk."""
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


def _with_removed(taken: Scan, remover: Remover) -> Scan:
    """The look with the removals. What ends them is a problem of the look once a folder is gone;
    before that it is raised."""
    orphans: list[Orphan] = []
    ended: RetentiondError | None = None
    for orphan in taken.orphans:
        settled = orphan
        if orphan.fate is Fate.REMOVABLE and ended is not None:
            settled = orphan.kept("the removals have ended before it")
        elif orphan.fate is Fate.REMOVABLE:
            try:
                settled = remover.remove(orphan)
                ended = remover.unrecorded
            except RetentiondError as error:
                if not any(folder.fate is Fate.REMOVED for folder in orphans):
                    raise
                settled, ended = orphan.kept(str(error)), error
        orphans.append(settled)
    problems = () if ended is None else (f"the removals have ended early: {ended}",)
    return replace(taken, orphans=tuple(orphans), problems=(*taken.problems, *problems))
