"""What Tab completes, and that it never fails loudly. The one of the same name among the
integration tests asks a broker."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.cli import options as completion
from retentiond.state.groups import GroupMemory
from tests.support.builders.gather_worlds import healthy
from tests.support.builders.group_memories import cycle
from tests.unit.cli.conftest import CONFIG, Command, Done

Complete = Callable[..., Done]

NOBODY = "127.0.0.1:1"


@pytest.fixture
def complete(command: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[Complete]:
    """Runs what bash runs to complete the last of these words."""
    monkeypatch.setenv("_RETENTIOND_COMPLETE", "complete_bash")

    def run(*words: object) -> Done:
        monkeypatch.setenv("COMP_WORDS", " ".join(["retentiond", *map(str, words)]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return command()

    yield run
    logging.disable(logging.NOTSET)


def test_the_names_of_commands_are_completed(complete: Complete) -> None:
    assert complete("pa").out.split() == ["pause"]


def test_a_group_to_forget_is_one_that_is_remembered(complete: Complete, tmp_path: Path) -> None:
    kafka = healthy()
    with closing(GroupMemory.open(tmp_path)) as memory:
        cycle(memory, kafka)
        remembered = sorted({at.group_id for at in memory.recall().commits})
    config_file = tmp_path / "mine.yaml"
    config_file.write_text(f"state_dir: {tmp_path}\n{CONFIG}")
    done = complete("groups", "forget", "--config", config_file, remembered[0][0])
    assert done.out.split() == [name for name in remembered if name[0] == remembered[0][0]]


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "o"),
        ("groups", "forget", "b"),
        ("--config", "nowhere.yaml", "explain", "o"),
        ("explain", "--bootstrap-server", NOBODY, "o"),
        ("explain", "--bootstrap-server", "no:server:at:all", "o"),
        ("explain", "--bootstrap-server", NOBODY, "--command-config", "nowhere", "o"),
        ("delete-records", "--bootstrap-server", NOBODY, "--topic", "o"),
        ("delete-records", "--bootstrap-server", NOBODY, "--to-committed", "b"),
    ],
)
def test_what_cant_be_known_is_not_completed_and_nothing_is_said_of_it(
    complete: Complete, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "COMPLETION_S", 0.05)
    done = complete(*words)
    assert (done.code, done.out.strip(), done.err) == (0, "", "")


def test_a_cluster_that_does_not_answer_is_given_up(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "COMPLETION_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        assert complete("explain", "--bootstrap-server", server, "o").out.strip() == ""
        assert time.monotonic() - began < 1
