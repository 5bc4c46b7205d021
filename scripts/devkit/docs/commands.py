"""``docs/commands.md``, and for the site ``docs/commands/``: each command with its options, from
what ``--help`` says."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from functools import cache

from devkit.docs import tables

HEAD = """# Commands

`retentiond COMMAND --help` explains a command's options; the site has a page for each.
`retentiond --install-completion` lets the shell complete commands and options.

"""


COMMAND = re.compile(r"^## `retentiond (\S+)`\n", re.MULTILINE)
"""The heading that Typer gives to a command."""

SUBCOMMAND = re.compile(r"^### `retentiond \S+ (\S+)`\n", re.MULTILINE)
"""The heading that Typer gives to a command of a command."""

LISTED = re.compile(r"^\* `(\w[\w-]*)`: .*", re.MULTILINE)
"""A command in Typer's list of them."""


PICTURES = {
    "report": "![A report: what the topics take on disk, and on top of it what retentiond saved]"
    "(../report.png)",
}
"""What a page shows before the options; `scripts/docs pictures` takes them."""


def overview() -> dict[str, str]:
    """File name under docs/ → its text: the page of all commands."""
    general, texts = _parts()
    # Typer's own list of them cuts what it says.
    listed = LISTED.sub(lambda found: f"* `{found[1]}`: {_first(texts[found[1]])}", general)
    return {"commands.md": f"{HEAD}{listed.strip()}\n"}


def pages() -> dict[str, str]:
    """File name under docs/ → its text: a page for each command, which the site alone has."""
    return {
        f"commands/{name}.md": f"# `retentiond {name}`\n\n{_with_picture(name, text)}"
        f"{tables.printed(name)}\n"
        for name, text in _parts()[1].items()
    }


@cache
def _parts() -> tuple[str, dict[str, str]]:
    """What is said of all commands, and by command of each."""
    general, *rest = COMMAND.split(_documented())
    return general, dict(zip(rest[::2], rest[1::2], strict=True))


def _first(text: str) -> str:
    """The first paragraph of what a command says about itself."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _with_picture(name: str, text: str) -> str:
    picture = f"{PICTURES[name]}\n\n" if name in PICTURES else ""
    further = SUBCOMMAND.split(text)[1:]
    texts = dict(zip(further[::2], further[1::2], strict=True))
    whole = LISTED.sub(lambda found: f"* `{found[1]}`: {_first(texts[found[1]])}", text)
    return _one_level_up(whole).replace("**Usage**", f"{picture}**Usage**", 1)


def _one_level_up(text: str) -> str:
    return re.sub(r"^##", "#", text.strip(), flags=re.MULTILINE)


def _documented() -> str:
    """Made in a process of its own, because Typer looks at the terminal's width and colours."""
    typer = [sys.executable, "-m", "typer", "retentiond.cli.main"]
    made = subprocess.run(
        [*typer, "utils", "docs", "--name", "retentiond"],
        check=True,
        capture_output=True,
        text=True,
        env={"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200"},
    )
    return "\n".join(html.unescape(made.stdout).splitlines()[1:])
