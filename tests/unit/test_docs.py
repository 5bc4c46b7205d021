"""What the documents point at is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]

LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
PATH = re.compile(r"`((?:tests|config|deploy|scripts|docs|bench)/[\w./-]+)`")


def pointed_at(document: Path) -> Iterator[Path]:
    text = document.read_text()
    yield from (document.parent / link for link in LINK.findall(text))
    yield from (ROOT / path for path in PATH.findall(text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_points_at_exists(document: Path) -> None:
    assert [path for path in pointed_at(document) if not path.exists()] == []


def test_the_documents_point_at_something() -> None:
    assert len({path for document in DOCUMENTS for path in pointed_at(document)}) > 10
