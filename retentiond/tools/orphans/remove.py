"""Removes an orphan: look again, record, rename, look again, delete.

Invariants. Everything that allowed the removal is asked for anew right before the rename, and once
more under the new name, before the first file goes; if anything speaks against it then, the folder
gets its old name back. What happens is in the audit log before it happens. Only files that Kafka
writes are deleted, each by its name in the very folder that was looked at; no link is followed.

The new name is Kafka's own for a folder to be deleted: a broker that starts in the middle of it
deletes the folder itself, where any other name would keep it from starting.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from retentiond.errors import KafkaUnavailable, RetentiondError
from retentiond.model import TopicPartition
from retentiond.state.operator_actions import action_now, record_action
from retentiond.state.state_dir import sync
from retentiond.tools.orphans.broker_process import (
    BrokerLogDirs,
    OpenFiles,
    OpenFilesUnknown,
    broker_of,
    open_files,
)
from retentiond.tools.orphans.contents import Gone, files, opened, read_contents, unknown_file
from retentiond.tools.orphans.folder import METADATA, PartitionFolder, name_for_deletion, parse
from retentiond.tools.orphans.memory import OrphanMemoryFile, folder_key
from retentiond.tools.orphans.orphan import (
    Assignment,
    AssignmentSource,
    Orphan,
    judge,
    problems,
    refuse_another,
)


class RemovalJournal(Protocol):
    """Both raise `StateError`, and then nothing more is removed."""

    def removing(self, orphan: Orphan, new_name: str) -> None:
        """On disk when it returns."""

    def settled(self, orphan: Orphan) -> None: ...


class RemovalRefused(Exception):
    """Something speaks against the removal; ``str()`` says what."""


class Remover:
    """The caller holds the memory's lock. ``why_paused``: why nothing may be removed now, if so.

    A broker that is down can't start for the time of a removal.
    """

    def __init__(
        self,
        disks: BrokerLogDirs,
        cluster: AssignmentSource,
        memory_file: OrphanMemoryFile,
        journal: RemovalJournal,
        *,
        why_paused: Callable[[], object | None],
    ) -> None:
        self._disks = disks
        self._cluster = cluster
        self._memory_file = memory_file
        self._journal = journal
        self._why_paused = why_paused

    def remove(self, orphan: Orphan) -> Orphan:
        """What became of it. Raises `OtherCluster`, and `UsageError` where the directories are not
        this cluster's; `StateError` when it can't be recorded."""
        try:
            with broker_of(orphan.folder.log_dir) as broker:
                if not orphan.is_cut_off:
                    self._object(orphan, broker)
                return self._go(orphan, broker)
        except (RemovalRefused, OpenFilesUnknown, Gone, KafkaUnavailable, OSError) as error:
            return _not_removed(orphan, error)

    def _go(self, orphan: Orphan, broker: int | None) -> Orphan:
        """Removes the folder, and records beginning and end whatever happens in between."""
        new_name = orphan.folder.name
        if not orphan.is_cut_off:
            new_name = name_for_deletion(orphan.folder.parsed_name)
        self._journal.removing(orphan, new_name)
        try:
            renamed = orphan.folder if orphan.is_cut_off else self._rename(orphan, new_name)
            self._finish(orphan, renamed, broker)
            done = orphan.removed()
        except (RemovalRefused, OpenFilesUnknown, Gone, KafkaUnavailable, OSError) as error:
            done = _not_removed(orphan, error)
        except RetentiondError as error:  # it ends all the work, and this removal's record too
            self._journal.settled(orphan.kept(str(error)))
            raise
        self._journal.settled(done)
        return done

    def _object(self, orphan: Orphan, broker: int | None) -> None:
        """The second look. Raises `RemovalRefused`, `Gone`, `OpenFilesUnknown`, `KafkaUnavailable`,
        OSError."""
        paused = self._why_paused()
        if paused is not None:
            raise RemovalRefused(str(paused))
        if read_contents(orphan.folder) != orphan.contents:
            raise RemovalRefused("it changed since it was looked at")
        held = held_open(orphan, open_files(broker), broker)
        if held is not None:
            raise RemovalRefused(held)
        self._object_by_cluster(orphan.folder)

    def _object_by_cluster(self, folder: PartitionFolder) -> None:
        view = self._cluster.replicas({folder.parsed_name.topic})
        refuse_another(view, self._disks)
        was_alive = self._memory_file.read().was_alive
        lacks = problems(view, self._disks, was_alive=was_alive)
        if lacks:
            raise RemovalRefused(f"the cluster was not read completely: {lacks[0]}")
        beside = TopicPartition(folder.parsed_name.topic, folder.parsed_name.partition)
        has_replica = any(os.path.lexists(at / str(beside)) for at in self._disks.log_dirs)
        judgement = judge(folder, view, self._disks, {beside} if has_replica else ())
        if judgement.assignment is not Assignment.ORPHAN:
            raise RemovalRefused(f"no orphan any more: {judgement.why}")

    def _rename(self, orphan: Orphan, new_name: str) -> PartitionFolder:
        """Remembered before, so that it can be told whose it is."""
        old = orphan.folder
        renamed = replace(old, name=new_name)
        memory = self._memory_file.read()
        self._memory_file.write(
            replace(
                memory,
                first_seen_ms={**memory.first_seen_ms, folder_key(renamed): orphan.since_ms},
                observed_ms={**memory.observed_ms, folder_key(renamed): orphan.observed_ms},
                renamed={**memory.renamed, folder_key(renamed): old.name},
            )
        )
        with opened(old):  # it is still that folder
            os.rename(old.path, renamed.path)
        sync(old.log_dir)
        return renamed

    def _finish(self, orphan: Orphan, renamed: PartitionFolder, broker: int | None) -> None:
        old_name = self._memory_file.read().renamed.get(folder_key(renamed))
        if old_name is None:  # its files were being deleted: there is no way back
            held = held_open(orphan, open_files(broker), broker)
            if held is not None:
                raise RemovalRefused(held)
        else:
            means = parse(old_name) or renamed.parsed_name
            try:
                self._object(replace(orphan, folder=replace(renamed, parsed_name=means)), broker)
            except BaseException:
                self._put_back(renamed, old_name)
                raise
            self._note_deletion(renamed)
        self._delete(renamed)

    def _note_deletion(self, renamed: PartitionFolder) -> None:
        memory = self._memory_file.read()
        self._memory_file.write(
            replace(memory, renamed={**memory.renamed, folder_key(renamed): None})
        )

    def _put_back(self, renamed: PartitionFolder, old_name: str) -> None:
        old_path = renamed.log_dir / old_name
        if os.path.lexists(old_path):  # a broker has made it anew: this one is left over
            return
        os.rename(renamed.path, old_path)
        sync(renamed.log_dir)

    def _delete(self, folder: PartitionFolder) -> None:
        """Its metadata last, so that what is left of it can still be told by its topic's id."""
        with opened(folder) as fd:
            found = files(fd)
            stranger = unknown_file(found, folder.device)
            if stranger is not None:
                raise RemovalRefused(f"not understood: {stranger}")
            for name in sorted(found, key=lambda name: (name == METADATA, name)):
                os.unlink(name, dir_fd=fd)
        os.rmdir(folder.path)
        sync(folder.log_dir)


