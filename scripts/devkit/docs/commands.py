"""``docs/commands/``: every command with its options, from what ``--help`` says."""

from __future__ import annotations

import html
import re
import subprocess
import sys

HEAD = """# Commands

The help of every command, as `--help` prints it. `retentiond --install-completion` lets the shell
complete commands and options.

"""


COMMAND = re.compile(r"^## `retentiond (\S+)`\n", re.MULTILINE)
"""The heading that Typer gives to a command."""


PICTURES = {
    "report": "![Two charts of a report: what each topic takes on disk, and what it would take "
    "without retentiond](../report.png)",
}
"""What a page shows before the options; `scripts/docs pictures` takes them."""


def pages() -> dict[str, str]:
    """File name under docs/ → its text: a page for each command, and one that leads to them."""
    general, *rest = COMMAND.split(_documented())
    names, texts = rest[::2], rest[1::2]
    of_commands = {
        f"commands/{name}.md": f"# `retentiond {name}`\n\n{_with_picture(name, text)}\n"
        for name, text in zip(names, texts, strict=True)
    }
    # Typer's own list of them leads to headings that are pages here.
    listed = re.sub(r"\* `(\w[\w-]*)`:", r"* [`\1`](commands/\1.md):", general)
    return {"commands.md": f"{HEAD}{listed.strip()}\n", **of_commands}


def _with_picture(name: str, text: str) -> str:
    picture = f"{PICTURES[name]}\n\n" if name in PICTURES else ""
    return _one_level_up(text).replace("**Usage**", f"{picture}**Usage**", 1)


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
