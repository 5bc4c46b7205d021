"""What is done to brokers, topics and daemon, two things in a row, as the seed will have it."""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from devkit.embedded import EmbeddedKafka, Node
from devkit.forwarder import Forwarder
from devkit.ledger.cluster import cut_connections
from devkit.ledger.daemon import Daemon
from devkit.ledger.scenario import BELOW_FREE
from devkit.ledger.stage import Stage
from devkit.waiting import came_true

INTENT_SECONDS = 10.0
CUTS = 6
AT_ONCE = 2
RECOVERY_SECONDS = 240.0  # Spark takes its time to start on a busy machine
PATIENCE_SECONDS = 90.0  # after faults that are all `UNINTERRUPTED`
NEW_START_SECONDS = 30.0
ELSEWHERE_SECONDS = 60.0
HOURS = (3.0, 12.0)
FORWARDED = "FORWARDED"
"""The listener whose advertised addresses are the forwarders': only the daemon comes there."""


class Fault(StrEnum):
    BROKER_KILLED = "broker killed"
    BROKER_FROZEN = "broker frozen"
    """SIGSTOP: connections stay open, and nothing answers."""

    CONNECTIONS_CUT = "connections of a broker cut"
    """All of them, a few times: those of its neighbours and of its clients."""

    DAEMON_KILLED = "daemon killed"
    DAEMON_FROZEN = "daemon frozen"
    """Its evidence grows old, perhaps in the midst of a request."""

    DAEMON_KILLED_WAITING = "daemon killed waiting for a frozen broker"
    """Whose answer it will never see."""

    FAILED_OVER = "address led to the other cluster"
    """All addresses that the daemon knows, its connections cut in part or all."""

    BOTH_CLUSTERS = "daemon started with servers of both clusters"
    CLOCK_AHEAD = "daemon's clock ahead by hours"
    CLOCK_BEHIND = "daemon's clock behind by hours"
    TOPIC_RECREATED = "topic recreated"
    DISK_FILLED = "disk filled"
    """Until the brokers' disk is under pressure, and some seconds longer."""


OF_BROKERS = (
    Fault.BROKER_KILLED,
    Fault.BROKER_FROZEN,
    Fault.CONNECTIONS_CUT,
    Fault.DAEMON_KILLED_WAITING,
)
UNINTERRUPTED = (
    Fault.DAEMON_FROZEN,
    Fault.CLOCK_AHEAD,
    Fault.CLOCK_BEHIND,
    Fault.TOPIC_RECREATED,
    Fault.DISK_FILLED,
)
"""After these the daemon neither starts again nor waits for a broker."""

LEFT_FREE = BELOW_FREE / 2
PRESSURE = "cycles under pressure"


class Wedged(Exception):
    """Something has not recovered in time."""


def lead(forwarders: Sequence[Forwarder], kafka: EmbeddedKafka) -> None:
    """To its brokers, one after the other; to the first where they are too few."""
    servers = kafka.servers_of(FORWARDED).split(",")
    for number, forwarder in enumerate(forwarders):
        forwarder.target = servers[number] if number < len(servers) else servers[0]


