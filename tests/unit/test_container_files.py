"""The files of the container agree with the daemon's defaults and with each other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from retentiond.config import Config, Http, load

ROOT = Path(__file__).parents[2]
Instruction = tuple[str, str]


def read_stages() -> list[list[Instruction]]:
    """The Dockerfile's (instruction, arguments), split at each FROM; what precedes the first
    FROM is the first list."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    stages: list[list[Instruction]] = [[]]
    for line in text.replace("\\\n", " ").splitlines():
        name, _, arguments = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, re.sub(r"\s+", " ", arguments)))
    return stages


def final(name: str) -> str:
    """The arguments of the one such instruction in the final stage."""
    (arguments,) = [given for instruction, given in read_stages()[-1] if instruction == name]
    return arguments


def final_runs() -> str:
    """What the final stage runs, all in one."""
    return " && ".join(given for name, given in read_stages()[-1] if name == "RUN")


def final_environment() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", final("ENV")))


def read_yaml(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def service(name: str) -> dict[str, Any]:
    found: dict[str, Any] = read_yaml("deploy/compose.yaml")["services"][name]
    return found


def pins(path: str) -> dict[str, str]:
    """Each pinned package with its hashes, as text."""
    blocks = re.findall(
        r"^(\S+==\S+)[^\n]*\\\n((?: +--hash=.*\n)+)", (ROOT / path).read_text(), re.M
    )
    return {name: re.sub(r"[\s\\]+", " ", hashes) for name, hashes in blocks}


@pytest.fixture
def deployed() -> Config:
    return load(ROOT / "deploy" / "retentiond.yaml", {})


def test_every_pip_command_of_the_build_checks_hashes_or_stays_offline() -> None:
    runs = [given for stage in read_stages() for name, given in stage if name == "RUN"]
    commands = [part for run in runs for part in run.split(" && ") if " -m pip " in part]

    assert commands
    assert [c for c in commands if "--require-hashes" not in c and "--no-index" not in c] == []
    assert any("--requirement requirements.txt" in command for command in commands)


def test_the_build_backend_has_the_pins_of_the_development_tools() -> None:
    build = pins("requirements-build.txt")

    assert any(name.startswith("hatchling==") for name in build)
    assert build.items() <= pins("requirements-dev.txt").items()


def test_the_image_runs_as_a_user_who_is_not_root_and_any_other_may_write_the_state() -> None:
    uid, gid = (int(part) for part in final("USER").split(":"))

    assert uid == gid >= 10_000
    assert f"--owner={uid} --group=0 --mode=0770 {final('VOLUME')}" in final_runs()


def test_every_image_has_a_fixed_tag() -> None:
    (base,) = [given.removeprefix("BASE=") for name, given in read_stages()[0] if name == "ARG"]
    services = read_yaml("deploy/compose.yaml")["services"].values()
    images = [base, *(given["image"] for given in services if "image" in given)]

    assert len(images) == 4
    assert [i for i in images if not re.fullmatch(r"[\w./-]+:[\w.-]*\w", i) or "latest" in i] == []
    bases = [given for stage in read_stages() for name, given in stage if name == "FROM"]
    assert bases == ["${BASE} AS builder", "${BASE}"]


def test_the_build_context_holds_what_the_dockerfile_copies_or_mounts() -> None:
    ignored, *others = (ROOT / ".dockerignore").read_text().splitlines()[1:]
    kept = {line.removeprefix("!") for line in others if line.startswith("!")}
    copied = {
        path
        for stage in read_stages()
        for name, given in stage
        if name == "COPY" and "--from" not in given
        for path in given.split()[:-1]
    }
    mounted = set(re.findall(r"type=bind,source=([^,]+)", final_runs()))

    assert ignored == "*"
    assert kept == copied | mounted
    assert [path for path in kept if not (ROOT / path).exists()] == []


def test_in_the_compose_file_the_daemon_can_write_only_its_state_and_tmp() -> None:
    retentiond = service("retentiond")

    assert retentiond["read_only"] is True
    assert [mount.partition(":")[0] for mount in retentiond["tmpfs"]] == ["/tmp"]
    assert retentiond["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in retentiond["security_opt"]
    assert final("WORKDIR") == "/tmp"


def test_every_composed_port_is_on_loopback_alone() -> None:
    services = read_yaml("deploy/compose.yaml")["services"]
    ports = {name: given["ports"] for name, given in services.items() if "ports" in given}
    assert ports.keys() == {"kafka", "retentiond", "prometheus", "grafana"}
    assert [port for of in ports.values() for port in of if not port.startswith("127.0.0.1:")] == []


def test_the_composed_daemon_deletes_nothing_until_told_to(deployed: Config) -> None:
    assert deployed.dry_run is True


@contextmanager
def http_server(status: int) -> Iterator[int]:
    """A server on a free port, yielded, that answers this status to /healthz and 404 elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def run_health_check(port: int) -> int:
    """The exit code of the image's own health check, asked at another port."""
    python, *arguments = json.loads(final("HEALTHCHECK").partition("CMD ")[2])
    assert python == "python"
    arguments[-1] = arguments[-1].replace(str(Http().port), str(port))
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True).returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (401, 0), (503, 1)])
def test_the_health_check_passes_where_healthz_answers_or_wants_a_login(
    status: int, code: int
) -> None:
    with http_server(status) as port:
        assert run_health_check(port) == code


def test_the_health_check_fails_where_nobody_listens() -> None:
    with http_server(200) as port:
        pass

    assert run_health_check(port) == 1
