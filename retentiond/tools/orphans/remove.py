"""Removes an orphan in steps: check again, record, rename, check again, delete.

Invariants:

- All conditions are checked again right before the rename, and once more under the new name before
  the first file is deleted. If a condition doesn't hold then, the folder gets its old name back.
- A removal is in the audit log before it begins.
- Only files that Kafka writes are deleted, by their names in the very folder that was checked. No
  link is followed.

The new name is Kafka's own for a folder that is to be deleted. A broker that starts during the
removal deletes the folder itself; any other name would keep it from starting.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from retentiond.errors import KafkaUnavailable, RetentiondError, StateError
from retentiond.model import TopicPartition
from retentiond.state.operator_actions import action_now, read_pause, record_action
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


class RemovalRefused(Exception):
    """A condition for the removal doesn't hold; ``str()`` says which."""


@dataclass(slots=True)
class Remover:
    """Removes orphans. The caller holds the memory's lock. While deletions are paused in
    ``state_dir``, nothing is removed.

    During a removal, a broker that is down can't start. ``unrecorded``: why the outcome of the last
    removal is not in the audit log, or None.
    """

    disks: BrokerLogDirs
    cluster: AssignmentSource
    memory_file: OrphanMemoryFile
    journal: AuditedRemovals
    state_dir: Path
    unrecorded: StateError | None = None

    def remove(self, orphan: Orphan) -> Orphan:
        """Removes an orphan, and returns it with its fate. Raises `OtherCluster`, `UsageError` if
        the directories belong to another cluster, and `StateError` if the removal can't be
        recorded. If only its outcome can't, that is ``unrecorded``."""
        if (paused := read_pause(self.state_dir)) is not None:  # also for one that was cut off
            return orphan.kept(str(paused))
        try:
            with broker_of(orphan.folder.log_dir) as broker:
                if not orphan.is_cut_off:
                    self._check(orphan, broker)
                return self._remove_recorded(orphan, broker)
        except (RemovalRefused, OpenFilesUnknown, Gone, KafkaUnavailable, OSError) as error:
            return _not_removed(orphan, error)

    def _remove_recorded(self, orphan: Orphan, broker: int | None) -> Orphan:
        """Removes the folder. Records the beginning, and the end whatever happens in between."""
        new_name = orphan.folder.name
        if not orphan.is_cut_off:
            new_name = name_for_deletion(orphan.folder.parsed_name)
        self.journal.removing(orphan, new_name)
        try:
            renamed = orphan.folder if orphan.is_cut_off else self._rename(orphan, new_name)
            self._finish(orphan, renamed, broker)
            settled = orphan.removed()
        except (RemovalRefused, OpenFilesUnknown, Gone, KafkaUnavailable, OSError) as error:
            settled = _not_removed(orphan, error)
        except RetentiondError as error:  # ends the whole run; the record of this removal ends too
            self.journal.settled(orphan.kept(str(error)))
            raise
        try:
            self.journal.settled(settled)
        except StateError as error:  # the folder may be gone, and is to be shown
            self.unrecorded = error
        return settled

    def _check(self, orphan: Orphan, broker: int | None) -> None:
        """Checks all conditions again. Raises `RemovalRefused`, `Gone`, `OpenFilesUnknown`,
        `KafkaUnavailable`, OSError."""
        if (paused := read_pause(self.state_dir)) is not None:
            raise RemovalRefused(str(paused))
        if read_contents(orphan.folder) != orphan.contents:
            raise RemovalRefused("it changed since it was looked at")
        held = held_open(orphan, open_files(broker), broker)
        if held is not None:
            raise RemovalRefused(held)
        self._check_assignment(orphan.folder)

    def _check_assignment(self, folder: PartitionFolder) -> None:
        view = self.cluster.replicas({folder.parsed_name.topic})
        refuse_another(view, self.disks)
        was_alive = self.memory_file.read().was_alive
        incomplete = problems(view, self.disks, was_alive=was_alive)
        if incomplete:
            raise RemovalRefused(f"the cluster was not read completely: {incomplete[0]}")
        at = TopicPartition(folder.parsed_name.topic, folder.parsed_name.partition)
        has_replica = any(os.path.lexists(log_dir / str(at)) for log_dir in self.disks.log_dirs)
        judgement = judge(folder, view, self.disks, {at} if has_replica else ())
        if judgement.assignment is not Assignment.ORPHAN:
            raise RemovalRefused(f"no orphan any more: {judgement.why}")

    def _rename(self, orphan: Orphan, new_name: str) -> PartitionFolder:
        """Renames the folder. The memory has the new name before, so that a later run recognises
        the folder."""
        old = orphan.folder
        renamed = replace(old, name=new_name)
        memory = self.memory_file.read()
        self.memory_file.write(
            replace(
                memory,
                first_seen_ms={**memory.first_seen_ms, folder_key(renamed): orphan.since_ms},
                observed_ms={**memory.observed_ms, folder_key(renamed): orphan.observed_ms},
                renamed={**memory.renamed, folder_key(renamed): old.name},
            )
        )
        with opened(old):  # proves that it is still the same folder
            os.rename(old.path, renamed.path)
        sync(old.log_dir)
        return renamed

    def _finish(self, orphan: Orphan, renamed: PartitionFolder, broker: int | None) -> None:
        """Checks the renamed folder once more and deletes it, or gives it its old name back."""
        old_name = self.memory_file.read().renamed.get(folder_key(renamed))
        if old_name is None:  # some of its files are deleted already, so there is no way back
            held = held_open(orphan, open_files(broker), broker)
            if held is not None:
                raise RemovalRefused(held)
        else:
            parsed_name = parse(old_name) or renamed.parsed_name
            folder = replace(renamed, parsed_name=parsed_name)
            try:
                self._check(replace(orphan, folder=folder), broker)
            except BaseException:
                self._put_back(renamed, old_name)
                raise
            memory = self.memory_file.read()
            begun = {**memory.renamed, folder_key(renamed): None}
            self.memory_file.write(replace(memory, renamed=begun))
        self._delete(renamed)

    def _put_back(self, renamed: PartitionFolder, old_name: str) -> None:
        old_path = renamed.log_dir / old_name
        if os.path.lexists(old_path):  # a broker has recreated it, so this folder is left over
            return
        os.rename(renamed.path, old_path)
        sync(renamed.log_dir)

    def _delete(self, folder: PartitionFolder) -> None:
        """Deletes the folder's files and the folder. The file with the topic's id goes last, so
        that an incomplete folder is still recognised."""
        with opened(folder) as fd:
            entries = files(fd)
            problem = unknown_file(entries, folder.device)
            if problem is not None:
                raise RemovalRefused(f"not understood: {problem}")
            for name in sorted(entries, key=lambda name: (name == METADATA, name)):
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


class AuditedRemovals:
    """Removals in the audit log, with two rows for each. Both methods return once the row is on
    disk, and raise `StateError`; then nothing more is removed."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._removal_id = ""

    def removing(self, orphan: Orphan, new_name: str) -> None:
        self._removal_id = uuid.uuid4().hex
        folder = orphan.folder
        self._record(
            "orphan-removal",
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
        self._record("orphan-removal-outcome", {"fate": orphan.fate.value, "reason": orphan.reason})

    def _record(self, action: str, detail: dict[str, object]) -> None:
        record_action(self._state_dir, action_now(action, self._removal_id, json.dumps(detail)))
