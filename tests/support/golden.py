"""Golden files: what a command prints, kept under ``tests/golden`` and compared letter by letter.

``--update-golden`` writes them again. They are read in review: a wrong sentence is corrected in the
product, and not kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the files of tests/golden again"
    )


class Golden:
    """``shown``: what stands in a file for a text that differs from run to run."""

    def __init__(self, *, updates: bool, shown: Mapping[str, str]) -> None:
        self._updates = updates
        self.shown = dict(shown)

    def __call__(self, name: str, found: str) -> None:
        """Asserts that this is what stands in the file of that name."""
        for text, instead in self.shown.items():
            found = found.replace(text, instead)
        found = "".join(f"{line.rstrip()}\n" for line in found.splitlines())
        file = FOLDER / name
        if self._updates:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found, encoding="utf-8")
        expected = file.read_text(encoding="utf-8") if file.exists() else "(no such file)\n"
        assert found == expected, f"{file} differs; --update-golden writes it again, then read it"


@pytest.fixture
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Golden:
    return Golden(
        updates=request.config.getoption("--update-golden"), shown={str(tmp_path): "/folder"}
    )
