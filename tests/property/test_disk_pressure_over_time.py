"""Disk pressure over many cycles: random lives of a small disk, judged by the disk itself.

The disk knows what retentiond can only estimate: where segments end, what the broker is about to
remove, and which files are gone already. The judge is told nothing by retentiond but its requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from retentiond.clock import Uptime
from retentiond.config import Config, Limits
from retentiond.cycle import CycleContext, plan_cycle, run_cycle
from retentiond.disks import broker_disks
from retentiond.disks.broker_disks import BrokerDisks
from retentiond.errors import KafkaUnavailable
from retentiond.kafka.interface import LogDir, LogDirs, Replica
from retentiond.model import Plan, TopicPartition
from retentiond.state.state import State, open_state, read_stored_state
from tests.property.model.daemon import NoLag
from tests.support import oracle
from tests.support.builders import daemons
from tests.support.builders.gather_worlds import entry
from tests.support.fakes import FakeCluster
from tests.support.fakes.world import RECORD_BYTES
from tests.support.tiers import runs

LIVES = runs(60, quick=10)

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS

PARTITIONS = 4
SEGMENT_RECORDS = 10
SEGMENT = SEGMENT_RECORDS * RECORD_BYTES
TOTAL = 120 * SEGMENT
BELOW, UNTIL = 0.30, 0.40

CHECK_MS = 5 * MINUTE_MS
"""log.retention.check.interval.ms"""

FILE_DELAY_MS = MINUTE_MS
"""file.delete.delay.ms"""

NORMAL_MS, PRESSURE_MS = 24 * HOUR_MS, 10 * MINUTE_MS

ESTIMATE = 2 * PARTITIONS * SEGMENT
"""How far the prediction may be off: a segment for what goes, and one for what is on its way."""

FOREIGN_MS = 10 * MINUTE_MS
"""Whoever removes other files in this time hides what has left the logs and not the disk."""


class SmallDisk(FakeCluster):
    """One broker. At its checks it removes the segments that lie below the log start, but for the
    active one; their files follow a while later. Producers fail while there is no room."""

    def __init__(self) -> None:
        super().__init__()
        self.create_topic("orders", PARTITIONS, {"segment.bytes": str(SEGMENT)})
        self.first_records = [0] * PARTITIONS  # the first one of each log that is on the disk
        self.removed: list[tuple[int, int]] = []  # bytes of files, and when they go
        self.foreign_bytes = 0
        self.foreign_removed: list[tuple[int, int]] = []  # bytes, and when
        self.tells_space = True
        self.requests: dict[TopicPartition, int] = {}
        for number in range(PARTITIONS):
            self.write(number, 15 * SEGMENT_RECORDS)
        self.commit(
            "billing", {TopicPartition("orders", number): 0 for number in range(PARTITIONS)}
        )

    def logs(self) -> int:
        return sum(map(self.log_bytes, range(PARTITIONS)))

    def log_bytes(self, number: int) -> int:
        end = self.partition("orders", number).high_watermark
        return RECORD_BYTES * (end - self.first_records[number])

    def usable(self) -> int:
        return TOTAL - self.logs() - self.removed_bytes() - self.foreign_bytes

    def removed_bytes(self) -> int:
        return sum(size for size, _ in self.removed)

    def below(self, number: int, offset: int) -> int:
        """Bytes of the closed segments in the log that lie wholly below an offset."""
        end = self.partition("orders", number).high_watermark
        active = (end - 1) // SEGMENT_RECORDS * SEGMENT_RECORDS
        first_kept = min(offset // SEGMENT_RECORDS * SEGMENT_RECORDS, active)
        return RECORD_BYTES * max(0, first_kept - self.first_records[number])

    def doomed_bytes(self) -> int:
        """What goes without any further deletion."""
        logs = self.topics["orders"].partitions
        return self.removed_bytes() + sum(
            self.below(n, log.log_start) for n, log in enumerate(logs)
        )

    def write(self, number: int, count: int) -> None:
        room = min(count, self.usable() // RECORD_BYTES)
        if room > 0:
            self.produce("orders", number, room)

    def change_foreign(self, change: int) -> None:
        change = min(max(change, -self.foreign_bytes), self.usable())
        self.foreign_bytes += change
        if change < 0:
            self.foreign_removed.append((-change, self.now_ms))

    def foreign_removed_lately(self) -> int:
        since_ms = self.now_ms - FOREIGN_MS
        return sum(size for size, at_ms in self.foreign_removed if at_ms >= since_ms)

    def pass_time(self, ms: int) -> None:
        while ms > 0:
            step = min(ms, 30 * SECOND_MS)
            ms -= step
            self.advance(step)
            self.removed = [(size, at_ms) for size, at_ms in self.removed if at_ms > self.now_ms]
            if self.now_ms % CHECK_MS < step:
                self.check()

    def check(self) -> None:
        for number, log in enumerate(self.topics["orders"].partitions):
            if size := self.below(number, log.log_start):
                self.first_records[number] += size // RECORD_BYTES
                self.removed.append((size, self.now_ms + FILE_DELAY_MS))

    def log_dirs(self, _give_up: Callable[[], bool] = lambda: False) -> LogDirs:
        replicas = [
            Replica("orders", number, self.log_bytes(number)) for number in range(PARTITIONS)
        ]
        space = (TOTAL, self.usable()) if self.tells_space else (None, None)
        directory = LogDir("/kafka", tuple(replicas), *space)
        return LogDirs(
            {1: [directory]}, {TopicPartition("orders", n): (1,) for n in range(PARTITIONS)}
        )

    def delete_records(self, cutoffs: Mapping[TopicPartition, int], **more: Any) -> Any:
        self.requests.update(cutoffs)
        return super().delete_records(cutoffs, **more)


class NoWaits:
    """Nobody ends the process, and what a cycle waits for is there at once."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float) -> bool:
        return False


