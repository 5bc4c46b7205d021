"""What the documents say and point at is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from markdown_it import MarkdownIt

from devkit.docs import commands
from devkit.docs.__main__ import pages
from retentiond.cli.main import app
from retentiond.config.reader import json_schema
from retentiond.model import VERDICT_OF

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]

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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_row_of_a_table_is_rendered_in_it(document: Path) -> None:
    text = document.read_text()
    outside_code = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\|.*$", outside_code, re.MULTILINE)
    rows = [line for line in lines if not re.fullmatch(r"\|(\s*:?-+:?\s*\|)+", line)]
    rendered = MarkdownIt().enable("table").render(text)
    assert rendered.count("<tr>") == len(rows)


def test_every_promise_names_its_evidence_and_tests_that_there_are() -> None:
    _, _, rest = (ROOT / "docs/safety.md").read_text().partition("## The promises")
    promises = re.split(r"^\*\*\d+\. ", rest.partition("\n## ")[0], flags=re.MULTILINE)[1:]
    assert len(promises) == 7
    for promise in promises:
        assert "\nEvidence: " in promise, promise
        tests = PATH.findall(re.split(r"^Tests?: ", promise, flags=re.MULTILINE)[1])
        assert tests, promise
        assert [path for path in tests if "\ndef test_" not in (ROOT / path).read_text()] == []


def test_the_pages_made_from_the_code_are_as_the_code_makes_them() -> None:
    made = pages()
    assert {name: (ROOT / "docs" / name).read_text() for name in made} == made


def test_the_reference_of_the_configuration_has_every_key() -> None:
    explained = re.findall(r"^\| `([^`]+)` \|", pages()["configuration.md"], re.MULTILINE)
    schema = json_schema()
    sections = [schema, *schema["$defs"].values()]
    for key in (name for each in sections for name in each.get("properties", {})):
        assert any(path == key or path.endswith(f".{key}") for path in explained), key


@pytest.mark.long
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "docs" / "commands").mkdir(exist_ok=True)
    for name, text in commands.pages().items():
        (tmp_path / "docs" / name).write_text(text)
    zensical = Path(sys.executable).with_name("zensical")
    built = subprocess.run(
        [zensical, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "build/site/index.html").exists()


def test_every_page_is_in_the_navigation() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    committed = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert sorted(_pages(site["nav"])) == sorted([*committed, *commands.pages()])


def test_the_index_links_every_page() -> None:
    docs = ROOT / "docs"
    linked = set(LINK.findall((docs / "index.md").read_text()))
    assert {path.name for path in docs.glob("*.md")} - linked == {"index.md"}


def _pages(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for page in entry.values():
            yield from [page] if isinstance(page, str) else _pages(page)


def test_every_command_has_a_page() -> None:
    group: Any = typer.main.get_command(app)
    names = group.list_commands(None)
    assert commands.pages().keys() == {f"commands/{name}.md" for name in names}


def test_the_rule_explains_every_reason() -> None:
    text = (ROOT / "docs/semantics.md").read_text()
    rows = {tuple(row) for row in re.findall(r"^\| (\w+) \| `(\w+)` \|", text, re.MULTILINE)}
    assert rows == {(verdict.value, reason.value) for reason, verdict in VERDICT_OF.items()}


ENABLED = re.compile(
    r"^ *- (?:name|pattern): (?:(?!^ *- |^ *$|^```).*\n)*? *retention\.commitoffset\.enable: true\n"
    r"(?:(?!^ *- (?:name|pattern): |^ *$|^```).*\n)*",
    re.MULTILINE,
)
HOURS = re.compile(r"retention\.commitoffset\.(?:hours|minutes|ms): \d")


def test_every_example_states_its_consumed_retention() -> None:
    """By default it is as long as Kafka's own, and then it frees nothing."""
    examples = [
        example
        for document in [*DOCUMENTS, *(ROOT / "config").glob("*.yaml")]
        for example in ENABLED.findall(document.read_text())
    ]
    assert len(examples) > 20
    assert [each for each in examples if not HOURS.search(each)] == []


def test_the_page_of_a_command_tells_each_field_of_its_json() -> None:
    """Also those of the rows within it, by the words of the row that has them."""
    page = commands.pages()["commands/orphans.md"]
    assert "| `at` |  | when the look was taken, by the earlier of two clocks |  |" in page
    assert "| `orphans.since` |  | since when it is known to be an orphan |  |" in page
    assert "## JSON" not in commands.pages()["commands/pause.md"]
