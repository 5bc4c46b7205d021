"""What the Dockerfile says of its last stage, for tests that run a container without one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def final(name: str) -> str:
    """The arguments of the one such instruction in the final stage."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    stage = re.split(r"^FROM ", text.replace("\\\n", " "), flags=re.MULTILINE)[-1]
    (arguments,) = re.findall(rf"^{name} (.*)$", stage, re.MULTILINE)
    return re.sub(r"\s+", " ", arguments)


def final_environment() -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S+)", final("ENV")))
