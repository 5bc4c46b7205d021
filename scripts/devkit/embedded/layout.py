"""Which processes make up a cluster, and where each of them lives."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

CONTROLLER_ID = 100  # of what holds the metadata and is no broker; brokers count from 1


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A process of the cluster: a broker, a controller, both in one, or a ZooKeeper.

    ``client_port`` and ``internal_port`` are None on what is no broker; ``controller_port`` is
    that of a controller or a ZooKeeper, else None; ``further_ports`` are those of a broker's
    further listeners, by name. ``directory`` holds the node's settings and its log file,
    ``log_dirs`` are the data folders. ``hidden_ports``: by listener, where a broker itself listens
    if something stands before that listener's port.
    """

    node_id: int
    client_port: int | None
    internal_port: int | None
    controller_port: int | None
    directory: Path
    log_dirs: tuple[Path, ...]
    further_ports: Mapping[str, int] = field(default_factory=dict)
    is_zookeeper: bool = False
    hidden_ports: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_broker(self) -> bool:
        return self.client_port is not None

    @property
    def is_controller(self) -> bool:
        """Holds the metadata: also a ZooKeeper."""
        return self.controller_port is not None

    def port(self, listener: str) -> int:
        """Where clients find it."""
        port = self.client_port if listener == "CLIENT" else self.further_ports[listener]
        assert port is not None
        return port


def lay_out(
    directory: Path,
    brokers: int,
    log_dirs: int,
    take_port: Callable[[], int],
    further_listeners: Collection[str] = (),
    *,
    hidden: Collection[str] = (),
    zookeeper: bool = False,
) -> list[NodeSpec]:
    """One broker is its own controller; several have one beside them, so that any broker may be
    killed. In a cluster of a ZooKeeper each broker has that beside it. ``log_dirs`` is the number
    of data folders of each. ``hidden``: the listeners before whose ports something stands."""
    settings = directory, log_dirs, take_port, further_listeners
    if brokers == 1 and not zookeeper:
        return [lay_out_node(1, *settings, hidden=hidden, controller=True)]
    beside = lay_out_node(CONTROLLER_ID, *settings, broker=False, controller=True)
    return [
        *(lay_out_node(node_id, *settings, hidden=hidden) for node_id in range(1, brokers + 1)),
        replace(beside, is_zookeeper=zookeeper),
    ]


def lay_out_node(
    node_id: int,
    directory: Path,
    log_dirs: int,
    take_port: Callable[[], int],
    further_listeners: Collection[str] = (),
    *,
    hidden: Collection[str] = (),
    broker: bool = True,
    controller: bool = False,
) -> NodeSpec:
    """One of them; by default a broker that is no controller."""
    home = directory / f"node-{node_id}"
    return NodeSpec(
        node_id=node_id,
        client_port=take_port() if broker else None,
        internal_port=take_port() if broker else None,
        controller_port=take_port() if controller else None,
        directory=home,
        log_dirs=tuple(home / f"data-{number}" for number in range(log_dirs)),
        further_ports={name: take_port() for name in further_listeners if broker},
        hidden_ports={name: take_port() for name in hidden if broker},
    )
