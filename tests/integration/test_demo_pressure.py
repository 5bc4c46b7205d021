"""The demo's second act: a small disk runs full without disk pressure, and stays usable with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.thorough("the demo")]

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_producers_fail_on_a_full_disk_without_disk_pressure_and_never_with_it(
    tmp_path: Path,
) -> None:
    picture = tmp_path / "disks.svg"
    done = subprocess.run(
        [sys.executable, "-m", "devkit.demo.pressure", "--picture", str(picture)],
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if "can't mount a tmpfs" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    without, with_it = re.findall(r"^(.*): the producer (failed|never failed)", done.stdout, re.M)
    assert without == ("without disk_pressure", "failed")
    assert with_it == ("with disk_pressure", "never failed")
    ((written, read, deleted),) = re.findall(
        r"^with disk_pressure: .*?; ([\d,]+) records written, ([\d,]+) read, ([\d,]+) deleted, 0 "
        r"gaps; at most",
        done.stdout,
        re.M,
    )
    assert written == read
    assert deleted != "0"
    assert "under pressure: consumed records of " in done.stdout
    assert picture.read_text().startswith("<svg")