class Faults:
    """``tell`` gets a line for everything that happens. ``done`` counts, also those that struck
    while a deletion was intended and not answered. ``problems``: what did not recover by itself.
    """

    def __init__(
        self,
        stage: Stage,
        other: EmbeddedKafka,
        forwarders: Sequence[Forwarder],
        daemon: Daemon,
        *,
        disk: Path | None,
        seed: str,
        tell: Callable[[str], None],
    ) -> None:
        self.done: Counter[Fault] = Counter()
        self.new_starts = 0
        self.struck_amid_deletion = 0
        self.problems: list[str] = []
        self._stage = stage
        self._cluster = stage.cluster
        self._other = other
        self._forwarders = forwarders
        self._daemon = daemon
        self._disk = disk
        self._random = random.Random(seed)
        self._tell = tell
        self._bag: list[Fault] = []

    @property
    def all_done(self) -> bool:
        return all(self.done[fault] for fault in self.kinds)

    @property
    def kinds(self) -> list[Fault]:
        """All but those that this host does not allow."""
        return [fault for fault in Fault if fault is not Fault.DISK_FILLED or self._disk]

    def next(self) -> None:
        """Do the next ones, each before the one before it is recovered from, and return when all
        have recovered. Raises Wedged.

        Each kind comes once before any comes again.
        """
        if not self._bag:
            self._bag = self._random.sample(self.kinds, len(self.kinds))
        faults, self._bag = self._bag[:AT_ONCE], self._bag[AT_ONCE:]
        for fault in faults:
            self._await_moment()
            self._disturb_if(fault)
            self._strike(fault)
            self._disturb_if(fault)
            self.done[fault] += 1
        self._recover(faults)

    def _strike(self, fault: Fault) -> None:
        node = self._random.choice(self._cluster.kafka.nodes)
        match fault:
            case Fault.BROKER_KILLED:
                self._kill_broker(node)
            case Fault.BROKER_FROZEN:
                self._freeze(node)
            case Fault.CONNECTIONS_CUT:
                self._cut(node)
            case Fault.DAEMON_KILLED:
                self._tell(fault)
                self._daemon.kill()
                self._wait(0, 3)
                self._daemon.start()
            case Fault.DAEMON_FROZEN:
                seconds = self._random.uniform(1, 10)
                self._tell(f"{fault} for {seconds:.1f} s")
                self._daemon.pause()
                time.sleep(seconds)
                self._daemon.resume()
            case Fault.DAEMON_KILLED_WAITING:
                self._tell(f"broker {node.node_id} frozen, then the daemon killed")
                node.pause()
                self._wait(0.5, 6)
                self._daemon.kill()
                self._wait(0, 3)
                node.resume()
                self._daemon.start()
            case Fault.FAILED_OVER:
                self._fail_over()
            case Fault.BOTH_CLUSTERS:
                self._mislead()
            case Fault.CLOCK_AHEAD | Fault.CLOCK_BEHIND:
                self._set_clock(1 if fault is Fault.CLOCK_AHEAD else -1)
            case Fault.TOPIC_RECREATED:
                self._recreate()
            case Fault.DISK_FILLED:
                self._fill_disk()

    def _disturb_if(self, fault: Fault) -> None:
        """Who is a member now may not be one when the brokers are well again."""
        if fault in OF_BROKERS:
            self._stage.book.shown.disturb()

    def _recover(self, faults: Sequence[Fault]) -> None:
        """Return when all replicas are in sync and the daemon has gone through sound cycles."""
        self._await_in_sync()
        is_uninterrupted = all(fault in UNINTERRUPTED for fault in faults)
        patience = PATIENCE_SECONDS if is_uninterrupted else RECOVERY_SECONDS
        # One may have been under way when all was well; the next shows that there are more.
        if self._daemon.await_cycles(2, patience):
            return
        after = " and ".join(faults)
        self.problems.append(
            f"the daemon made no two complete cycles in {patience:g} s after: {after}"
            if self._daemon.died is None
            else f"the daemon ended by itself with exit code {self._daemon.died} after: {after}"
        )
        self._tell(self.problems[-1])
        self._start_anew()
        if not self._daemon.await_cycles(1, RECOVERY_SECONDS):
            raise Wedged(f"the daemon made no complete cycle in {RECOVERY_SECONDS:g} s more")

    def _await_in_sync(self) -> None:
        if not self._cluster.await_in_sync(RECOVERY_SECONDS):
            raise Wedged(f"not all replicas were in sync after {RECOVERY_SECONDS:g} s")

    def _await_moment(self) -> None:
        """Every other time, strike when a deletion is under way."""
        if self._random.random() < 0.5 and self._daemon.await_intent(INTENT_SECONDS):
            self.struck_amid_deletion += 1

    def _kill_broker(self, node: Node) -> None:
        self._tell(f"broker {node.node_id} killed")
        node.kill()
        self._wait(0, 10)
        node.start()

    def _freeze(self, node: Node) -> None:
        seconds = self._random.uniform(1, 12)
        self._tell(f"broker {node.node_id} frozen for {seconds:.1f} s")
        node.pause()
        time.sleep(seconds)
        node.resume()

    def _cut(self, node: Node) -> None:
        cut = [cut_connections(node.pid)]
        for _ in range(self._random.randrange(CUTS)):
            self._wait(0, 1)
            cut.append(cut_connections(node.pid))
        self._tell(f"{sum(cut)} connections of broker {node.node_id} cut, in {len(cut)} goes")

    def _fail_over(self) -> None:
        """To the other cluster and back; sometimes the daemon is restarted there."""
        book, restarted = self._stage.book, self._random.random() < 0.4
        book.shown.listening = False
        cut = self._lead_to(self._other, self._random.choice((0.5, 0.5, 1.0)))
        self._tell(f"the address leads to the other cluster, {cut} connections cut")
        if restarted:
            self._tell("the daemon is restarted there")
            self._start_anew()
        patience = ELSEWHERE_SECONDS if restarted else NEW_START_SECONDS
        self._daemon.await_cycles(2, patience, of_any_kind=True)
        self._wait(0, 8)
        self._lead_to(self._cluster.kafka, 1)
        self._tell("the address leads home")
        if restarted or not self._daemon.await_cycles(1, NEW_START_SECONDS):
            self._tell(f"a new start; the daemon had ended with {self._daemon.died}")
            self._start_anew()
        book.shown.disturb()
        book.shown.listening = True

    def _lead_to(self, kafka: EmbeddedKafka, share: float) -> int:
        """Cut so many of the daemon's connections; how many they were."""
        lead(self._forwarders, kafka)
        return sum(each.cut(share, self._random) for each in self._forwarders)

    def _mislead(self) -> None:
        """It is started with bootstrap servers of two clusters, and then as it should be."""
        both = [self._cluster.kafka.bootstrap_servers, self._other.bootstrap_servers]
        self._random.shuffle(both)
        self._stage.book.shown.listening = False
        self._tell("the daemon is started with servers of both clusters")
        self._daemon.believe(",".join(both))
        self._start_anew()
        self._daemon.await_cycles(3, ELSEWHERE_SECONDS, of_any_kind=True)
        self._daemon.believe(",".join(each.address for each in self._forwarders))
        self._tell(f"and as it should be; it had ended with {self._daemon.died}")
        self._start_anew()
        self._stage.book.shown.disturb()
        self._stage.book.shown.listening = True

    def _set_clock(self, sign: int) -> None:
        hours = sign * self._random.uniform(*HOURS)
        self._tell(f"the daemon's clock is wrong by {hours:.1f} hours")
        self._daemon.set_clock(hours * 3600)
        self._wait(5, 15)
        self._daemon.set_clock(0)
        self._tell("the daemon's clock is right again")

    def _recreate(self) -> None:
        """A few times, with little or much in it. A new topic needs all brokers."""
        self._await_in_sync()
        for _ in range(self._random.randint(1, 4)):
            self._stage.recreate()
            self._tell("the topic was deleted and created again")
            self._wait(0.5, 8)

    def _fill_disk(self) -> None:
        """With a file of somebody else's, which goes away again."""
        assert self._disk is not None
        usage = shutil.disk_usage(self._disk)
        ballast = self._disk / "ballast"
        before = self._daemon.events[PRESSURE]
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, int(usage.free - LEFT_FREE * usage.total))
        self._tell(f"the brokers' disk has {LEFT_FREE:.0%} left")
        if not came_true(lambda: self._daemon.events[PRESSURE] > before, RECOVERY_SECONDS):
            self.problems.append(f"no disk pressure after {RECOVERY_SECONDS:g} s")
        self._wait(3, 10)
        ballast.unlink()
        self._tell("the brokers' disk has room again")

    def _start_anew(self) -> None:
        self.new_starts += 1
        self._daemon.kill()
        self._daemon.start()

    def _wait(self, least: float, most: float) -> None:
        time.sleep(self._random.uniform(least, most))
