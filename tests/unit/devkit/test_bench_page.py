"""Where the bench's figures go on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.bench import page
from devkit.bench.result import Measurement, Result

MACHINE = {"date": "2030-01-02", "commit": "abc123", "cores": "2"}


def test_a_layout_that_is_measured_gets_its_table_and_the_others_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "scaling.md"
    monkeypatch.setattr(page, "PAGE", place)
    place.write_text(
        "before\n<!-- L: scripts/bench --write -->\nold L\n<!-- L -->\n"
        "<!-- XL: scripts/bench --write -->\nold XL\n<!-- XL -->\nafter\n"
    )
    figures = [
        Result("L, dry run: gather", 0.5, "s", 0.4),
        Result("L, dry run: requests", 16, "", 22),
        Result("L, dry run: requests, METADATA", 5, ""),
    ]
    page.write(Measurement(MACHINE, figures))
    written = place.read_text()
    assert "old L\n" not in written
    assert "Measured on 2030-01-02, commit abc123 (cores 2)." in written
    assert "| dry run: gather | 0.50 s | ≤ 0.40 s missed |" in written
    assert "| dry run: requests | 16 | ≤ 22 |" in written
    assert "METADATA" not in written
    assert written.endswith("<!-- XL: scripts/bench --write -->\nold XL\n<!-- XL -->\nafter\n")

    with pytest.raises(ValueError, match="no place for layout XXL"):
        page.write(Measurement(MACHINE, [Result("XXL, dry run: gather", 9.0, "s")]))
