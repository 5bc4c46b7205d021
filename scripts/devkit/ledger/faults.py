"""What is done to brokers and daemon, one thing at a time, as the seed will have it."""

import random
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from devkit.embedded import Node
from devkit.ledger.cluster import Cluster
from devkit.ledger.cut import cut_connections
from devkit.ledger.daemon import Daemon

INTENT_SECONDS = 10.0
CUTS = 6
RECOVERY_SECONDS = 240.0  # Spark takes its time to start on a busy machine


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


class Wedged(Exception):
    """Something has not recovered in time."""


class Faults:
    """``tell`` gets a line for everything that happens. ``done`` counts, also those that struck
    while a deletion was intended and not answered."""

    def __init__(self, cluster: Cluster, daemon: Daemon, seed: str, tell: Callable[[str], None]):
        self.done: Counter[Fault] = Counter()
        self.struck_amid_deletion = 0
        self._cluster = cluster
        self._daemon = daemon
        self._random = random.Random(seed)
        self._tell = tell
        self._bag: list[Fault] = []

    @property
    def all_done(self) -> bool:
        """Each kind has been there."""
        return all(self.done[fault] for fault in Fault)

    def next(self) -> None:
        """Do the next one, and return when all have recovered. Raises Wedged.

        Each kind comes once before any comes again.
        """
        if not self._bag:
            self._bag = self._random.sample(list(Fault), len(Fault))
        fault = self._bag.pop()
        node = self._random.choice(self._cluster.nodes)
        self._await_moment()
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
        self.done[fault] += 1
        self.recover()

    def recover(self) -> None:
        """Return when all replicas are in sync and the daemon has gone through a sound cycle."""
        if not self._cluster.await_in_sync(RECOVERY_SECONDS):
            raise Wedged(f"not all replicas were in sync after {RECOVERY_SECONDS:g} s")
        if not self._daemon.await_cycles(1, RECOVERY_SECONDS):
            raise Wedged(
                f"the daemon made no complete cycle in {RECOVERY_SECONDS:g} s"
                if self._daemon.died is None
                else f"the daemon ended by itself with exit code {self._daemon.died}"
            )

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

    def _wait(self, least: float, most: float) -> None:
        time.sleep(self._random.uniform(least, most))
