"""What the brokers' disks hold, put together by partition. It is information, never evidence:
nothing is deleted or held on its account, and what is not known is None and never 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from retentiond.disk.replica import ReplicaKey
from retentiond.kafka.port import LogDir, LogDirs, Replica
from retentiond.model import Failure, TopicPartition


class Folder(NamedTuple):
    """A partition's folder on one broker; its figures are those of `kafka.port.Replica`."""

    broker: int
    log_dir: str
    size_bytes: int
    offset_lag: int | None
    is_future: bool


Folders: TypeAlias = "tuple[Folder, ...]"


class Orphans(NamedTuple):
    """The partition folders in a log directory that no metadata account for."""

    broker: int
    log_dir: str
    partitions: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DiskReading:
    """One look at all disks.

    - ``folders``: of the partitions asked about, wherever a broker shows one.
    - ``unread``: partitions of which a broker that is to hold one could not be read.
    - ``orphans``: one for each log directory that was read, sorted by broker and directory.
    - ``log_bytes``: of all that lies in the log directories of all brokers; None where one of
      them could not be read.
    - ``problems``: what could not be read, a sentence each.
    """

    folders: Mapping[TopicPartition, Folders] = field(default_factory=dict)
    unread: frozenset[TopicPartition] = frozenset()
    orphans: tuple[Orphans, ...] = ()
    log_bytes: int | None = None
    problems: tuple[str, ...] = ()

    def replicas(self, at: TopicPartition) -> Folders | None:
        """The folders in use, on every broker that is to hold one; None where one is not known."""
        if at in self.unread:
            return None
        return tuple(each for each in self.folders.get(at, ()) if not each.is_future) or None

    def size_of(self, replica: ReplicaKey) -> int | None:
        """Of one replica in use; None where it is not there, or not known."""
        found = self.replicas(replica.at) or ()
        return next((each.size_bytes for each in found if each[:2] == replica[1:]), None)

    def size_bytes(self, at: TopicPartition) -> int | None:
        """Of all replicas together, future ones too: they take their place as well."""
        known = self.replicas(at) is not None
        return sum(each.size_bytes for each in self.folders[at]) if known else None


NOTHING_READ = DiskReading()


def unread(failure: Failure) -> DiskReading:
    """Where no broker could be asked."""
    return DiskReading(problems=(f"the brokers' disks can't be read: {failure}",))


def sorted_out(found: LogDirs, partitions: Collection[TopicPartition]) -> DiskReading:
    """The reading of those partitions, and of all orphans."""
    wanted = set(partitions)
    folders: defaultdict[TopicPartition, list[Folder]] = defaultdict(list)
    orphans: list[Orphans] = []
    problems: list[str] = []
    log_bytes = 0
    for broker, answer in sorted(found.brokers.items()):
        if isinstance(answer, Failure):
            problems.append(f"the disks of broker {broker} can't be read: {answer}")
            continue
        for directory in sorted(answer, key=lambda each: each.path):
            if directory.failure:
                problems.append(f"{directory.path} of broker {broker}: {directory.failure}")
                continue
            for replica in directory.replicas:
                log_bytes += replica.size_bytes
                at = TopicPartition(replica.topic, replica.partition)
                if at in wanted and not replica.is_orphan:
                    folders[at].append(_folder(broker, directory, replica))
            orphans.append(_orphans(broker, directory))
    return DiskReading(
        folders={at: tuple(each) for at, each in folders.items()},
        unread=frozenset(
            at for at in wanted if not _is_complete(found.assigned.get(at), folders.get(at, ()))
        ),
        orphans=tuple(orphans),
        log_bytes=None if problems else log_bytes,
        problems=tuple(problems),
    )


def _folder(broker: int, directory: LogDir, replica: Replica) -> Folder:
    return Folder(broker, directory.path, replica.size_bytes, replica.offset_lag, replica.is_future)


def _orphans(broker: int, directory: LogDir) -> Orphans:
    sizes = [replica.size_bytes for replica in directory.replicas if replica.is_orphan]
    return Orphans(broker, directory.path, len(sizes), sum(sizes))


def _is_complete(assigned: Collection[int] | None, found: Sequence[Folder]) -> bool:
    if not assigned:
        return False
    return set(assigned) <= {each.broker for each in found if not each.is_future}