def held_open(orphan: Orphan, opened_by: OpenFiles, broker: int | None) -> str | None:
    pid = opened_by.opener(orphan.contents.inodes)
    if pid is None:
        return None
    return f"{'the broker' if pid == broker else 'a process'} (pid {pid}) has it open"


def _not_removed(orphan: Orphan, error: Exception) -> Orphan:
    match error:
        case Gone():
            return orphan.kept("it is gone or was replaced since it was looked at")
        case KafkaUnavailable():
            return orphan.kept(f"the cluster could not be asked again: {error}")
        case OSError():
            return orphan.failed(f"{error.filename or orphan.folder.path}: {error.strerror}")
    return orphan.kept(str(error))


REMOVAL = "orphan-removal"

OUTCOME = "orphan-removal-outcome"


class AuditedRemovals:
    """A `RemovalJournal`: one removal after the other, two rows for each."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._removal_id = ""

    def removing(self, orphan: Orphan, new_name: str) -> None:
        self._removal_id = uuid.uuid4().hex
        folder = orphan.folder
        self._record(
            REMOVAL,
            {
                "log_dir": str(folder.log_dir),
                "folder": folder.name,
                "renamed_to": new_name,
                "topic_id": folder.topic_id,
                "size_bytes": orphan.contents.segment_bytes,
                "newest_record_ms": orphan.contents.newest_ms,
                "since_ms": orphan.since_ms,
                "why": orphan.why,
            },
        )

    def settled(self, orphan: Orphan) -> None:
        self._record(OUTCOME, {"fate": orphan.fate.value, "reason": orphan.reason})

    def _record(self, what: str, detail: dict[str, object]) -> None:
        record_action(self._state_dir, action_now(what, self._removal_id, json.dumps(detail)))
