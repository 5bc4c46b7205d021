"""A piece of Python in a process of its own, which may be killed or may lack a right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]


def run_python(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """It imports what the tests import, and must print no error unless it is killed."""
    done = subprocess.run(
        [sys.executable, "-c", dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode <= 0, done.stderr
    return done
