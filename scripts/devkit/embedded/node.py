"""One Kafka process of the cluster, and what can be done to it."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from devkit.embedded import processes
from devkit.embedded.jvm import Jvm
from devkit.embedded.layout import NodeSpec
from devkit.embedded.ports import LOOPBACK
from devkit.embedded.processes import EmbeddedKafkaError, Spawner
from devkit.embedded.properties import write_properties

FORMAT_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 60
ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class Node:
    """A broker, a controller, both in one process, or a ZooKeeper.

    Its data and its ports stay the same over ``kill`` or ``stop`` and ``start``. With
    ``record_classes`` its clean end leaves the class archive that makes later brokers start
    faster, at the price of 3 s.
    """

    def __init__(
        self,
        spec: NodeSpec,
        jvm: Jvm,
        spawner: Spawner,
        jvm_options: Sequence[str],
        *,
        record_classes: bool,
    ) -> None:
        self.spec = spec
        self._jvm = jvm
        self._spawner = spawner
        self._jvm_options = tuple(jvm_options)
        self._properties_file = spec.directory / "server.properties"
        self._record = jvm.new_archive() if record_classes else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def node_id(self) -> int:
        return self.spec.node_id

    @property
    def bootstrap_server(self) -> str:
        return f"{LOOPBACK}:{self.spec.client_port}"

    @property
    def internal_server(self) -> str:
        """The broker's plain listener, open to its neighbours and to test code."""
        return f"{LOOPBACK}:{self.spec.internal_port}"

    def server_of(self, listener: str) -> str:
        return f"{LOOPBACK}:{self.spec.further_ports[listener]}"

    @property
    def log_dirs(self) -> list[Path]:
        return list(self.spec.log_dirs)

    @property
    def log_file(self) -> Path:
        """What the process printed, over all its starts."""
        return self.spec.directory / "server.log"

    @property
    def pid(self) -> int:
        """Raises EmbeddedKafkaError when the node was never started."""
        return self._started().pid

    @property
    def running(self) -> bool:
        """The process exists; a paused one does."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_broker(self) -> bool:
        return self.spec.is_broker

    def format(
        self, cluster_id: str, properties: Mapping[str, str], options: Sequence[str]
    ) -> None:
        """Make the data folders, unless a ZooKeeper is to hold the metadata: its brokers make their
        own. Raises EmbeddedKafkaError."""
        self.spec.directory.mkdir(parents=True)
        write_properties(self._properties_file, properties)
        if "process.roles" not in properties:
            return
        settings = str(self._properties_file)
        command = self._jvm.command(
            "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", settings, *options
        )
        done = processes.run(command, FORMAT_TIMEOUT_SECONDS)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise EmbeddedKafkaError(f"Kafka's storage could not be formatted: {said}")

    def launch(self) -> None:
        """Start the process and return at once."""
        if self.running:
            raise EmbeddedKafkaError(f"Kafka node {self.node_id} is running: stop it first.")
        command = self._jvm.command(
            ZOOKEEPER if self.spec.is_zookeeper else "kafka.Kafka",
            str(self._properties_file),
            options=self._jvm_options,
            log_level="INFO",
            record=self._record,
        )
        self._process = self._spawner.spawn(command, self.log_file)

    def wait_until_ready(
        self,
        expected: frozenset[int],
        timeout_seconds: float,
        needed: Sequence["Node"] = (),
    ) -> None:
        """Return when this broker says that all ``expected`` brokers are registered.

        Raises EmbeddedKafkaError when its process, or one that is ``needed`` for that, ends, or
        the time is up before.
        """
        self._wait_until(
            lambda: registered_brokers(self.internal_server) >= expected,
            timeout_seconds,
            needed,
        )

    def wait_until_listening(self, timeout_seconds: float) -> None:
        """Return when this ZooKeeper takes connections. Raises EmbeddedKafkaError."""
        server = f"{LOOPBACK}:{self.spec.controller_port}"
        self._wait_until(lambda: accepts_connections(server), timeout_seconds)

    def _wait_until(
        self,
        is_ready: Callable[[], bool],
        timeout_seconds: float,
        needed: Sequence["Node"] = (),
    ) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not is_ready():
            for each in (self, *needed):
                if not each.running:
                    raise EmbeddedKafkaError(f"Kafka node {each.node_id} ended: {each._why()}")
            if time.monotonic() > deadline:
                raise EmbeddedKafkaError(
                    f"Kafka node {self.node_id} was not ready after {timeout_seconds:g} s:"
                    f" {self._why()}"
                )

    def start(self, timeout_seconds: float = 60) -> None:
        """Start the process again on its old data and ports; return when it is registered."""
        self.launch()
        if self.is_broker:
            self.wait_until_ready(frozenset({self.node_id}), timeout_seconds)

    def stop(self) -> None:
        """A clean shutdown (SIGTERM), waited for. A paused node is resumed first."""
        process = self._started()
        self.resume()
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise EmbeddedKafkaError(
                f"Kafka node {self.node_id} did not stop in {STOP_TIMEOUT_SECONDS} s: "
                f"see {self.log_file}"
            ) from None
        if self._record is not None:
            self._jvm.keep_archive(self._record)
            self._record = None

    def kill(self) -> None:
        """SIGKILL, waited for. It also ends a paused node."""
        process = self._started()
        process.kill()
        process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing answers. Returns when it has stopped."""
        import psutil  # noqa: PLC0415 - a tool of the tests: the demo does without

        process = self._started()
        process.send_signal(signal.SIGSTOP)
        watched = psutil.Process(process.pid)
        while self.running and watched.status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)

    def resume(self) -> None:
        """SIGCONT."""
        self._started().send_signal(signal.SIGCONT)

    def end(self, *, in_haste: bool) -> None:
        """The end for good: SIGKILL, unless a class archive is to be written and may be."""
        if not self.running:
            return
        if self._record is not None and not in_haste:
            with suppress(EmbeddedKafkaError):  # too slow: what is left is killed
                self.stop()
        self.kill()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise EmbeddedKafkaError(f"Kafka node {self.node_id} was never started.")
        return self._process

    def _why(self) -> str:
        """The last trouble that the log tells of, an exception if there is one, and where to
        read on."""
        log = self.log_file.read_text(errors="replace")
        exceptions = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)\b.*)", log, re.M)
        errors = re.findall(r"(?:ERROR|FATAL) (.*)", log)
        last = (exceptions or errors or ["no error was logged"])[-1]
        return f"{last} (log: {self.log_file})"


POLL_SECONDS = 0.05
ANSWER_SECONDS = 2.0


def registered_brokers(server: str) -> frozenset[int]:
    """Ids of the registered brokers, as the broker at ``HOST:PORT`` sees them; empty when it
    does not answer.

    A broker opens its port only when it knows of its own new registration, and each call uses
    a fresh client that knows no other broker: no neighbour's stale view can answer instead.
    """
    if not accepts_connections(server):
        return frozenset()
    client = AdminClient({"bootstrap.servers": server, "log_level": 0})
    try:
        return frozenset(client.list_topics(timeout=ANSWER_SECONDS).brokers)
    except KafkaException:
        return frozenset()


def accepts_connections(server: str) -> bool:
    """Whether somebody listens at ``HOST:PORT``; "no" takes a moment, so that it may be polled."""
    host, port = server.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except OSError:
        time.sleep(POLL_SECONDS)
        return False
    return True
