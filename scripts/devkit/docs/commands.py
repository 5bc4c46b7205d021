"""``docs/commands/``: every command with its options, from what ``--help`` says."""

from __future__ import annotations

import html
import re
import subprocess
import sys

HEAD = """# Commands

Each command has a page with its help, as `--help` prints it. `retentiond --install-completion` lets
the shell complete commands and options.

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


def pages() -> dict[str, str]:
    """File name under docs/ → its text: a page for each command, and one that leads to them."""
    general, *rest = COMMAND.split(_documented())
    texts = dict(zip(rest[::2], rest[1::2], strict=True))
    of_commands = {
        f"commands/{name}.md": f"# `retentiond {name}`\n\n{_with_picture(name, text)}\n"
        for name, text in texts.items()
    }
    # Typer's own list of them cuts what it says, and leads to headings that are pages here.
    listed = LISTED.sub(
        lambda found: f"* [`{found[1]}`](commands/{found[1]}.md): {_first(texts[found[1]])}",
        general,
    )
    return {"commands.md": f"{HEAD}{listed.strip()}\n", **of_commands}


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
