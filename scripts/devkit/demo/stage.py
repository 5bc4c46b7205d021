"""Everything that is at work in the demo, and its figures at any moment."""

from collections.abc import Iterator

from devkit.demo.account import Account
from devkit.demo.daemon import Daemon
from devkit.demo.figures import Decision, DiskWatch, TopicFigures, decisions
from devkit.demo.reader import Reader
from devkit.demo.scenario import TOPIC_CONFIG, TOPICS, Group, Topic
from devkit.demo.writer import Writer
from devkit.embedded import EmbeddedKafka
from devkit.embedded.topics import log_starts

NOT_ENABLED = Decision("not enabled")
NO_PLAN = Decision("no plan yet")


class Stage:
    """Topics, producer, consumers and daemon on a started broker; what runs ends with `close`.

    ``accounts`` and ``readers`` are by group. ``look`` reads what the figures rest on.
    """

    def __init__(self, kafka: EmbeddedKafka, daemon: Daemon) -> None:
        self.daemon = daemon
        self.writer = Writer(kafka.bootstrap_servers, TOPICS)
        self.accounts = {
            group.name: Account(group.name, topic.name, topic.partitions)
            for topic in TOPICS
            for group in topic.groups
        }
        self.readers: dict[str, Reader] = {}
        self.log_starts: dict[tuple[str, int], int] = {}
        self.decided: dict[str, Decision] | None = None  # by topic; None before the first plan
        self._kafka = kafka
        self._disk = DiskWatch([folder for node in kafka.nodes for folder in node.log_dirs])

    def start(self) -> None:
        """Make the topics, then let everybody begin."""
        for topic in TOPICS:
            self._kafka.create_topic(topic.name, topic.partitions, TOPIC_CONFIG)
        self.daemon.start()
        for topic in TOPICS:
            for group in topic.groups:
                self.start_reader(group.name, group.behind_seconds)
        self.writer.start()
        self.look()

    def start_reader(self, group: str, behind_seconds: float = 0.0) -> None:
        """A new consumer of the group; it goes on with the group's account."""
        topic, see = self.accounts[group].topic, self.accounts[group].see
        reader = Reader(self._kafka.bootstrap_servers, group, topic, see, behind_seconds)
        self.readers[group] = reader
        reader.start()

    def stop_readers(self) -> None:
        for reader in self.readers.values():
            reader.stop()

    def look(self) -> None:
        """Read the broker's disk, its log start offsets, which the accounts get too, and the
        daemon's last plan."""
        self._disk.look()
        partitions = [(each.name, number) for each in TOPICS for number in range(each.partitions)]
        self.log_starts = log_starts(self._kafka.admin(), partitions)
        for account in self.accounts.values():
            for partition in account.next_offsets:
                account.begins_at(partition, self.log_starts[account.topic, partition])
        plan = self.daemon.plan()
        if plan is not None:
            self.decided = decisions(plan)

    def faults(self) -> list[str]:
        """What consumers saw and must not have seen, a sentence each."""
        return [fault for account in self.accounts.values() for fault in account.faults]

    def troubles(self) -> Iterator[str]:
        """What has broken down, a sentence each."""
        if self.daemon.died is not None:
            yield f"the daemon ended with exit code {self.daemon.died}"
        if self.writer.error:
            yield f"the producer: {self.writer.error}"
        for group, reader in self.readers.items():
            if reader.error:
                yield f"the consumer of {group}: {reader.error}"

    def unread(self) -> dict[str, int]:
        """Written records that a group has not read, by group, where there are any."""
        behind = {
            group.name: self.writer.records(topic) - self.accounts[group.name].records
            for topic in TOPICS
            for group in topic.groups
        }
        return {group: records for group, records in behind.items() if records}

    def deleted(self, topic: Topic) -> int:
        """Records below the log start offsets, which were 0 at first."""
        return sum(self.log_starts[topic.name, number] for number in range(topic.partitions))

    def freed_all(self) -> bool:
        """Of the topics that are emptied, all is deleted and only the active segments are left."""
        return all(
            self._disk.segments[topic.name] == topic.partitions
            and self.deleted(topic) == self.writer.records(topic)
            for topic in TOPICS
            if topic.emptied
        )

    @property
    def has_plan(self) -> bool:
        """The daemon has gone through a cycle."""
        return self.decided is not None

    def kept_for(self, topic: Topic, group: Group) -> bool:
        """By the plan, the topic's records stay because that group has not read them."""
        decision = (self.decided or {}).get(topic.name, NOT_ENABLED)
        return decision == Decision("nothing: not_consumed", (group.name,))

    def figures(self) -> list[TopicFigures]:
        """Each topic, as last looked at."""
        absent, decided = (NO_PLAN, {}) if self.decided is None else (NOT_ENABLED, self.decided)
        return [self._figures(topic, decided.get(topic.name, absent)) for topic in TOPICS]

    def _figures(self, topic: Topic, decision: Decision) -> TopicFigures:
        written = self.writer.written(topic)
        accounts = [self.accounts[group.name] for group in topic.groups]
        return TopicFigures(
            topic=topic.name,
            written=sum(written.values()),
            deleted=self.deleted(topic),
            read_by_all=sum(
                min(account.next_offsets[number] for account in accounts) for number in written
            ),
            behind=tuple(
                (account.group, max(0, sum(written.values()) - account.records))
                for account in accounts
            ),
            on_disk=self._disk.on_disk[topic.name],
            freed=self._disk.freed[topic.name],
            decision=decision,
        )

    def close(self) -> None:
        self.writer.stop()
        self.stop_readers()
