"""The unit for hosts, by systemd's own judgement."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "retentiond.service"

MOST_EXPOSURE = 20
"""In tenths, of ten: systemd calls up to 2 "OK"."""


@pytest.fixture
def analyze() -> str:
    if (found := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is missing: Debian's package systemd has it")
    return found


def test_it_is_a_unit_without_a_warning(analyze: str, tmp_path: Path) -> None:
    """Of a copy whose command is there: the real one is installed where the page says."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/retentiond/bin/retentiond", sys.executable))
    done = subprocess.run(
        [analyze, "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_little_of_the_host_is_exposed_to_it(analyze: str) -> None:
    done = subprocess.run(
        [analyze, "--no-pager", "security", "--offline=true", f"--threshold={MOST_EXPOSURE}", UNIT],
        capture_output=True,
        text=True,
        check=False,
    )
    if "--offline" in done.stderr:
        pytest.skip("systemd before 250 judges running units only")
    assert done.returncode == 0, done.stdout[-200:]


def test_the_page_installs_what_the_unit_starts() -> None:
    page, unit = (ROOT / "docs" / "hosts.md").read_text(), UNIT.read_text()
    (started,) = re.findall(r"^ExecStart=(\S+) run --config (\S+)$", unit, re.MULTILINE)
    assert all(each in page for each in started)
    (user,) = re.findall(r"^User=(\w+)$", unit, re.MULTILINE)
    assert re.search(rf"^useradd .* {user}$", page, re.MULTILINE)
