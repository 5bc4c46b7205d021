"""The pod of the Helm chart, as rendered, at work on a real broker.

There is no Kubernetes here: `tests.support.pod` says what takes its place, and what does not.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from devkit.chart import ROOT
from devkit.embedded import EmbeddedKafka
from devkit.embedded.ports import PortReservations
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import SPARK, Process, consumed
from tests.support.certificates import Authority
from tests.support.chart import Document, config_of, daemon, only, template
from tests.support.pod import Pod, passes, require_namespaces
from tests.support.waiting import eventually
from tests.unit.config.files import HASH

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.thorough("Helm")]

CONSUMED = 7

START_S = 120.0
"""What the start-up probe gives it."""


class Release:
    """What Helm makes of the values, and the daemon's pod."""

    def __init__(self, values: Document, secrets: dict[str, dict[str, str]], folder: Path) -> None:
        self.values = folder / "values.yaml"
        self.values.write_text(yaml.safe_dump(values))
        self.documents = template(self.values)
        self._commands = 0
        self.secrets = secrets
        self.folder = folder / "pod"
        self.folder.mkdir()
        self.pod = Pod(daemon(self.documents)["spec"], self.documents, secrets, self.folder)
        (self.container,) = daemon(self.documents)["spec"]["containers"]

    def passes(self, probe: str) -> bool:
        return passes(self.container[probe], self.container)

    def await_(self, process: Process, *probes: str) -> None:
        """Until each of them has passed."""

        def missing() -> list[str]:
            assert process.running, process.said
            return [probe for probe in probes if not self.passes(probe)]

        eventually(missing, lambda found: not found, timeout_s=START_S)

    def exec(self, *command: str) -> str:
        """As `kubectl exec` in the daemon's container."""
        self._commands += 1
        name = f"exec-{self._commands}"
        done = self.pod.run({**self.container, "name": name, "command": command, "args": []})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def upgrade(self, *options: str) -> None:
        """As `helm upgrade` and the kubelet do, where the pod stays the same."""
        upgraded = template(self.values, *options)
        assert daemon(upgraded) == daemon(self.documents)
        (self.pod.volume("config") / "retentiond.yaml").write_text(config_of(upgraded))

    def test(self) -> tuple[int, str]:
        """The one container of `helm test`, whose log Helm can show: its exit code and what it
        said. The Service's name, which nobody resolves here, leads to this host."""
        spec = only(self.documents, "Pod")["spec"]
        (container,) = spec["containers"]
        service = only(self.documents, "Service")["metadata"]["name"]
        changed = {
            **container,
            "command": [
                part.replace(f"//{service}:", "//127.0.0.1:")
                for part in container.get("command", ["retentiond"])
            ],
        }
        folder = self.folder / "test"
        folder.mkdir()
        pod = Pod(spec, self.documents, self.secrets, folder)
        config = pod.volume("config") / "retentiond.yaml"  # a pod of its own has ports of its own
        config.write_text(re.sub(r"\bport: \d+", "port: 0", config.read_text()))
        done = pod.run(changed)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module", autouse=True)
def namespaces() -> None:
    require_namespaces()


@pytest.fixture(scope="module")
def topic(driver: RealDriver) -> str:
    """Ten records, seven of which its group has read."""
    return driver.filled_topic("orders-of-a-pod", {"of-a-pod": CONSUMED})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with PortReservations() as ports:
        yield ports.take()


