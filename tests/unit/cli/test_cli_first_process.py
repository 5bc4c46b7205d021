"""As process 1, as in a container without an init of its own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

FIRST = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c"]

START = "from retentiond.cli.main import work_in_a_child as work; work()\n"

LEAVE_AN_ORPHAN = """
import os, subprocess, time
subprocess.run(["sh", "-c", "sleep 0.1 &"], check=True)
seen = ""
for _ in range(600):
    lines = subprocess.run(["ps", "-eo", "stat=,comm="], capture_output=True, text=True).stdout
    seen = "sleep" if "sleep" in lines else seen and "gone"
    if seen == "gone":
        break
    time.sleep(0.05)
print(os.getppid(), seen)
"""

WAIT_FOR_TERM = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
signal.pause()
"""

pytestmark = pytest.mark.skipif(
    subprocess.run([*FIRST[:-2], "true"], check=False, capture_output=True).returncode != 0,
    reason="the host lets this user make no PID namespace",
)


def test_an_orphan_that_ends_is_no_zombie() -> None:
    done = subprocess.run(
        [*FIRST, START + LEAVE_AN_ORPHAN], check=False, capture_output=True, text=True
    )
    assert (done.stdout, done.returncode) == ("1 gone\n", 0), done.stderr


def test_a_signal_reaches_the_child_and_its_exit_code_is_the_whole_ones() -> None:
    # The shell beside it knows process 1 by its number.
    script = f"import os, signal, threading\n{START}{WAIT_FOR_TERM}".replace(
        "signal.pause()", "os.kill(1, signal.SIGTERM)\nsignal.pause()"
    )
    done = subprocess.run([*FIRST, script], check=False, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("ready\n", 7), done.stderr


def test_a_child_that_is_killed_ends_it_as_a_shell_would_say() -> None:
    script = f"import os, signal\n{START}os.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([*FIRST, script], check=False, capture_output=True)
    assert done.returncode == 128 + signal.SIGKILL
