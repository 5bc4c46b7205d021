"""Topics and groups of a real broker, completed as a shell asks for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from devkit.embedded import EmbeddedKafka
from retentiond.cli import options as completion
from retentiond.cli.main import main
from tests.contract.real import RealDriver
from tests.support.brokers.command import settings, write

pytestmark = pytest.mark.broker

Complete = Callable[..., list[str]]


@pytest.fixture
def complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Complete]:
    """What bash would offer for the last of these words; a busy machine has all the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(completion, "COMPLETION_S", 30)
    monkeypatch.setenv("_RETENTIOND_COMPLETE", "complete_bash")
    monkeypatch.setattr("sys.argv", ["retentiond"])

    def run(*words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", " ".join(["retentiond", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            main()
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.split()

    yield run
    logging.disable(logging.NOTSET)


def test_topics_and_groups_are_completed(
    kafka: EmbeddedKafka, topic_name: str, tmp_path: Path, complete: Complete
) -> None:
    group = f"group-of-{topic_name}"
    with closing(RealDriver(kafka, kafka.bootstrap_servers)) as driver:
        driver.create_topic(topic_name)
        driver.commit(group, {(topic_name, 0): 0})
    write(tmp_path / "retentiond.yaml", settings(kafka.bootstrap_servers, tmp_path / "state"))
    server = ("--bootstrap-server", kafka.bootstrap_servers)
    for words in (
        ("explain",),
        ("explain", *server),
        ("plan", *server, "--topic"),
        ("delete-records", *server, "--topic"),
    ):
        assert complete(*words, topic_name[:-2]) == [topic_name]
    to_committed = ("delete-records", *server, "--to-committed")
    assert complete(*to_committed, group[:-2]) == [group]
    assert complete(*to_committed, "other", group[:-2]) == [group]
    assert "__consumer_offsets" not in complete("explain", "")
    assert "__consumer_offsets" in complete("explain", "__c")
