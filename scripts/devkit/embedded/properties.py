"""The properties of a node."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from devkit.embedded import jars
from devkit.embedded.layout import NodeSpec
from devkit.embedded.ports import LOOPBACK


def server_properties(
    spec: NodeSpec,
    cluster: Sequence[NodeSpec],
    security_protocol: str,
    config: Mapping[str, str],
    further_listeners: Mapping[str, str],
    *,
    advertised_ports: Mapping[str, int],
) -> dict[str, str]:
    """Everything the node is told; ``config`` has the last word."""
    if spec.is_zookeeper:
        return zookeeper_properties(spec)
    return {
        "log.dirs": ",".join(map(str, spec.log_dirs)),
        **membership(spec, cluster),
        **listeners(spec, {"CLIENT": security_protocol, **further_listeners}, advertised_ports),
        **replication(sum(node.is_broker for node in cluster)),
        **fast_defaults(),
        **config,
    }


def zookeeper_properties(spec: NodeSpec) -> dict[str, str]:
    return {
        "dataDir": str(spec.log_dirs[0]),
        "clientPortAddress": LOOPBACK,
        "clientPort": str(spec.controller_port),
        "admin.enableServer": "false",  # it would take a port that all of them share
    }


def membership(spec: NodeSpec, cluster: Sequence[NodeSpec]) -> dict[str, str]:
    """Who the node is, and who holds the cluster's metadata."""
    (holder,) = (node for node in cluster if node.is_controller)
    address = f"{LOOPBACK}:{holder.controller_port}"
    if holder.is_zookeeper:
        return {
            "broker.id": str(spec.node_id),
            "zookeeper.connect": address,
            "zookeeper.connection.timeout.ms": "120000",  # a machine that tests may stand still
        }
    roles = {"broker": spec.is_broker, "controller": spec.is_controller}
    return {
        "node.id": str(spec.node_id),
        "process.roles": ",".join(role for role, has_it in roles.items() if has_it),
        "controller.quorum.voters": f"{holder.node_id}@{address}",
        "controller.listener.names": "CONTROLLER",
    }


def listeners(
    spec: NodeSpec, for_clients: Mapping[str, str], advertised_ports: Mapping[str, int]
) -> dict[str, str]:
    """``for_clients`` has the protocol that each listener for clients speaks; its details are
    ``listener.name.client.*`` and the like in the config. INTERNAL and CONTROLLER are always
    plain, so that the nodes and the readiness check need no credentials. With an authorizer,
    set ``super.users=User:ANONYMOUS`` for these two. ``advertised_ports`` are those that clients
    are told instead of a listener's own.
    """
    ports = {
        "CLIENT": spec.client_port,
        **spec.further_ports,
        "INTERNAL": spec.internal_port,
        "CONTROLLER": spec.controller_port,
    }
    own = {
        name: f"{name}://{LOOPBACK}:{spec.hidden_ports.get(name, port)}"
        for name, port in ports.items()
        if port is not None
    }
    properties = {
        "listeners": ",".join(own.values()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}"
            for name, protocol in {
                **for_clients,
                "INTERNAL": "PLAINTEXT",
                "CONTROLLER": "PLAINTEXT",
            }.items()
        ),
    }
    if spec.is_broker:
        properties["inter.broker.listener.name"] = "INTERNAL"
        properties["advertised.listeners"] = ",".join(
            f"{name}://{LOOPBACK}:{advertised_ports.get(name, port)}"
            for name, port in ports.items()
            if name != "CONTROLLER"
        )
    return properties


def replication(brokers: int) -> dict[str, str]:
    """Three replicas where there are three brokers; one of them may then be killed."""
    factor, in_sync = str(min(3, brokers)), str(min(2, brokers))
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def fast_defaults() -> dict[str, str]:
    """A small cluster that reacts in seconds; a version ignores what it does not know."""
    return {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "2",
        "share.coordinator.state.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        # Every 10 min otherwise. Empty groups of earlier tests would go between two readings of a
        # cycle, which then deletes nothing, as it should.
        "offsets.retention.check.interval.ms": "86400000",
        "group.streams.initial.rebalance.delay.ms": "0",
        # A member learns of its assignment by its next heartbeat: 5 s otherwise.
        **{
            f"group.{kind}.{bound}heartbeat.interval.ms": "500"
            for kind in ("consumer", "share", "streams")
            for bound in ("", "min.")
        },
        # Kafka waits 30 s, then looks for expired segments every 5 min, and frees their bytes
        # a minute after.
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
        # 128 MB otherwise, taken at the start.
        "log.cleaner.dedupe.buffer.size": "2000000",
        # A killed or frozen broker is noticed after 4 s instead of 9 s, and may come back then.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
    }


def tiered_storage(version: str, directory: Path, brokers: int) -> dict[str, str]:
    """Remote segments go to that folder, within a second after they were closed."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "remote.log.storage.manager.class.path": jars.classpath(version, "tiered"),
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(directory),
        "remote.log.metadata.manager.listener.name": "INTERNAL",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(min(3, brokers)),
        "remote.log.manager.task.interval.ms": "500",
    }


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in properties.items()))


def _escaped(value: str) -> str:
    """Java takes a backslash for an escape and a line's end for the value's."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