class Deleted(NamedTuple):
    """One partition's deletion. ``bytes``: what the broker removes because of it."""

    number: int
    start: int
    cutoff: int
    bytes: int
    is_sooner: bool


@dataclass
class Life:
    """A disk and its daemon. ``is_pressed``: under pressure, by the disk's own figures."""

    state: State
    config: Config
    disk: SmallDisk = field(default_factory=SmallDisk)
    disks: BrokerDisks = field(default_factory=BrokerDisks)
    is_pressed: bool = False

    def cycle_after(self, what: Round) -> list[Deleted]:
        disk = self.disk
        for number, (written, share) in enumerate(zip(what.written, what.read, strict=True)):
            disk.write(number, written)
            end, before = disk.partition("orders", number).high_watermark, self.committed(number)
            committed = before + int(share * (end - before))
            disk.commit("billing", {TopicPartition("orders", number): committed})
        disk.change_foreign(what.foreign_segments * SEGMENT)
        disk.pass_time(what.waited_ms)
        disk.tells_space = what.tells_space
        if what.restarts:
            self.disks = BrokerDisks()
        return self.cycle()

    def committed(self, number: int) -> int:
        return self.disk.groups["billing"].commits[TopicPartition("orders", number)] or 0

    def cycle(self) -> list[Deleted]:
        """One cycle, judged. Returns what it deleted because of pressure."""
        disk = self.disk
        logs = disk.topics["orders"].partitions
        starts = [log.log_start for log in logs]
        before = [disk.below(number, start) for number, start in enumerate(starts)]
        usable, doomed = disk.usable(), disk.doomed_bytes()
        if disk.tells_space:
            self.is_pressed = usable < TOTAL * (UNTIL if self.is_pressed else BELOW)
        disk.requests.clear()
        run_cycle(self._context(), self.config, self.state)
        deleted = []
        for at, cutoff in disk.requests.items():
            start, log = starts[at.partition], logs[at.partition]
            gone = log.records[start:cutoff]
            assert cutoff <= self.committed(at.partition), "it was not consumed"
            youngest_ms = disk.now_ms - max(record.timestamp_ms for record in gone)
            assert youngest_ms >= PRESSURE_MS, "the pressure retention protects it"
            freed = disk.below(at.partition, cutoff) - before[at.partition]
            is_sooner = youngest_ms < NORMAL_MS
            deleted.append(Deleted(at.partition, start, cutoff, freed, is_sooner))
        sooner = [each for each in deleted if each.is_sooner]
        if sooner:
            assert self.is_pressed, "nothing was under pressure"
            assert disk.tells_space, "the space was not known"
            needed = UNTIL * TOTAL - usable - doomed
            needed -= sum(each.bytes for each in deleted if not each.is_sooner)
            freed = sum(each.bytes for each in sooner) - min(each.bytes for each in sooner)
            slack = ESTIMATE + disk.foreign_removed_lately()
            assert freed < needed + slack, f"{sooner}: {needed} were needed"
        return sooner

    def plan(self) -> Plan:
        """What a process that only reads would show."""
        stored = read_stored_state(self.state.state_dir)
        return plan_cycle(self._context(), self.config, stored).report.plan

    def may_go(self) -> int:
        """Bytes that pressure could still have deleted."""
        disk = self.disk
        return sum(
            max(0, disk.below(number, self.committed(number)) - disk.below(number, log.log_start))
            for number, log in enumerate(disk.topics["orders"].partitions)
        )

    def _context(self) -> CycleContext:
        return daemons.cycle_context(self.disk, stop=NoWaits(), disks=self.disks, lag=NoLag())


