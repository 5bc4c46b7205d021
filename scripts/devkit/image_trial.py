"""Runs the daemon from a container image once, on an embedded broker, and checks what it does.

    python -m devkit.image_trial IMAGE -- ENGINE...

ENGINE is ``docker``, or any command that takes docker's arguments. ``scripts/image --run`` calls
it. The container is as closed as in ``deploy/compose.yaml``, but for the network, which is the
host's: the broker listens on loopback only.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition

from devkit.embedded import EmbeddedKafka
from devkit.embedded.topics import log_starts
from devkit.waiting import came_true

PORT = 9477  # the one that the image's health check asks
TOPIC, RECORDS, CONSUMED = "stage.orders", 1000, 600
READY_SECONDS, STOP_SECONDS = 120, 10
NAME = "retentiond-trial"
CLOSED = (
    *("--network=host", "--read-only", "--tmpfs=/tmp:exec,mode=1777"),
    *("--cap-drop=ALL", "--security-opt=no-new-privileges"),
)
STATUS = {"Uid": ["10001"] * 4, "CapEff": ["0" * 16], "CapBnd": ["0" * 16], "NoNewPrivs": ["1"]}
"""The daemon's process has no rights, and can gain none."""


class Trial:
    """One container of the engine. Each check raises SystemExit where it does not hold."""

    def __init__(self, engine: Sequence[str]) -> None:
        self._engine = tuple(engine)

    def engine(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self._engine, *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True)

    def execute(self, *command: str) -> str:
        """What a command in the container prints, stderr included."""
        done = self.engine("exec", NAME, *command)
        return done.stdout + done.stderr

    def state(self, template: str) -> str:
        return self.engine("inspect", "--format", f"{{{{.State.{template}}}}}", NAME).stdout.strip()

    def check(self, what: str, holds: bool, found: object = "") -> None:
        if not holds:
            logs = self.engine("logs", NAME)
            raise SystemExit(f"{logs.stdout}{logs.stderr}\nThis does not hold: {what}. {found}")
        print(f"ok  {what}")

    def await_(self, what: str, condition: Callable[[], bool]) -> None:
        came_true(lambda: condition() or self.state("Running") != "true", READY_SECONDS)
        self.check(what, condition())


def main(arguments: Sequence[str]) -> None:
    image, _, *engine = arguments
    trial = Trial(engine)
    trial.engine("rm", "--force", "--volumes", NAME)  # one that an interrupted run left behind
    try:
        with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as folder:
            _seed(kafka)
            _try(trial, image, kafka, Path(folder) / "retentiond.yaml")
    finally:
        trial.engine("rm", "--force", "--volumes", NAME)


def _seed(kafka: EmbeddedKafka) -> None:
    """A topic of which one group has read the first part."""
    kafka.create_topic(TOPIC)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number).encode())
    producer.flush()
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id="billing", enable_auto_commit=False
    )
    at = TopicPartition(TOPIC, 0)
    consumer.assign([at])
    consumer.commit({at: OffsetAndMetadata(CONSUMED, "", -1)})
    consumer.close()


def _try(trial: Trial, image: str, kafka: EmbeddedKafka, config: Path) -> None:
    policy = {"retention.commitoffset.enable": True, "retention.commitoffset.ms": 0}
    document = {
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "schedule": {"interval": "5s"},
        "dry_run": False,
        "http": {"host": "127.0.0.1", "port": PORT},
        "topics": [{"name": TOPIC, **policy}],
    }
    config.write_text(json.dumps(document))
    config.chmod(0o644)
    volume = f"--volume={config}:/etc/retentiond/retentiond.yaml:ro"
    started = trial.engine("run", "--detach", f"--name={NAME}", *CLOSED, volume, image)
    trial.check("the container starts", started.returncode == 0, started.stderr)
    (found,) = json.loads(trial.engine("image", "inspect", image).stdout)
    health = found.get("Healthcheck") or found["Config"]["Healthcheck"]  # podman's, docker's
    check = ("exec", NAME, *health["Test"][1:])
    trial.await_("the image's health check passes", lambda: trial.engine(*check).returncode == 0)
    status = dict(
        line.split(":", 1) for line in trial.execute("cat", "/proc/1/status").splitlines()
    )
    rights = {name: status.get(name, "").split() for name in STATUS}
    trial.check("the daemon has no rights", rights == STATUS, rights)
    said = trial.execute("touch", "/opt/retentiond/probe", "/var/probe")
    trial.check("the root file system is read-only", said.count("Read-only") == 2, said)
    said = trial.execute("sh", "-c", "command -v pip pip3 gcc cc make")
    trial.check("the image has no build tools", not said, said)
    admin, at = kafka.admin(), (TOPIC, 0)
    trial.await_(
        "the broker's log starts at the commit", lambda: log_starts(admin, [at])[at] == CONSUMED
    )
    stopping = time.monotonic()
    trial.engine("stop", "-t", "30", NAME)
    seconds, code = time.monotonic() - stopping, trial.state("ExitCode")
    is_well = code == "0" and seconds <= STOP_SECONDS
    trial.check("SIGTERM ends it in time", is_well, f"exit code {code} after {seconds:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