@pytest.fixture(scope="module")
def release(
    driver: RealDriver, topic: str, port: int, tmp_path_factory: pytest.TempPathFactory
) -> Release:
    values = {
        "config": {
            "kafka": {
                "bootstrap.servers": "${file:secrets/kafka/servers}",
                "client.id": "${CLIENT}",
            },
            "schedule": {"interval": "1s"},
            "dry_run": False,
            "http": {"port": port},
            "spark": SPARK,
            "limits": {"worthwhile": None},
            "topics": [consumed(topic)],
        },
        "secrets": {"kafka": "cluster"},
        "envFrom": [{"secretRef": {"name": "environment"}}],
    }
    secrets = {
        "cluster": {"servers": driver.broker.bootstrap_servers},
        "environment": {"CLIENT": "of-a-pod"},
    }
    return Release(values, secrets, tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def process(release: Release) -> Iterator[Process]:
    with release.pod.start(release.container) as process:
        process.await_events("retentiond.started")
        yield process


def test_the_probes_pass_and_the_daemon_deletes(
    release: Release, process: Process, driver: RealDriver, topic: str
) -> None:
    release.await_(process, "startupProbe", "livenessProbe", "readinessProbe")
    eventually(lambda: log_start(driver.broker, topic) == CONSUMED, timeout_s=START_S)
    state = release.pod.volume("state")
    assert {path.stat().st_uid for path in state.iterdir()} == {10001}
    assert (state / "audit.db").exists()


def test_its_processes_have_no_rights_and_can_gain_none(process: Process) -> None:
    for each in (psutil.Process(process.pid), process.jvm()):
        status = Path(f"/proc/{each.pid}/status").read_text()
        facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert facts["Uid"].split() == ["10001"] * 4
        assert facts["Gid"].split() == ["10001"] * 4
        assert {facts[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
        assert facts["NoNewPrivs"] == "1"


def test_it_can_write_to_its_state_and_to_tmp_alone(release: Release, process: Process) -> None:
    writable = set()
    for line in Path(f"/proc/{process.pid}/mountinfo").read_text().splitlines():
        _, _, _, _, place, options, *_, of_all = line.split()
        if "rw" in options.split(",") and not of_all.startswith("ro"):
            writable.add(place)
    outside = {place for place in writable if not place.startswith(("/dev", "/proc", "/sys"))}
    assert outside == {mount["mountPath"] for mount in release.container["volumeMounts"][-2:]}


def test_a_changed_config_map_is_in_force_without_a_restart_or_a_signal(
    release: Release, process: Process
) -> None:
    file = release.pod.volume("config") / "retentiond.yaml"
    file.write_text(f"{file.read_text()}metrics: {{cluster: renamed}}\n")
    process.await_events("retentiond.config_reloaded")


def kubernetes_commands(gate: str) -> list[str]:
    """Of docs/production.md's table, in the column of Kubernetes."""
    text = (ROOT / "docs" / "production.md").read_text()
    (row,) = re.findall(rf"^\| {re.escape(gate)} \|.*\|(.*)\|$", text, re.MULTILINE)
    return re.findall(r"`((?:helm|kubectl) [^`]+)`", row)


@pytest.fixture
def own_port() -> Iterator[int]:
    with PortReservations() as ports:
        yield ports.take()


def test_the_gates_to_production_open_in_the_running_pod(
    driver: RealDriver, own_port: int, tmp_path: Path
) -> None:
    """From the emergency stop to no limits: neither stops the pod nor starts another daemon."""
    topic = "gates-of-a-pod"
    driver.filled_topic(topic, {"of-gates": CONSUMED}, partitions=2)
    config = {
        "kafka": {"bootstrap.servers": driver.broker.bootstrap_servers},
        "schedule": {"interval": "1s"},
        "history": {"interval": "1s"},
        "http": {"port": own_port},
        "spark": SPARK,
        "limits": {"worthwhile": None},
        "topics": [consumed(topic)],
    }
    release = Release({"config": config}, {}, tmp_path)

    def deleted() -> int:
        return sum(log_start(driver.broker, topic, at) == CONSUMED for at in range(2))

    with release.pod.start(release.container) as pod:

        def take(gate: str) -> str:
            said = ""
            for command in kubernetes_commands(gate):
                here = command.replace("9477", str(own_port)).replace("13d", "0s")
                words = shlex.split(here)
                if words[0] == "kubectl":
                    said += release.exec(*words[words.index("--") + 1 :])
                else:
                    release.upgrade(*words[words.index("values.yaml") + 1 :])
                    pod.await_events("retentiond.config_reloaded")
            return said

        release.await_(pod, "readinessProbe")
        assert "ready" in take("4: it is a dry run")
        pod.await_events("retentiond.cycle", 4)
        assert re.search(rf"^{topic} +at once ", take("4: after two weeks"), re.MULTILINE)
        take("5: the emergency stop")
        take("5: one deletion")
        eventually(deleted, timeout_s=START_S)
        assert ": 0 differ" in take("5: the evidence")
        take("6")
        eventually(lambda: deleted() == 2, timeout_s=START_S)
        take("7")
        assert pod.running


def test_helm_s_test_passes(release: Release, process: Process) -> None:
    release.await_(process, "readinessProbe")
    code, said = release.test()
    assert code == 0, said
    assert said.startswith("200 ")
    assert "brokers: " in said  # of doctor


def test_it_ends_within_its_grace_and_helm_s_test_then_fails(
    release: Release, process: Process, tmp_path: Path
) -> None:
    """The last test here: it ends the daemon."""
    process.signal(signal.SIGTERM)
    assert process.wait(daemon(release.documents)["spec"]["terminationGracePeriodSeconds"]) == 0
    assert not release.passes("livenessProbe")
    release.folder = tmp_path
    code, _ = release.test()
    assert code == 1


def test_with_a_login_and_tls_the_probes_pass_all_the_same(
    kafka: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    made = Authority(tmp_path).issue("retentiond")
    with PortReservations() as ports:
        values = {
            "config": {
                "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
                "http": {
                    "port": ports.take(),
                    "tls": {
                        "certificate": "/etc/retentiond/secrets/tls/tls.crt",
                        "key": "/etc/retentiond/secrets/tls/tls.key",
                    },
                    "basic_auth": {"prometheus": "${file:secrets/http/prometheus.bcrypt}"},
                },
                "spark": SPARK,
                "limits": {"worthwhile": None},
                "topics": [consumed(topic)],
            },
            "secrets": {"tls": "certificate", "http": "login"},
        }
        secrets = {
            "certificate": {
                "tls.crt": made.certificate.read_text(),
                "tls.key": made.key.read_text(),
            },
            "login": {"prometheus.bcrypt": HASH},
        }
        release = Release(values, secrets, tmp_path)
        with release.pod.start(release.container) as process:
            release.await_(process, "startupProbe")
            assert release.passes("livenessProbe")
            code, said = release.test()
            assert (code, said[:3]) == (0, "401")
        assert not release.passes("livenessProbe")
