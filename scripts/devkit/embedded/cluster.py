"""A real Apache Kafka for the time of a ``with`` block."""

import atexit
import base64
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import AdminClient

from devkit.embedded import jars
from devkit.embedded.disk import remote_segments, topic_bytes
from devkit.embedded.jvm import Jvm, find_jvm
from devkit.embedded.layout import NodeSpec, lay_out, lay_out_node
from devkit.embedded.node import Node
from devkit.embedded.ports import LOOPBACK, PortReservations
from devkit.embedded.processes import EmbeddedKafkaError, Spawner
from devkit.embedded.properties import server_properties, tiered_storage
from devkit.embedded.topics import create_topic
from devkit.witness.judge import Verdict
from devkit.witness.witness import Witness
from devkit.witness.words import Document

DEFAULT_VERSION = "4.4.0"

START_SECONDS = 120.0


def default_version() -> str:
    """``$RETENTIOND_KAFKA_VERSION``, else 4.4.0."""
    return os.environ.get("RETENTIOND_KAFKA_VERSION") or DEFAULT_VERSION


class EmbeddedKafka:
    """``nodes`` brokers on free loopback ports, fetched, formatted, started, surely stopped.

    ``config`` overrides any property of every node; ``log_dirs`` is the number of data folders
    of each; ``java_options`` come after those for a quick start, and beat them;
    ``security_protocol`` is what clients speak; ``further_listeners`` have names of their own, each
    with its protocol; ``advertised_ports`` says where clients reach one of them instead, at the
    broker's number less 1; ``format_options`` go to Kafka's storage tool (``--add-scram`` for one).
    ``further_classes`` is a folder of classes that brokers may be told to use.
    ``tiered``: topics may have remote.storage.enable (KIP-405); their remote segments are files.
    It is the newest release then whose jars for that there are, unless ``version`` says otherwise.
    With ``zookeeper`` (Kafka 3) a ZooKeeper holds the metadata, and it gives the cluster its id.
    ``folder``: where its files are made; that for temporary ones by default. ``data_folders``: by
    broker, folders elsewhere for its data, instead of ``log_dirs`` ones. With ``witnessed`` a
    witness stands before each listener for clients that speaks without TLS.

    The processes end with the block, with the interpreter, or with this process by SIGKILL.
    The block's end removes their files, but for the logs when it failed: stderr says where they
    are. Only a SIGKILL leaves files behind, in the folder for temporary ones.
    """

    def __init__(
        self,
        nodes: int = 1,
        version: str | None = None,
        config: Mapping[str, str] | None = None,
        *,
        log_dirs: int = 1,
        java_options: Sequence[str] = ("-Xmx512m",),
        security_protocol: str = "PLAINTEXT",
        further_listeners: Mapping[str, str] | None = None,
        advertised_ports: Mapping[str, Sequence[int]] | None = None,
        format_options: Sequence[str] = (),
        further_classes: Path | None = None,
        tiered: bool = False,
        zookeeper: bool = False,
        folder: Path | None = None,
        data_folders: Mapping[int, Sequence[Path]] | None = None,
        witnessed: bool = True,
    ) -> None:
        self.version = version or (jars.beside(default_version()) if tiered else default_version())
        self.cluster_id = _new_cluster_id()
        self._brokers = nodes
        self._config = dict(config or {})
        self._tiered = tiered
        self._log_dirs = log_dirs
        self._java_options = tuple(java_options)
        self._security_protocol = security_protocol
        self._further_listeners = dict(further_listeners or {})
        self._advertised_ports = dict(advertised_ports or {})
        self._format_options = tuple(format_options)
        self._further_classes = further_classes
        self._zookeeper = zookeeper
        self._folder = folder
        self._data_folders = dict(data_folders or {})
        protocols = {"CLIENT": security_protocol, **self._further_listeners}
        self._witnessed = [
            name for name, protocol in protocols.items() if witnessed and "SSL" not in protocol
        ]
        self._witness: Witness | None = None
        self._processes: list[Node] = []
        self._directory: Path | None = None
        self._keep_logs = False
        self._ports = PortReservations()
        self._spawner = Spawner()

    @property
    def nodes(self) -> list[Node]:
        return [node for node in self._processes if node.is_broker]

    @property
    def bootstrap_servers(self) -> str:
        """``HOST:PORT[,...]`` of all brokers, for clients."""
        return ",".join(node.bootstrap_server for node in self.nodes)

    @property
    def internal_servers(self) -> str:
        """The same brokers on their plain listener, which asks for no credentials."""
        return ",".join(node.internal_server for node in self.nodes)

    def servers_of(self, listener: str) -> str:
        """The same brokers on one of ``further_listeners``."""
        return ",".join(node.server_of(listener) for node in self.nodes)

    def admin(self) -> AdminClient:
        """A client on the internal listener."""
        return AdminClient({"bootstrap.servers": self.internal_servers, "log_level": 0})

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        replication_factor: int | None = None,
    ) -> None:
        """Return when it can be used. Absent, the factor is 3, or less where brokers lack."""
        factor = replication_factor or min(3, len(self.nodes))
        create_topic(self.admin(), name, partitions, factor, config or {})

    def disk_bytes(self, topic: str) -> int:
        """Bytes of the topic's segments on all brokers, less those renamed for deletion."""
        return topic_bytes([folder for node in self.nodes for folder in node.log_dirs], topic)

    def remote_segments(self, topic: str) -> dict[str, int]:
        """Bytes of each of the topic's segments in remote storage, by a name of its own."""
        return remote_segments(self._remote_directory, topic)

    def witnessed(self, configured: Collection[Document]) -> Verdict:
        """What the witness says of all that it has seen since it was asked last."""
        return self._witness.verdict(configured) if self._witness else Verdict()

    def start(self) -> None:
        """Return when every broker answers and knows of all the others.

        Raises EmbeddedKafkaError; nothing is left running then.
        """
        atexit.register(self.close)
        try:
            self._directory = Path(tempfile.mkdtemp(prefix="retentiond-kafka-", dir=self._folder))
            self._format(self._directory)
            for node in sorted(self._processes, key=lambda node: node.is_broker):
                node.launch()
                if node.spec.is_zookeeper:  # a broker gives up when it finds none in its time
                    node.wait_until_listening(START_SECONDS)
            self._wait_until_ready()
            if self._zookeeper:
                self.cluster_id = str(self.admin().list_topics(timeout=30).cluster_id)
        except BaseException as error:
            self._close_after(error)
            raise

    def add_broker(self) -> Node:
        """One more, empty; return when every broker knows of it. No partition is moved to it."""
        if self._directory is None:
            raise EmbeddedKafkaError("A broker can be added to a running cluster only.")
        spec = lay_out_node(
            max(node.node_id for node in self.nodes) + 1,
            self._directory,
            self._log_dirs,
            self._ports.take,
            self._further_listeners,
            hidden=self._witnessed,
        )
        node = self._node(spec, find_jvm(self.version))
        self._processes.append(node)
        self._format_node(node)
        node.launch()
        self._wait_until_ready()
        return node

    def close(self) -> None:
        """End all processes and remove their data. May be called again."""
        atexit.unregister(self.close)
        for node in self._processes:
            node.end(in_haste=self._keep_logs)
        if self._witness is not None:
            self._witness.close()
        self._spawner.close()
        self._ports.close()
        if self._directory is not None:
            self._clear(self._directory)
            self._directory = None

    def keep_logs(self) -> None:
        """Tell ``close`` that something failed: the logs are wanted."""
        self._keep_logs = True

    def __enter__(self) -> "EmbeddedKafka":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_after(error)

    def _close_after(self, error: BaseException | None) -> None:
        # Ctrl-C and a plain sys.exit() are no failures.
        if isinstance(error, Exception) or (isinstance(error, SystemExit) and error.code):
            self.keep_logs()
        self.close()

    def _wait_until_ready(self) -> None:
        expected = frozenset(node.node_id for node in self.nodes)
        for node in self.nodes:
            node.wait_until_ready(expected, START_SECONDS, self._processes)

    def _format(self, directory: Path) -> None:
        further = self._further_listeners
        specs = lay_out(
            directory,
            self._brokers,
            self._log_dirs,
            self._ports.take,
            further,
            hidden=self._witnessed,
            zookeeper=self._zookeeper,
        )
        specs = [
            replace(spec, log_dirs=tuple(self._data_folders.get(spec.node_id, spec.log_dirs)))
            for spec in specs
        ]
        jvm = find_jvm(self.version)
        if self._further_classes is not None:
            jvm = replace(jvm, classpath=f"{jvm.classpath}:{self._further_classes}")
        record = self._further_classes is None and not jvm.class_archive.exists()
        self._processes = [
            self._node(spec, jvm, record_classes=record and spec is specs[0]) for spec in specs
        ]
        with ThreadPoolExecutor(len(specs)) as threads:
            for _ in threads.map(self._format_node, self._processes):
                pass  # asked for its result, so that its error is raised

    def _node(self, spec: NodeSpec, jvm: Jvm, *, record_classes: bool = False) -> Node:
        for listener, hidden in spec.hidden_ports.items():
            self._witness = self._witness or Witness()
            self._witness.lead(spec.port(listener), f"{LOOPBACK}:{hidden}", spec.node_id)
        return Node(spec, jvm, self._spawner, self._java_options, record_classes=record_classes)

    def _format_node(self, node: Node) -> None:
        specs = [each.spec for each in self._processes]
        config = self._config
        if self._tiered:
            brokers = sum(spec.is_broker for spec in specs)
            config = tiered_storage(self.version, self._remote_directory, brokers) | config
        advertised = {
            name: ports[node.node_id - 1]
            for name, ports in self._advertised_ports.items()
            if node.is_broker
        }
        properties = server_properties(
            node.spec,
            specs,
            self._security_protocol,
            config,
            self._further_listeners,
            advertised_ports=advertised,
        )
        node.format(self.cluster_id, properties, self._format_options)

    @property
    def _remote_directory(self) -> Path:
        if self._directory is None:
            raise EmbeddedKafkaError("A cluster that does not run has no remote storage.")
        return self._directory / "remote"

    def _clear(self, directory: Path) -> None:
        if not (self._keep_logs and any(node.log_file.exists() for node in self._processes)):
            shutil.rmtree(directory)
            return
        for node in self._processes:
            for folder in node.log_dirs:
                shutil.rmtree(folder, ignore_errors=True)
        print(f"Kafka's logs are kept in {directory}", file=sys.stderr)


def _new_cluster_id() -> str:
    """Kafka's form of a random UUID. The leading letter keeps the tools from reading a leading
    dash as an option."""
    return "K" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
