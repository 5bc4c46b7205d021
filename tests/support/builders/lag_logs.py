"""Partitions with known timestamps, groups that read them, and what look-ups by time answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import LogRange
from retentiond.memory.readers import GroupOnTopic
from retentiond.model import Failure, TopicPartition
from retentiond.snapshot import PartitionReading, Snapshot
from retentiond.tell.figures.group_answers import LagReport
from retentiond.tell.figures.margins import LagReader
from tests.support.builders.guard_readings import Commits, Reading, deletions, group, topic
from tests.support.fakes.log import FakePartition, Record

HOUR_MS = 3_600_000


class Logs:
    """A topic with a forced retention of 100 hours; it is noon on some day."""

    def __init__(self, *stamps: list[int], retention_ms: int | None = 100 * HOUR_MS) -> None:
        """The timestamps of each partition's records, in milliseconds before now."""
        self.now_ms = 1_800_000_000_000
        self.retention_ms = retention_ms
        self.topic_id = "id-of-orders"
        self.cleanup_policy = frozenset({"delete"})
        self.commits: Commits = {}
        self.asked: list[Mapping[TopicPartition, int]] = []
        self.fetched: list[Mapping[TopicPartition, int]] = []
        self.answers: dict[TopicPartition, Failure] = {}
        self.error: KafkaUnavailable | None = None
        self.partitions = {
            TopicPartition("orders", number): FakePartition((1,), 1)
            for number in range(len(stamps))
        }
        for at, ages_ms in zip(self.partitions, stamps, strict=True):
            for age_ms in ages_ms:
                self.produce(at.partition, age_ms)
        self.reader = LagReader()

    def produce(self, partition: int, age_ms: int = 0) -> None:
        self.partitions[TopicPartition("orders", partition)].append(self.now_ms - age_ms)

    def commit(self, group_id: str, *offsets: int) -> None:
        """One for each of the first partitions."""
        for number, offset in enumerate(offsets):
            self.commits[group_id, TopicPartition("orders", number)] = offset

    def offsets_at(
        self,
        timestamps_ms: Mapping[TopicPartition, int],
        logs: Mapping[TopicPartition, LogRange] | None = None,
        now_ms: int | None = None,
    ) -> Mapping[TopicPartition, int | Failure | None]:
        """As of `retentiond.kafka.interface.Kafka`."""
        self.asked.append(timestamps_ms)
        if self.error:
            raise self.error
        return {
            at: self.answers.get(at, self.partitions[at].first_at(time_ms))
            for at, time_ms in timestamps_ms.items()
        }

    def next_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Failure | None]:
        self.fetched.append(offsets)
        return {
            at: self.answers.get(at, self.partitions[at].first_record(offset))
            for at, offset in offsets.items()
        }

    def end_transaction(self, partition: int, age_ms: int) -> None:
        """Its marker takes an offset."""
        at = TopicPartition("orders", partition)
        self.partitions[at].records.append(Record(self.now_ms - age_ms, None, is_marker=True))

    def snapshot(self) -> Snapshot:
        reading = Reading(
            topics={
                "orders": replace(
                    topic("orders"),
                    topic_id=self.topic_id,
                    forced_retention_ms=self.retention_ms,
                    cleanup_policy=self.cleanup_policy,
                )
            },
            groups={name: group(name) for name, _ in self.commits},
            commits=self.commits,
            partitions={
                at: PartitionReading(
                    0,
                    at.partition,
                    log.log_start,
                    log.high_watermark,
                    log.last_stable,
                    log.high_watermark,
                )
                for at, log in self.partitions.items()
            },
        )
        return replace(reading.snapshot(), taken_at_ms=self.now_ms)

    def report(self) -> LagReport:
        """What a cycle finds."""
        snapshot = self.snapshot()
        rows = deletions(self.partitions)
        return self.reader.report(self, snapshot, rows, lambda: False)  # type: ignore[arg-type]  # asked for nothing else

    def margins(self) -> dict[str, float]:
        """What a cycle finds, in seconds by group."""
        found = self.report()
        assert found.problem is None
        return {at.group_id: margin for at, margin in found.margins.items()}

    def true_margin(self, group_id: str) -> float | None:
        """The same worked out from the timestamps; None where nothing is unread, or it's gone."""
        margins = []
        for at, log in self.partitions.items():
            offset = self.commits.get((group_id, at))
            if offset is None or not log.log_start <= offset < log.high_watermark:
                continue
            stamps = [each.timestamp_ms for each in log.records[log.log_start : offset + 1]]
            last_ms = min(self.now_ms, max(stamps))
            assert self.retention_ms is not None
            margins.append((last_ms + self.retention_ms - self.now_ms) / 1000)
        return min(margins, default=None)


def name(group_id: str) -> GroupOnTopic:
    return GroupOnTopic(group_id, "orders")
