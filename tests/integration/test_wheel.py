"""The wheel, as a user gets it: built, installed into an empty environment, and at work.

Its dependencies are the ones that the tests run with: the environment finds them beside this one's
retentiond, which it can't see.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from tests.contract.real import RealDriver

pytestmark = pytest.mark.thorough("pip")

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config"


def call(*command: object) -> str:
    """stdout of a command that has to succeed."""
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the environment's programs."""
    environment = tmp_path_factory.mktemp("environment")
    pytest.importorskip("ensurepip")
    venv.create(environment, with_pip=True)
    programs = environment / "bin"
    call(programs / "pip", "install", "--no-deps", "--no-index", wheel)
    (site_packages,) = environment.glob("lib/python3*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def run(installed: Path, folder: Path, *arguments: object) -> str:
    """stdout of ``retentiond``, started where nothing else of it is found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [installed / "retentiond", *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_brings_its_types_its_reference_and_its_schema(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "retentiond/py.typed" in archive.namelist()
        for name in ("retentiond.yaml", "retentiond.schema.json"):
            assert archive.read(f"retentiond/config/{name}") == (CONFIG / name).read_bytes()
        assert not [name for name in archive.namelist() if name.startswith(("tests", "scripts"))]


def test_what_it_depends_on_is_what_the_tests_run_with(installed: Path) -> None:
    assert call(installed / "pip", "check").strip() == "No broken requirements found."


def test_it_is_the_installed_one_that_runs(installed: Path, tmp_path: Path) -> None:
    asked = "import retentiond; print(retentiond.__file__)"
    done = subprocess.run(
        [installed / "python", "-c", asked],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(installed.parent)


def test_it_prints_a_configuration_to_start_from(installed: Path, tmp_path: Path) -> None:
    example = run(installed, tmp_path, "check", "--example")
    assert example == (CONFIG / "retentiond.yaml").read_text()
    assert run(installed, tmp_path, "check", "--schema") == (
        (CONFIG / "retentiond.schema.json").read_text()
    )
    (tmp_path / "retentiond.yaml").write_text(example)
    assert "retentiond.yaml is valid." in run(installed, tmp_path, "check")


@pytest.mark.broker
def test_it_plans_on_a_broker(
    installed: Path, tmp_path: Path, kafka: EmbeddedKafka, topic_name: str
) -> None:
    with closing(RealDriver(kafka, kafka.bootstrap_servers)) as driver:
        driver.create_topic(topic_name)
        driver.produce(topic_name, [driver.now_ms - 3_600_000] * 10)
        driver.commit(f"group-of-{topic_name}", {(topic_name, 0): 7})
    planned = run(
        *(installed, tmp_path, "plan", "--bootstrap-server", kafka.bootstrap_servers),
        *("--consumed-retention", "1m", "--topic", topic_name, "--output", "json"),
    )
    (topic,) = json.loads(planned)["topics"]
    assert (topic["topic"], topic["records"]) == (topic_name, 7)
