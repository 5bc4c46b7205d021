"""Writes the pages that are made from the code. The page of each command is made for the site
alone."""

from __future__ import annotations

from pathlib import Path

from devkit.docs import api_schema, commands, configuration, tables
from retentiond.config.reader import json_schema

FOLDER = Path(__file__).parents[3] / "docs"


def pages() -> dict[str, str]:
    """File name under docs/ → its text."""
    configured, fields, metrics = (
        (FOLDER / f"{name}.md").read_text() for name in ("configuration", "fields", "metrics")
    )
    return {
        **commands.overview(),
        "api.schema.json": api_schema.text(),
        "configuration.md": configuration.page(configured, json_schema()),
        "fields.md": tables.fields(fields),
        "metrics.md": tables.metrics(metrics),
    }


if __name__ == "__main__":
    for name, text in {**pages(), **commands.pages()}.items():
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
