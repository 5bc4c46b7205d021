"""Everybody who writes and reads."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from devkit.ledger.book import Book
from devkit.ledger.cluster import Cluster
from devkit.ledger.keeper import Keeper
from devkit.ledger.reader import Reader
from devkit.ledger.scenario import GROUPS, TOPICS, Group, Partition, Protocol
from devkit.ledger.sharer import Sharer
from devkit.ledger.writers import Writer

PARTITIONS: tuple[Partition, ...] = tuple(
    partition for topic in TOPICS for partition in topic.all_partitions
)

JOIN_SECONDS = 60.0
POLL_SECONDS = 0.1


class Stage:
    """Producers and consumers on a started cluster. What they do is told by ``book``."""

    def __init__(self, cluster: Cluster, book: Book, seed: str, folder: Path) -> None:
        self.book = book
        self.groups: list[Group] = []
        self.readers: list[Keeper] = []
        sequence = itertools.count(1)
        self._cluster = cluster
        self._seed = seed
        self._folder = folder
        self._writers = [
            Writer(cluster.servers, topic, book, sequence, f"{seed} writer {topic.name}")
            for topic in TOPICS
        ]

    def start(self) -> None:
        """Make the topics and let everybody begin: the groups first, so that all have claims."""
        for topic in TOPICS:
            self._cluster.make_topic(topic)
        for group in GROUPS:
            self.join(group)
        deadline = time.monotonic() + JOIN_SECONDS
        while not all(self._has_claims(group) for group in GROUPS):
            if time.monotonic() > deadline:
                raise TimeoutError("not every group has committed everywhere")
            time.sleep(POLL_SECONDS)
        for writer in self._writers:
            writer.start()

    def join(self, group: Group) -> None:
        """A group that was not there before."""
        self.groups.append(group)
        if group.protocol is Protocol.SHARE:
            self._cluster.make_share_group(group)
        for number in range(group.members):
            seed = f"{self._seed} reader {group.name} {number}"
            log_file = self._folder / "members.log"
            kind = Sharer if group.protocol is Protocol.SHARE else Reader
            member = kind(self._cluster.servers, group, self.book, seed, log_file)
            self.readers.append(member)
            member.start()

    def stop_writing(self) -> None:
        """Return when every record is answered."""
        for writer in self._writers:
            writer.stop()
        for writer in self._writers:
            writer.join()

    def calm_down(self) -> None:
        """Every consumer only reads from now on."""
        for reader in self.readers:
            reader.calm_down()

    def unread(self) -> dict[str, int]:
        """Partitions that a group has not read and committed to the end, by group; of those that
        commit."""
        behind = {
            group.name: sum(self._is_behind(group, each) for each in group.topic.all_partitions)
            for group in self.groups
            if group.protocol is not Protocol.SHARE
        }
        return {group: partitions for group, partitions in behind.items() if partitions}

    def unshared(self) -> dict[str, int]:
        """Records that the topic's share group has not been given, by topic."""
        behind = {
            group.topic.name: sum(
                self.book.unshared(group.name, each) for each in group.topic.all_partitions
            )
            for group in self.groups
            if group.protocol is Protocol.SHARE
        }
        return {topic: records for topic, records in behind.items() if records}

    def share_starts(self) -> dict[Partition, int]:
        """Where the share groups stand."""
        return {
            partition: start
            for group in self.groups
            if group.protocol is Protocol.SHARE
            for partition, start in self._cluster.share_starts(group).items()
        }

    def stop_reading(self) -> None:
        for reader in self.readers:
            reader.stop()
        for reader in self.readers:
            reader.join()

    def troubles(self) -> Iterator[str]:
        """Who has broken down for good."""
        everybody: list[Writer | Keeper] = [*self._writers, *self.readers]
        for each in everybody:
            if each.error:
                yield each.error

    def _has_claims(self, group: Group) -> bool:
        return group.protocol is Protocol.SHARE or all(
            self.book.position(group.name, partition) is not None
            for partition in group.topic.all_partitions
        )

    def _is_behind(self, group: Group, partition: Partition) -> bool:
        position = self.book.position(group.name, partition)
        return position is None or position < self.book.end(partition)