def config(state_dir: Path) -> Config:
    rule = {
        "retention.commitoffset.ms": NORMAL_MS,
        "retention.commitoffset.pressure.ms": PRESSURE_MS,
    }
    return daemons.settings(
        state_dir,
        schedule={},
        dry_run=False,
        disk_pressure={"below_free": f"{BELOW:.0%}", "until_free": f"{UNTIL:.0%}"},
        topics=[entry("orders", **rule)],
    )


class Round(NamedTuple):
    """What happens before a cycle. ``written``, ``read``: records, and the share of what is left to
    read, by partition. ``restarts``: the daemon restarts, from the stored state."""

    written: tuple[int, ...]
    read: tuple[float, ...]
    foreign_segments: int
    waited_ms: int
    tells_space: bool
    restarts: bool


def each_partition(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(*[values] * PARTITIONS)


ROUNDS = st.lists(
    st.builds(
        Round,
        written=each_partition(st.sampled_from([0, 0, 0, 3, 40, 120, 300])),
        read=each_partition(st.sampled_from([1.0, 1.0, 0.9, 0.3, 0.0])),
        foreign_segments=st.sampled_from([0, 0, 0, 3, 20, -3, -20]),
        waited_ms=st.sampled_from(
            [SECOND_MS, 30 * SECOND_MS, 6 * MINUTE_MS, HOUR_MS, 25 * HOUR_MS]
        ),
        tells_space=st.sampled_from([True, True, True, False]),
        restarts=st.sampled_from([False, False, True]),
    ),
    min_size=10,
    max_size=30,
)


@contextmanager
def new_life() -> Iterator[Life]:
    """retentiond's clocks are the disk's; in place of Spark is the oracle."""
    with (
        TemporaryDirectory() as folder,
        open_state(Path(folder)) as state,
        mock.patch("retentiond.cycle.decide", lambda _spark, snapshot: oracle.plan(snapshot)),
    ):
        life = Life(state, config(Path(folder)))

        def uptime() -> Uptime:
            return Uptime("the-host", life.disk.now_ms)

        with mock.patch.object(broker_disks, "uptime", uptime):
            yield life


def read_at_once(written: tuple[int, ...], foreign_segments: int, waited_ms: int) -> Round:
    return Round(written, (1.0,) * PARTITIONS, foreign_segments, waited_ms, True, False)


WRITTEN_TO_WHILE_IT_SHRINKS = [
    *[read_at_once((0, 0, 0, 0), 0, SECOND_MS)] * 4,
    read_at_once((0, 300, 0, 0), 0, 30 * SECOND_MS),
    read_at_once((0, 0, 0, 0), 0, HOUR_MS),
    read_at_once((0, 0, 0, 0), 0, 6 * MINUTE_MS),
    read_at_once((0, 40, 0, 0), 20, SECOND_MS),
    read_at_once((0, 40, 0, 0), 20, HOUR_MS),
    read_at_once((0, 0, 120, 0), 0, 30 * SECOND_MS),
]
"""In the last round partition 2 loses 15 segments and gets 12, so its size tells of 3 alone."""


@settings(max_examples=LIVES, deadline=None)
@given(ROUNDS)
@example(WRITTEN_TO_WHILE_IT_SHRINKS)
def test_pressure_takes_what_is_needed_and_ends(rounds: Sequence[Round]) -> None:
    with new_life() as life:
        sooner = sum(len(life.cycle_after(each)) for each in rounds)
        event(f"deletions because of pressure: {min(sooner, 5)}")

        # Nobody writes any more, and everything is old enough.
        life.disk.tells_space = True
        for _ in range(20):
            life.disk.pass_time(3 * MINUTE_MS)
            last = life.cycle()
        assert not last, "it does not end"
        assert not life.is_pressed or not life.may_go(), "it ends too early"


def pressed_disk(life: Life) -> SmallDisk:
    """The life's disk, which has come under pressure. The topic has settled, and what its group has
    read is old enough for the pressure retention."""
    for number in range(PARTITIONS):
        life.disk.commit("billing", {TopicPartition("orders", number): 150})
    life.cycle()
    life.disk.pass_time(2 * HOUR_MS)
    life.disk.change_foreign(life.disk.usable() // 2)
    return life.disk


def test_a_group_that_a_cycle_saw_before_its_reading_of_times_failed_is_remembered() -> None:
    with new_life() as life:
        disk = pressed_disk(life)
        disk.join("late", ["orders"])
        broker_gone = KafkaUnavailable("no broker answers")
        disk.script.after("offsets_at", lambda: disk.script.fail_next("offsets_at", broker_gone))
        with pytest.raises(KafkaUnavailable):
            life.cycle()

        disk.delete_group("late")  # it crashed before its first commit

        assert life.cycle() == []
        assert not disk.requests


def test_a_restart_does_not_delete_again_what_the_broker_is_about_to_free() -> None:
    with new_life() as life:
        disk = pressed_disk(life)
        assert life.cycle()
        disk.check()  # the segments leave the logs, and their files stay for a minute
        disk.pass_time(SECOND_MS)
        assert life.cycle() == []
        life.disks = BrokerDisks()
        assert not any(row.records for row in life.plan().rows)
        assert life.cycle() == []


def test_another_file_that_appears_after_the_segments_are_gone_is_no_segment() -> None:
    with new_life() as life:
        disk = pressed_disk(life)
        assert life.cycle()
        disk.check()
        disk.pass_time(SECOND_MS)
        assert life.cycle() == []
        disk.pass_time(2 * FILE_DELAY_MS)
        assert life.cycle() == []
        assert not life.is_pressed
        disk.change_foreign(int(disk.usable() - BELOW * TOTAL) + SEGMENT)
        disk.pass_time(SECOND_MS)
        assert life.cycle()


def test_within_a_limit_those_that_free_most_come_first() -> None:
    with new_life() as life:
        disk = life.disk
        life.config = life.config.model_copy(update={"limits": Limits(partitions_per_cycle=1)})
        for number, read in enumerate((20, 90, 40, 150)):
            disk.commit("billing", {TopicPartition("orders", number): read})
        life.cycle()
        disk.pass_time(2 * HOUR_MS)
        disk.change_foreign(disk.usable() - SEGMENT)
        gone = [[each.number for each in life.cycle()] for _ in range(4)]
        assert gone == [[3], [1], [2], [0]]
