"""What the container's files promise: pinned builds, a daemon that deletes nothing, its health."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import yaml

from retentiond.config import Http, load
from tests.support.http_server import Answer, answering
from tests.support.image import final

ROOT = Path(__file__).parents[2]


def pins(path: str) -> dict[str, str]:
    """Each pinned package with its hashes, as text."""
    blocks = re.findall(
        r"^(\S+==\S+)[^\n]*\\\n((?: +--hash=.*\n)+)", (ROOT / path).read_text(), re.M
    )
    return {name: re.sub(r"[\s\\]+", " ", hashes) for name, hashes in blocks}


@pytest.mark.parametrize(
    ("file", "package"),
    [("requirements-build.txt", "hatchling"), ("scripts/requirements-demo.txt", "kio")],
)
def test_what_is_installed_for_less_has_the_pins_of_the_development_tools(
    file: str, package: str
) -> None:
    found = pins(file)

    assert any(name.startswith(f"{package}==") for name in found)
    assert found.items() <= pins("requirements-dev.txt").items()


def test_the_composed_daemon_deletes_nothing_until_told_to_and_shows_on_loopback_alone() -> None:
    assert load(ROOT / "deploy" / "retentiond.yaml", {}).dry_run is True
    services: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    ports = [port for each in services["services"].values() for port in each.get("ports", ())]
    assert len(ports) >= 4
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_the_image_starts_the_daemon_below_an_init_of_debians() -> None:
    assert json.loads(final("ENTRYPOINT")) == ["tini", "-s", "--", "retentiond"]
    assert " tini " in final("RUN mkdir")


def health(status: int) -> AbstractContextManager[str]:
    """A server that answers this status to /healthz and 404 elsewhere."""
    return answering(lambda asked: Answer(status if asked.path == "/healthz" else 404))


def run_health_check(url: str) -> int:
    """The exit code of the image's own health check, asked at the port of this server."""
    python, *arguments = json.loads(final("HEALTHCHECK").partition("CMD ")[2])
    assert python == "python"
    arguments[-1] = arguments[-1].replace(str(Http().port), url.rpartition(":")[2])
    return subprocess.run([sys.executable, *arguments], check=False, capture_output=True).returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (401, 0), (503, 1), (None, 1)])
def test_the_health_check_passes_where_healthz_answers_or_wants_a_login(
    status: int | None, code: int
) -> None:
    """None: nobody listens."""
    with health(status or 200) as url:
        if status:
            assert run_health_check(url) == code
    assert status or run_health_check(url) == code
