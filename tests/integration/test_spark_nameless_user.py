"""A user that the system has no name for, as containers get one: `docker run --user`, OpenShift."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from tests.support.brokers.command import RETENTIOND, configure

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.thorough("Spark sessions of their own"),
]

USER_ID = 12345


@pytest.fixture
def as_nobody_known() -> list[str]:
    """A command that runs another one as such a user, with the rights of this one on its files."""
    with pytest.raises(KeyError):
        pwd.getpwuid(USER_ID)
    command = ["unshare", "--user", f"--map-user={USER_ID}", "--map-group=0"]
    tried = subprocess.run([*command, "id", "--user"], capture_output=True, text=True, check=False)
    if tried.stdout.strip() != str(USER_ID):
        pytest.skip(f"no user of another number here: {tried.stderr.strip()}")
    return command


@pytest.mark.broker
@pytest.mark.parametrize("home", [None, "/"])
def test_a_whole_cycle_is_run(
    kafka: EmbeddedKafka, as_nobody_known: list[str], home: str | None, tmp_path: Path
) -> None:
    file = configure(tmp_path, kafka.bootstrap_servers)
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    done = subprocess.run(
        [*as_nobody_known, *RETENTIOND, "run", "--once", "--config", str(file)],
        cwd=tmp_path,
        env=environment if home is None else {**environment, "HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert not list(tmp_path.glob("?"))
