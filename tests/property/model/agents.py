"""Readers: what each has processed, what it told Kafka, and where it would go on."""

from __future__ import annotations

from dataclasses import dataclass, field

from retentiond.model import GroupKind, TopicPartition
from tests.support.fakes import FakeCluster, FakePartition

LOOK_BACK_MS = 3_600_000
"""How far before its start a reader begins that starts by time."""

EARLIEST, LATEST, BY_TIME = "earliest", "latest", "by time"


@dataclass(eq=False)
class Want:
    """What an agent wants of one log. ``start``: where its reset put it, None where it would go to
    the end; ``position``: the next record that it processes; ``told``: what it last committed.

    ``before``: what it needed until it went back, and when that was; None once somebody who looks
    must have seen where it is now.
    """

    start: int | None
    position: int
    told: int | None = None
    before: tuple[int | None, int] | None = None
    taken_over: int | None = None  # its commit is of an earlier topic of that name

    def need(self, is_alive: bool) -> int | None:
        """The first record that must be there for it to go on, now or when it comes back."""
        if self.told is not None:
            return self.told
        if self.start is None:
            return self.position if is_alive else None
        return self.start


@dataclass(eq=False)
class Agent:
    """One consumer that is its group's only one. ``how`` it takes its topics: by ``name``, by
    ``pattern`` (then ``topics`` are those that it means) or by ``assignment``, which Kafka does not
    show. A streams application takes them by its topology."""

    group: str
    cluster: FakeCluster
    kind: GroupKind = GroupKind.CLASSIC
    how: str = "name"
    reset: str = EARLIEST
    topics: frozenset[str] = frozenset()
    alive: bool = False
    wants: dict[FakePartition, Want] = field(default_factory=dict)

    def logs(self, topic: str) -> list[FakePartition]:
        """Those of the topic as it is now that it reads."""
        if topic not in self.topics or topic not in self.cluster.topics:
            return []
        return self.cluster.topics[topic].partitions

    def find_partitions(self) -> None:
        """A live one sees new topics and partitions, and begins where its reset says."""
        for topic in self.topics:
            for log in self.logs(topic):
                if log not in self.wants and (self.alive or self.reset == EARLIEST):
                    at = self.first(log, self.reset)
                    self.wants[log] = Want(None if self.reset == LATEST else at, at)

    def first(self, log: FakePartition, reset: str) -> int:
        if reset == EARLIEST:
            return log.log_start
        found = log.first_at(self.cluster.now_ms - LOOK_BACK_MS) if reset == BY_TIME else None
        return log.high_watermark if found is None else found

    def read(self, count: int) -> None:
        """Processes as many records of each partition, and tells nobody. The last stable offset
        is as far as it goes."""
        for log, want in self._live():
            if want.position > log.high_watermark:  # out of range: its reset applies
                want.start = want.position = self.first(log, self.reset)
                want.told = None
            end = max(log.last_stable, log.log_start)
            want.position = min(max(want.position, log.log_start) + count, end)

    def tell(
        self, topics: frozenset[str], partitions: frozenset[int] = frozenset((0, 1, 2))
    ) -> None:
        """Commits what it has processed."""
        self.find_partitions()
        for topic in self.topics & topics:
            for number, log in enumerate(self.logs(topic)):
                if number in partitions and self.alive:
                    self._commit(topic, number, self.wants[log].position)

    def step_back(self, count: int) -> None:
        """It has not processed the last few after all; what it told stays told."""
        for _, want in self._live():
            want.position = max(want.position - count, want.told or 0)

    def take_over(self, topic: str) -> None:
        """Goes on, on a topic of the same name, from where its group was on the one before."""
        for number, log in enumerate(self.logs(topic)):
            told = self.told(topic, number)
            if told is not None and log in self.wants:
                self.wants[log] = Want(told, told, told, taken_over=told)

    def fall_back(self, log: FakePartition) -> None:
        """What it had read beyond the log's end is gone."""
        if want := self.wants.get(log):
            end, need = log.high_watermark, want.need(self.alive)
            want.position = min(want.position, end)
            if need is not None and need > end:
                want.start, want.told, want.before = end, None, (need, self.cluster.now_ms)

    def go_to(self, reset: str) -> None:
        """As its operator resets its offsets, by Kafka's own tool: its group commits the new ones
        where it had some."""
        self.find_partitions()
        for topic in self.topics:
            for number, log in enumerate(self.logs(topic)):
                if want := self.wants.get(log):
                    need = want.need(self.alive)
                    want.before = (need, self.cluster.now_ms)
                    want.position = self.first(log, reset)
                    if want.told is not None:
                        self._commit(topic, number, want.position)
                    else:
                        want.start = None if reset == LATEST else want.position

    def resume(self) -> None:
        """Comes back to where its group is, or, without commits, where its reset puts it."""
        for topic in self.topics:
            for number, log in enumerate(self.logs(topic)):
                if (want := self.wants.get(log)) is None:
                    continue
                if self.told(topic, number) is None and want.told is not None:  # they expired
                    want.before = (want.told, self.cluster.now_ms)
                    want.told = None
                    want.start = None if self.reset == LATEST else self.first(log, self.reset)
                if want.told is not None:
                    want.position = want.told
                elif want.start is None:
                    want.position = log.high_watermark
                else:
                    want.position = want.start

    def told(self, topic: str, partition: int) -> int | None:
        """What Kafka still has of it."""
        group = self.cluster.groups.get(self.group)
        return group.commits.get(TopicPartition(topic, partition)) if group else None

    def _commit(self, topic: str, number: int, offset: int) -> None:
        log = self.logs(topic)[number]
        self.wants[log].told = offset
        written = [epoch for epoch, start in log.epoch_starts.items() if start < offset]
        self.cluster.commit(
            self.group,
            {(topic, number): offset},
            self.kind,
            leader_epoch=max(written, default=None),
        )

    def _live(self) -> list[tuple[FakePartition, Want]]:
        if not self.alive:
            return []
        self.find_partitions()
        logs = [log for topic in self.topics for log in self.logs(topic)]
        return [(log, self.wants[log]) for log in logs]
