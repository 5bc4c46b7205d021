"""Runs the daemon from a container image once, on an embedded broker, and checks what it does.

    python -m devkit.image_trial IMAGE -- ENGINE...

ENGINE is ``docker``, or any command that takes docker's arguments. ``scripts/image --run`` calls
it. The container is as closed as in ``deploy/compose.yaml``, but for the network, which is the
host's: the broker listens on loopback only.
"""

import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaTopicPartition
from prometheus_client.parser import text_string_to_metric_families

from devkit.embedded import EmbeddedKafka

PORT = 9477  # the one that the image's health check asks
TOPIC, GROUP, RECORDS, CONSUMED = "stage.orders", "billing", 1000, 600
READY_SECONDS = 120
STOP_SECONDS = 10
CLOSED = (
    "--network=host",
    "--read-only",
    "--tmpfs=/tmp:exec,mode=1777",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
)
CONFIG = """\
kafka: {{bootstrap.servers: '{servers}'}}
schedule: {{interval: 5s}}
dry_run: false
http: {{host: 127.0.0.1, port: {port}}}
topics:
  - name: {topic}
    retention.commitoffset.enable: true
    retention.commitoffset.ms: 0
"""


class TrialError(Exception):
    """What the image or the daemon in it did wrong."""


class Container:
    """One container of the engine, by name."""

    def __init__(self, engine: Sequence[str], name: str) -> None:
        self._engine = tuple(engine)
        self._name = name

    def start(self, image: str, *options: str) -> None:
        """Start it in the background. Raises TrialError."""
        done = self._call("run", "--detach", f"--name={self._name}", *options, image)
        if done.returncode != 0:
            raise TrialError(f"The container did not start: {done.stderr.strip()}")

    def execute(self, *command: str) -> tuple[int, str]:
        """Exit code and output, stderr included, of a command in the container."""
        done = self._call("exec", self._name, *command)
        return done.returncode, (done.stdout + done.stderr).strip()

    def stop(self) -> tuple[float, int]:
        """Seconds from SIGTERM to the end, and the daemon's exit code (137: it was killed)."""
        started = time.monotonic()
        self._call("stop", "-t", "30", self._name)
        seconds = time.monotonic() - started
        return seconds, int(self._inspect("{{.State.ExitCode}}"))

    def runs(self) -> bool:
        return self._inspect("{{.State.Running}}") == "true"

    def logs(self) -> str:
        done = self._call("logs", self._name)
        return done.stdout + done.stderr

    def remove(self) -> None:
        """With its volumes; may be called before ``start``."""
        self._call("rm", "--force", "--volumes", self._name)

    def health_check(self, image: str) -> list[str]:
        """The command of the image's HEALTHCHECK."""
        (found,) = json.loads(self._call("image", "inspect", image).stdout)
        check = found.get("Healthcheck") or found["Config"]["Healthcheck"]  # podman's, docker's
        _, *command = check["Test"]
        return [str(part) for part in command]

    def _inspect(self, template: str) -> str:
        return self._call("inspect", "--format", template, self._name).stdout.strip()

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self._engine, *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True)


def seed(kafka: EmbeddedKafka) -> None:
    """A topic of which one group has read the first part."""
    kafka.create_topic(TOPIC)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number).encode())
    producer.flush()
    # By kafka-python: commits by librdkafka are the only ones that librdkafka never misreads.
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=GROUP, enable_auto_commit=False
    )
    partition = KafkaTopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.commit({partition: OffsetAndMetadata(CONSUMED, "", -1)})
    consumer.close()


def get(path: str) -> tuple[int, str]:
    """Status and body; 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def metric(name: str, **labels: str) -> float:
    """The value of one sample of /metrics; 0 where it is absent."""
    for family in text_string_to_metric_families(get("/metrics")[1]):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return 0


def log_start_offset(admin: AdminClient) -> int:
    wanted = TopicPartition(TOPIC, 0)
    found = admin.list_offsets({wanted: OffsetSpec.earliest()})[wanted].result(30)
    return int(found.offset)


def await_(what: str, container: Container, condition: Callable[[], bool]) -> None:
    """Raises TrialError when the container ends or the time is up before it holds."""
    started = time.monotonic()
    while not condition():
        if not container.runs():
            raise TrialError(f"The daemon ended before this held: {what}.")
        if time.monotonic() - started > READY_SECONDS:
            raise TrialError(f"After {READY_SECONDS} s this did not hold: {what}.")
        time.sleep(0.2)
    print(f"ok  {what} ({time.monotonic() - started:.1f} s)")


def check(what: str, holds: bool, found: object) -> None:
    """Raises TrialError."""
    if not holds:
        raise TrialError(f"This does not hold: {what}; found: {found}.")
    print(f"ok  {what}")


def check_closed(container: Container) -> None:
    """The daemon's process has no rights, and the image brings nothing to gain some with."""
    status = container.execute("cat", "/proc/1/status")[1]
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    user = facts.get("Uid", "none").split()
    check("the daemon runs as user 10001", user == ["10001"] * 4, user)
    rights = {name: facts.get(name) for name in ("CapEff", "CapBnd", "NoNewPrivs")}
    expected = {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}
    check("it has no capabilities and can gain none", rights == expected, rights)
    _, said = container.execute("touch", "/opt/retentiond/probe", "/var/probe")
    check("the root file system is read-only", said.count("Read-only") == 2, said)
    _, tools = container.execute("sh", "-c", "command -v pip pip3 gcc cc make")
    check("the image has no build tools", tools == "", tools)


def try_image(image: str, container: Container, kafka: EmbeddedKafka, config: Path) -> None:
    """Raises TrialError at the first thing that does not hold."""
    config.write_text(CONFIG.format(servers=kafka.bootstrap_servers, port=PORT, topic=TOPIC))
    config.chmod(0o644)
    container.start(image, *CLOSED, f"--volume={config}:/etc/retentiond/retentiond.yaml:ro")
    await_("/healthz answers 200", container, lambda: get("/healthz")[0] == 200)
    check_closed(container)
    await_("/readyz answers 200", container, lambda: get("/readyz")[0] == 200)
    await_(
        "/metrics tells of a complete cycle",
        container,
        lambda: metric("retentiond_cycles_total", result="ok") >= 1,
    )
    await_(
        f"/metrics tells of {CONSUMED} records deleted",
        container,
        lambda: metric("retentiond_records_deleted_total", topic=TOPIC) == CONSUMED,
    )
    start = log_start_offset(kafka.admin())
    check(f"the broker's log starts at the commit, {CONSUMED}", start == CONSUMED, start)
    code, said = container.execute(*container.health_check(image))
    check("the image's health check passes", code == 0, said)
    seconds, code = container.stop()
    check(f"SIGTERM ends it with exit code 0 ({seconds:.1f} s)", code == 0, code)
    check(f"and within {STOP_SECONDS} s", seconds <= STOP_SECONDS, seconds)


def main(arguments: Sequence[str]) -> int:
    image, _, *engine = arguments
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            print(f"Port {PORT} is taken: end what listens there.", file=sys.stderr)
            return 1
    container = Container(engine, "retentiond-trial")
    container.remove()  # one that an interrupted run left behind
    try:
        with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as folder:
            seed(kafka)
            try_image(image, container, kafka, Path(folder) / "retentiond.yaml")
    except TrialError as exc:
        print(container.logs(), exc, sep="\n", file=sys.stderr)
        return 1
    finally:
        container.remove()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
