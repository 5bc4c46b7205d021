"""The bench from its first record to its last."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException

from devkit.ledger.daemon import Daemon
from devkit.ledger.faults import Faults, Wedged
from devkit.ledger.scenario import GUESTS, LATE_GROUPS, OTHER_HEAD_START, SHARED, Partition
from devkit.ledger.stage import Stage
from devkit.waiting import came_true

FIRST_CYCLES_SECONDS = 240.0  # Spark takes its time to start on a busy machine
CATCH_UP_SECONDS = 180.0
DELETE_SECONDS = 120.0
FORGET_SECONDS = 120.0
POLL_SECONDS = 0.5
STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Ended:
    """What was left when all had come to rest, here and on the other cluster; ``problems`` are
    sentences. ``remote_segments_deleted``: those that were noticed in remote storage, and went."""

    log_starts: dict[Partition, int]
    other_log_starts: dict[Partition, int]
    remote_segments_deleted: int
    problems: tuple[str, ...]


class Play:
    """``tell`` gets a line for everything that happens."""

    def __init__(
        self,
        stage: Stage,
        other: Stage,
        daemon: Daemon,
        faults: Faults,
        *,
        seed: str,
        tell: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._other = other
        self._daemon = daemon
        self._faults = faults
        self._random = random.Random(seed)
        self._tell = tell
        self._problems: list[str] = []
        self._remote_segments: set[str] = set()

    def perform(self, seconds: float) -> Ended:
        """``seconds`` of load and faults, or more until each kind of fault has been there."""
        self._daemon.start()
        self._other.start(OTHER_HEAD_START)
        self._stage.start()
        if not self._daemon.await_cycles(2, FIRST_CYCLES_SECONDS):
            raise Wedged("the daemon did not make its first cycles")
        for group in GUESTS:
            self._stage.invite(group, self._daemon)
        try:
            self._rage(seconds)
        except Wedged as wedged:
            self._problems.append(str(wedged))
        self._come_to_rest()
        log_starts = self._stage.log_starts()
        other_log_starts = self._other.log_starts()
        self._end_daemon()
        self._problems += [*self._stage.troubles(), *self._other.troubles()]
        self._problems += self._faults.problems
        gone = self._remote_segments - self._stage.cluster.remote_segments()
        return Ended(log_starts, other_log_starts, len(gone), tuple(self._problems))

    def _rage(self, seconds: float) -> None:
        started = time.monotonic()
        ends_at = started + seconds
        # The last late group joins when two thirds are over.
        joins = [
            (started + seconds * (2 / 3) * (number + 1) / len(LATE_GROUPS), group)
            for number, group in enumerate(LATE_GROUPS)
        ]
        while time.monotonic() < ends_at or joins or not self._faults.all_done:
            if any(self._stage.troubles()):
                return
            while joins and time.monotonic() >= joins[0][0]:
                _, group = joins.pop(0)
                self._tell(f"group {group.name} joins")
                self._stage.join(group)
            time.sleep(self._random.uniform(1, 6))
            self._faults.next()
            self._remote_segments |= self._stage.cluster.remote_segments()
            self._tell_progress()

    def _tell_progress(self) -> None:
        counts = self._stage.book.counts
        losses = len(self._stage.book.losses), len(self._other.book.losses)
        self._tell(
            f"recovered; records written {counts['records written']:,}, "
            f"delivered {counts['records delivered']:,}; to be judged: {losses}"
        )

    def _come_to_rest(self) -> None:
        """Nobody writes any longer; all groups read what is left, and all of it is deleted."""
        self._tell("the producers stop")
        stages = self._stage, self._other
        for stage in stages:
            stage.stop_writing()
        self._tell("the consumers start again and read what is left")
        for stage in stages:
            stage.calm_down()
        if not came_true(lambda: not any(each.unread() for each in stages), CATCH_UP_SECONDS):
            unread = [each.unread() for each in stages]
            self._problems.append(f"partitions not read to the end: {unread}")
        if not came_true(lambda: not self._stage.goers, FORGET_SECONDS):
            self._tell("not every guest was let go of in time")
        self._tell("what all have read is deleted")
        if not came_true(self._all_that_may_go_is_gone, DELETE_SECONDS, POLL_SECONDS):
            for partition, log_start in self._left().items():
                self._problems.append(f"{partition} begins at {log_start} for no reason")
        if not self._daemon.await_cycles(2, DELETE_SECONDS):  # which settle what is open
            self._problems.append("the daemon made no more cycles in the end")
        for stage in stages:
            stage.stop_reading()

    def _all_that_may_go_is_gone(self) -> bool:
        """What share groups were not given stays: Kafka's affair and its client's, a preview."""
        left = self._left()
        if left and all(topic == SHARED.name for topic, _ in left):
            starts = self._stage.share_starts()
            return all(starts.get(each) == log_start for each, log_start in left.items())
        return not left

    def _left(self) -> dict[Partition, int]:
        """Where partitions begin that still hold a record, all of which have been read."""
        try:
            log_starts = self._stage.log_starts()
        except (KafkaException, TimeoutError):
            return dict.fromkeys(self._stage.partitions, 0)
        return {
            partition: log_start
            for partition, log_start in log_starts.items()
            if log_start < self._stage.book.end(partition)
        }

    def _end_daemon(self) -> None:
        if self._daemon.died is not None:
            self._problems.append(f"the daemon ended by itself with {self._daemon.died}")
        elif (ended := self._daemon.stop(STOP_SECONDS)) is not None and ended[1] != 0:
            self._problems.append(f"SIGTERM ended the daemon with exit code {ended[1]}")
        self._daemon.look()
