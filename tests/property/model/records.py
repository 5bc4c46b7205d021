"""The hand that writes: topics, records, the brokers' own retention, and what befalls a log."""

from __future__ import annotations

from contextlib import suppress

from tests.fakes import FakeCluster, FakePartition, Transaction

MOST_PARTITIONS = 3
MOST_RECORDS = 200


class Records:
    """``expired``: partitions in which the brokers themselves have deleted since it was cleared."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(brokers=3, offsets_partitions=3)
        self.expired: list[FakePartition] = []
        self._transactions: list[Transaction] = []

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        if topic not in self.cluster.topics:
            self.cluster.create_topic(
                topic,
                partitions,
                {key.replace("_", "."): value for key, value in config.items()},
                replication_factor=2,
            )

    def recreate(self, topic: str, partitions: int, keeps_commits: bool) -> None:
        """The coordinators take their time to drop a deleted topic's commits."""
        if topic in self.cluster.topics:
            kept = {name: dict(group.commits) for name, group in self.cluster.groups.items()}
            self.cluster.delete_topic(topic)
            if keeps_commits:
                for name, commits in kept.items():
                    self.cluster.groups[name].commits = commits
        self.create(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        if topic in self.cluster.topics:
            self.cluster.delete_topic(topic)

    def add_partition(self, topic: str) -> None:
        if topic in self.cluster.topics:
            logs = self.cluster.topics[topic].partitions
            if len(logs) < MOST_PARTITIONS:
                logs.append(FakePartition((1, 2), 1))

    def configure(self, topic: str, key: str, value: str) -> None:
        if topic in self.cluster.topics:
            self.cluster.topics[topic].config[key] = value

    def produce(self, topic: str, partition: int, count: int, age_ms: int = 0) -> None:
        """A negative age is a time stamp in the future."""
        if (log := self.log(topic, partition)) and len(log.records) + count <= MOST_RECORDS:
            timestamp_ms = self.cluster.now_ms - age_ms
            self.cluster.produce(topic, partition, count, timestamp_ms=timestamp_ms)

    def begin(self, topic: str, partition: int) -> None:
        """A transaction with one record."""
        if self.log(topic, partition):
            self._transactions.append(Transaction())
            self.cluster.produce(topic, partition, transaction=self._transactions[-1])

    def begin_afresh(self, topic: str, partition: int) -> None:
        """A transaction in a log that has nothing else: the brokers deleted all before it."""
        if log := self.log(topic, partition):
            log.log_start = log.high_watermark
            self.expired.append(log)
            self.begin(topic, partition)

    def end(self) -> None:
        if self._transactions:
            self.cluster.end(self._transactions.pop())

    def expire_records(self) -> None:
        """Kafka's own retention."""
        self.cluster.enforce_retention()
        self.expired += self._logs()

    def truncate(self, topic: str, partition: int, count: int) -> None:
        """An unclean election: the new leader lacks the last records."""
        if (log := self.log(topic, partition)) and len(log.records) - count >= log.log_start:
            del log.records[len(log.records) - count :]
            log.elect(log.leader)

    def set_back(self, topic: str, partition: int, count: int) -> None:
        """An unclean restart: deleted records are back."""
        if log := self.log(topic, partition):
            log.log_start = max(0, log.log_start - count)

    def advance(self, ms: int) -> None:
        self.cluster.advance(ms)

    def log(self, topic: str, partition: int) -> FakePartition | None:
        with suppress(KeyError, IndexError):
            return self.cluster.partition(topic, partition)
        return None

    def _logs(self) -> list[FakePartition]:
        return [log for topic in self.cluster.topics.values() for log in topic.partitions]
