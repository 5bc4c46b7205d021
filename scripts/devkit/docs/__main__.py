"""Writes the pages that are made from the code; ``--check`` only says which of those that are
committed differ. The page of each command is made for the site alone."""

from __future__ import annotations

import sys
from pathlib import Path

from devkit.docs import commands, configuration, fields, metrics
from retentiond.config.reader import json_schema

FOLDER = Path(__file__).parents[3] / "docs"


def pages() -> dict[str, str]:
    """File name under docs/ → its text."""
    return {
        **commands.overview(),
        "configuration.md": configuration.page(json_schema()),
        "fields.md": fields.page(),
        "metrics.md": metrics.page(),
    }


def main() -> int:
    differing = []
    of_site = {} if "--check" in sys.argv else commands.pages()
    for name, text in {**pages(), **of_site}.items():
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        differing.append(f"docs/{name}")
        if "--check" not in sys.argv:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if differing and "--check" in sys.argv:
        print(f"not as the code makes them: {', '.join(differing)}; run scripts/docs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
