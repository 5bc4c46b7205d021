"""Everybody who writes and reads on one cluster."""

import itertools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException

from devkit.embedded.topics import log_starts
from devkit.ledger.book import Book
from devkit.ledger.cluster import Cluster
from devkit.ledger.daemon import Daemon
from devkit.ledger.keeper import Keeper
from devkit.ledger.readers import Guest, Reader, Sharer
from devkit.ledger.record import now_ms
from devkit.ledger.scenario import RENEWED, Group, Partition, Protocol, Topic
from devkit.ledger.writers import Writer
from devkit.waiting import came_true

JOIN_SECONDS = 60.0
FORGET_AGAIN_SECONDS = 3.0
BURST_RECORDS = 300


class Stage:
    """Producers and consumers on a started cluster. What they do is told by ``book``.

    ``first_sequence``: no other cluster has records of these numbers.
    """

    def __init__(
        self,
        cluster: Cluster,
        book: Book,
        seed: str,
        folder: Path,
        *,
        topics: Sequence[Topic],
        groups: Sequence[Group],
        first_sequence: int = 1,
    ) -> None:
        self.book = book
        self.cluster = cluster
        self.keepers: list[Keeper] = []
        self._topics = topics
        self._groups = groups
        self._seed = seed
        self._folder = folder
        self._goers: list[Future[None]] = []
        self._operator = ThreadPoolExecutor(1, "operator")
        self._closed = threading.Event()
        sequence = itertools.count(first_sequence)
        self._servers = cluster.kafka.bootstrap_servers
        self._writers = {
            topic.name: Writer(self._servers, topic, book, sequence, f"{seed} writer {topic.name}")
            for topic in topics
        }

    @property
    def partitions(self) -> list[Partition]:
        return [(each.name, number) for each in self._topics for number in range(each.partitions)]

    @property
    def groups(self) -> list[Group]:
        """Those that read now, or will again."""
        return list({keeper.group.name: keeper.group for keeper in self.keepers}.values())

    def start(self, head_start: int = 0) -> None:
        """Make the topics and let everybody begin: the groups first, so that all have told where
        they stand. ``head_start``: so many records of each partition come at once."""
        for topic in self._topics:
            since_ms = now_ms()
            self.book.created(topic.name, self.cluster.make_topic(topic), since_ms)
        for group in self._groups:
            self.join(group)
        if not came_true(lambda: all(map(self._has_committed, self._groups)), JOIN_SECONDS):
            raise TimeoutError("not every group has committed everywhere")
        for topic in self._topics:
            writer = self._writers[topic.name]
            writer.burst(head_start * topic.partitions)
            writer.start()

    def join(self, group: Group) -> None:
        if group.protocol is Protocol.SHARE:
            self.book.share_groups.add(group.name)
            self.cluster.make_share_group(group)
        kind = Sharer if group.protocol is Protocol.SHARE else Reader
        for number in range(group.members):
            seed = f"{self._seed} reader {group.name} {number}"
            self._keep(kind(self._servers, group, self.book, seed, self._log_file))

    def invite(self, group: Group, daemon: Daemon) -> None:
        """Guests of that kind, one after another; the daemon's operator lets go of them."""
        seed = f"{self._seed} guest {group.name}"
        let_go = partial(self.let_go, daemon=daemon)
        self._keep(Guest(self._servers, group, self.book, seed, self._log_file, let_go=let_go))

    def let_go(self, name: str, daemon: Daemon) -> None:
        """Has an operator remove a group that will not come back, and the daemon forget it; one
        group after another."""
        self._goers.append(self._operator.submit(self._let_go, name, daemon))

    def recreate(self) -> None:
        """Delete a topic and create it again, while all go on; then much is written at once."""
        topic = RENEWED
        self.book.deleting(topic.name)
        self.cluster.remove_topic(topic)
        topic_id = self.cluster.make_topic(topic)
        self.book.created(topic.name, topic_id, now_ms())
        self.book.count("topics recreated")
        self._writers[topic.name].burst(BURST_RECORDS)
        for keeper in self.keepers:
            if topic in keeper.group.topics:
                keeper.tell_renewed()

    def stop_writing(self) -> None:
        """Return when every record is answered."""
        for writer in self._writers.values():
            writer.stop()
        for writer in self._writers.values():
            writer.join()

    def calm_down(self) -> None:
        """Every consumer only reads from now on."""
        for keeper in self.keepers:
            keeper.calm_down()

    def unread(self) -> dict[str, int]:
        """Partitions that a group has not read and committed to the end, by group; of those that
        commit."""
        behind = {
            group.name: sum(self._is_behind(group, each) for each in group.partitions)
            for group in self.groups
            if group.protocol is not Protocol.SHARE
        }
        return {group: partitions for group, partitions in behind.items() if partitions}

    def share_starts(self) -> dict[Partition, int]:
        return {
            partition: start
            for group in self.groups
            if group.protocol is Protocol.SHARE
            for partition, start in self.cluster.share_starts(group).items()
        }

    def log_starts(self) -> dict[Partition, int]:
        """Raises KafkaException, TimeoutError."""
        return log_starts(self.cluster.kafka.admin(), self.partitions)

    @property
    def goers(self) -> int:
        """Groups that an operator has yet to let go of."""
        return sum(not each.done() for each in self._goers)

    def stop_reading(self) -> None:
        self._closed.set()
        for keeper in self.keepers:
            keeper.stop()
        for keeper in self.keepers:
            keeper.join()
        self._operator.shutdown(cancel_futures=True)

    def troubles(self) -> Iterator[str]:
        """Who has broken down for good."""
        everybody: list[Writer | Keeper] = [*self._writers.values(), *self.keepers]
        for each in everybody:
            if each.error:
                yield each.error
        for goer in self._goers:
            if goer.done() and not goer.cancelled() and (error := goer.exception()):
                yield f"the operator: {error!r}"

    @property
    def _log_file(self) -> Path:
        return self._folder / "members.log"

    def _keep(self, keeper: Keeper) -> None:
        self.keepers.append(keeper)
        keeper.start()

    def _let_go(self, name: str, daemon: Daemon) -> None:
        cycles_with_it: int | None = None  # None: it is there
        self.book.forget(name)
        # It takes as long as the daemon is away, on the other cluster for one: it must have missed
        # the group in a cycle.
        while not self._closed.wait(FORGET_AGAIN_SECONDS):
            cycles = daemon.complete_cycles
            if cycles_with_it is None:
                with suppress(KafkaException, TimeoutError):  # it has members, or a broker is away
                    self.cluster.remove_group(name)
                    cycles_with_it = daemon.complete_cycles + 1  # the one that is under way
            elif daemon.forget(name):
                self.book.count("groups forgotten")
                return
            elif cycles > cycles_with_it:
                self.book.count("groups that came and went while the daemon was away")
                return
        self.book.count("groups that could not be forgotten")

    def _has_committed(self, group: Group) -> bool:
        return group.protocol is Protocol.SHARE or all(
            self.book.position(group.name, partition) is not None for partition in group.partitions
        )

    def _is_behind(self, group: Group, partition: Partition) -> bool:
        position = self.book.position(group.name, partition)
        return position is None or position < self.book.end(partition)
