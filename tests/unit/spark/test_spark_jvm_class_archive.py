"""When the classes that an installation keeps are offered to the JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.spark import environment


@pytest.mark.parametrize(
    ("given", "is_offered"),
    [
        ("", True),
        ("-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0", True),
        ("-XX:SharedArchiveFile=/elsewhere.jsa", False),
        ("-XX:ArchiveClassesAtExit=/elsewhere.jsa", False),
    ],
)
def test_they_are_unless_an_operator_names_an_archive(
    given: str, is_offered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "classes.jsa"
    monkeypatch.setattr(environment, "CLASS_ARCHIVE", archive)
    assert environment.archived_classes(given) == ""

    archive.touch()
    assert (str(archive) in environment.archived_classes(given)) is is_offered
