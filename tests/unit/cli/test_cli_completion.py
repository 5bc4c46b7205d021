"""What Tab completes: Typer's own, the names of commands and options."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Command


@pytest.mark.parametrize(
    ("words", "completed"), [("pa", "pause"), ("plan --exit", "--exit-code"), ("explain o", "")]
)
def test_commands_and_options_are_completed(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: str, completed: str
) -> None:
    monkeypatch.setenv("_RETENTIOND_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"retentiond {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    done = command()
    assert (done.code, done.out.strip(), done.err) == (0, completed, "")
