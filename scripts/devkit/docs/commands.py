"""``docs/commands.md``: every command with its options, from what ``--help`` says."""

from __future__ import annotations

import html
import subprocess
import sys

HEAD = """# Commands

Every command's help, as `--help` gives it. `retentiond --install-completion` teaches the shell to
complete commands and options.

"""


def page() -> str:
    """Made in a process of its own, because Typer looks at the terminal's width and colours."""
    typer = [sys.executable, "-m", "typer", "retentiond.cli.main"]
    made = subprocess.run(
        [*typer, "utils", "docs", "--name", "retentiond"],
        check=True,
        capture_output=True,
        text=True,
        env={"TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200"},
    )
    lines = html.unescape(made.stdout).splitlines()[1:]
    return HEAD + "\n".join(lines).strip() + "\n"
