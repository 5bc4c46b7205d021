"""``retentiond groups``: what is remembered is shown, and let go of only by somebody's word."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.errors import KafkaUnavailable
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.model import GroupKind
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_file import NAME
from retentiond.state.groups_lookup import recall
from retentiond.state.operator_actions import actions_in
from tests.support.builders.gather_worlds import healthy
from tests.support.builders.group_memories import BILLING, add_readers, cycle
from tests.support.fakes import FakeCluster
from tests.unit.cli.conftest import CONFIG, Command, Transcript, on_screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """The cluster of the configuration. Of its groups, stranger reads no enabled topic."""
    cluster = healthy()
    monkeypatch.setattr("retentiond.kafka.cluster.KafkaCluster", lambda *_: cluster)
    return cluster


@pytest.fixture
def state_dir(tmp_path: Path, kafka: FakeCluster) -> Path:
    """Remembers four groups of which billing has vanished."""
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    with closing(GroupMemory.open(state_dir)) as memory:
        cycle(memory, kafka)
        kafka.delete_group("billing")
        cycle(memory, kafka)
    return state_dir


@pytest.fixture
def config_file(tmp_path: Path, state_dir: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(f"state_dir: {state_dir}\n{CONFIG}")
    return path


@pytest.fixture
def damaged(state_dir: Path) -> Path:
    """The memory's file, which is none any more."""
    path = state_dir / NAME
    path.write_text("no database at all")
    return path


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No terminal to ask on."""
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))


def test_every_group_is_shown_with_what_it_reads_and_when_it_vanished(
    transcript: Transcript,
    config_file: Path,
    kafka: FakeCluster,
    state_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tests/golden/groups: "late" is one that no cycle has seen yet."""
    monkeypatch.setenv("COLUMNS", "100")
    kafka.commit("late", {("orders", 0): 1})
    kafka.join("late", ["clicks"])
    transcript("groups", "--config", config_file)
    transcript("groups", "--output", "json", "--config", config_file)
    transcript("groups", "forget", "bilding", "--yes", "--config", config_file)
    transcript("groups", "accept", "--config", config_file)
    assert not (state_dir / "audit.db").exists()
    transcript("groups", "forget", "search", "--topic", "clicks", "--config", config_file)
    transcript("groups", "forget", "billing", "--config", config_file)
    transcript.check("groups/groups.txt")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--vanished"], ["billing"]),
        (["--topic", "click.*"], ["newcomer", "pipeline", "search"]),
        (["--topic", "click"], []),
        (
            ["--topic", "clicks", "--topic", "secrets"],
            ["newcomer", "pipeline", "search", "stranger"],
        ),
        (["--vanished", "--topic", "orders"], ["billing"]),
        (["--vanished", "--topic", "clicks"], []),
    ],
)
def test_only_the_groups_that_are_asked_for_are_shown(
    command: Command, config_file: Path, options: list[str], shown: list[str]
) -> None:
    as_json = command("groups", *options, "--output", "json", "--config", config_file)
    assert [document["group"] for document in json.loads(as_json.out)] == shown
    table = command("groups", *options, "--config", config_file).out
    assert [name for name in ("billing", "search", "stranger") if name in table] == [
        name for name in ("billing", "search", "stranger") if name in shown
    ]


def test_of_many_groups_a_terminal_shows_the_vanished_ones_first_and_a_pipe_all(
    command: Command, config_file: Path, kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(600):
        kafka.commit(f"a{number:03}", {("orders", 0): 1})
    piped = command("groups", "--config", config_file).out
    assert all(name in piped for name in ("billing", "a000", "a599"))
    on_screen(monkeypatch)
    text = command("groups", "--config", config_file).out
    assert text.splitlines()[1].startswith("billing ")
    assert "585 more groups. See all of them with | less" in text
    assert "605 groups, 1 vanished, 601 not remembered" in text
    assert len(text.splitlines()) < 30


@pytest.mark.parametrize("option", [["--topic", "clicks"], ["--vanished"], ["--fresh"]])
def test_an_option_of_the_listing_before_forget_is_refused_and_nothing_is_forgotten(
    command: Command, config_file: Path, state_dir: Path, option: list[str]
) -> None:
    """Else ``groups --topic clicks forget search`` would forget it on all topics."""
    before = recall(state_dir).commits
    done = command("groups", *option, "forget", "search", "--yes", "--config", config_file)
    assert done.code == 2
    assert "before forget are only about what is shown" in done.err
    assert recall(state_dir).commits == before


def test_what_is_shown_where_the_cluster_does_not_tell_its_groups(  # noqa: PLR0917
    transcript: Transcript,
    command: Command,
    config_file: Path,
    kafka: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """tests/golden/groups: only the remembered ones; it ends with 1 where a login is wrong. Then a
    cluster without a memory, and one that is not the memory's."""
    kafka.script.fail_next("cluster_id", KafkaUnavailable("nobody answers"))
    of_memory = transcript("groups", "--config", config_file)
    for method, wrong in (("list_groups", None), ("cluster_id", "login refused")):
        kafka.script.fail_next(method, KafkaUnavailable("nobody answers", kind=wrong))
        done = command("groups", "--config", config_file)
        assert done == replace(of_memory, code=1 if wrong else 0)
    other = healthy()
    other.id = "another"
    monkeypatch.setattr("retentiond.kafka.cluster.KafkaCluster", lambda *_: other)
    done = command("groups", "--output", "json", "--config", config_file)
    assert all(each["remembered"] for each in json.loads(done.out))
    transcript.text += done.err
    config_file.write_text(f"state_dir: {tmp_path / 'nowhere'}\n{CONFIG}")
    transcript("groups", "--config", config_file)
    assert not (tmp_path / "nowhere").exists()
    transcript.check("groups/without-cluster.txt")


@pytest.mark.parametrize("yes", [["--yes"], []])
def test_a_group_that_is_named_is_forgotten_and_the_audit_log_says_by_whom(
    command: Command,
    config_file: Path,
    state_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    yes: list[str],
) -> None:
    """Without a terminal, with a yes and without one."""
    monkeypatch.setenv("LOGNAME", "ada")
    done = command("groups", "forget", "billing", *yes, "--config", config_file)
    assert (done.code, done.err) == (0, "")
    assert "Group billing is forgotten." in done.out
    assert BILLING not in recall(state_dir).commits
    (action,) = actions_in(state_dir)
    assert (action.operator, action.action, action.subject) == ("ada", "forget", "billing")
    assert action.detail == "on orders"


def test_a_group_is_forgotten_on_one_topic_and_remembered_on_others(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    arguments = ("groups", "forget", "search", "--topic", "clicks", "--yes", "-c", config_file)
    done = command(*arguments)
    assert (done.code, done.err) == (0, "")
    assert "Group search is forgotten on topic clicks." in done.out
    assert {at.topic for at in recall(state_dir).commits if at.group_id == "search"} == {"orders"}
    (action,) = actions_in(state_dir)
    assert (action.subject, action.detail) == ("search", "on clicks")
    again = command(*arguments)
    assert again.code == 2
    assert "no group search is remembered on topic clicks" in again.err


@pytest.mark.parametrize("answer", ["y\n", "n\n", "\n", ""])
def test_on_a_terminal_it_asks_and_only_a_yes_forgets(
    command: Command, config_file: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    done = command("groups", "forget", "billing", "--config", config_file)
    is_yes = answer == "y\n"
    assert done.code == (0 if is_yes else 1)
    assert "Forget group billing, on 1 topic (orders)?" in done.err
    assert (BILLING in recall(config_file.parent / "state").commits) is not is_yes


def test_a_group_is_not_forgotten_when_that_can_not_be_recorded(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    (state_dir / "audit.db").write_text("no audit log")
    done = command("groups", "forget", "billing", "--yes", "--config", config_file)
    assert done.code == 2
    assert "audit" in done.err
    assert BILLING in recall(state_dir).commits


def test_a_group_is_forgotten_while_a_daemon_has_the_file_open(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    with closing(GroupMemory.open(state_dir)) as daemon:
        assert BILLING in daemon.recall().commits
        assert command("groups", "forget", "billing", "--yes", "-c", config_file).code == 0
        assert set(daemon.recall().commits) == {
            GroupOnTopic("newcomer", "clicks"),
            GroupOnTopic("pipeline", "clicks"),
            GroupOnTopic("search", "clicks"),
            GroupOnTopic("search", "orders"),
        }


def test_a_group_is_not_forgotten_while_the_file_is_locked(
    command: Command, config_file: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **kwargs: connect(*args, **kwargs | {"timeout": 0.01})
    )
    with closing(connect(state_dir / NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = command("groups", "forget", "billing", "--yes", "--config", config_file)
    assert done.code == 2
    assert "database is locked" in done.err
    assert BILLING in recall(state_dir).commits


# Losses


def test_a_damaged_file_is_said_and_neither_moved_nor_mended(
    command: Command, config_file: Path, damaged: Path
) -> None:
    before = damaged.read_bytes()
    shown = command("groups", "--config", config_file)
    assert shown.code == 0
    assert "Nothing is deleted: the remembered groups in" in " ".join(shown.out.split())
    shown = command("groups", "--output", "json", "--config", config_file)
    assert shown.code == 0
    assert "warning: vanished groups may be missing: the remembered groups in" in shown.err
    assert not any(each["vanished_since"] for each in json.loads(shown.out))
    for arguments in (["forget", "billing"], ["accept"]):
        done = command("groups", *arguments, "--yes", "--config", config_file)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("retentiond: ")
        assert "file is not a database" in done.err
        assert done.err.count("\n") == 1
    assert damaged.read_bytes() == before
    assert not list(damaged.parent.glob("*.damaged-*"))


def test_a_loss_is_accepted_and_recorded(
    command: Command, config_file: Path, damaged: Path
) -> None:
    state_dir = damaged.parent
    GroupMemory.open(state_dir).close()  # a daemon starts, and keeps the file aside
    lost = recall(state_dir).lost
    refused = command("groups", "accept", "--config", config_file)
    assert refused.code == 2
    assert recall(state_dir).lost == lost

    done = command("groups", "accept", "--yes", "--config", config_file)
    assert (done.code, done.err) == (0, "")
    assert recall(state_dir).lost is None
    (action,) = actions_in(state_dir)
    assert (action.action, action.subject, action.detail) == ("accept", None, lost)


def test_of_a_group_and_an_external_reader_of_one_name_the_operator_says_which(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    """By --kind, or as a remedy calls the one that has vanished."""
    lake = GroupOnTopic("billing", "orders", is_external=True)
    add_readers(state_dir, {lake: RememberedReader(GroupKind.EXTERNAL, {0: 1})})
    done = command("groups", "forget", "billing", "--yes", "-c", config_file)
    assert done.code == 2
    assert "say which one with --kind group or --kind external" in done.err
    assert {BILLING, lake} <= set(recall(state_dir).commits)

    done = command("groups", "forget", "billing (external)", "--yes", "-c", config_file)
    assert (done.code, done.err) == (0, "")
    assert "External reader billing is forgotten." in done.out
    assert BILLING in recall(state_dir).commits
    assert lake not in recall(state_dir).commits
    (action,) = actions_in(state_dir)
    assert (action.subject, action.detail) == ("billing", "external reader, on orders")

    again = command("groups", "forget", "billing", "--kind", "external", "--yes", "-c", config_file)
    assert again.code == 2
    assert "no external reader billing is remembered" in again.err
    done = command("groups", "forget", "billing", "--kind", "group", "--yes", "-c", config_file)
    assert done.code == 0
    assert BILLING not in recall(state_dir).commits


def test_a_group_that_a_policy_requires_is_taken_out_there_first(
    command: Command, config_file: Path, state_dir: Path
) -> None:
    """Else it is said to be forgotten, and its topics stay held."""
    required = "{required: [billing]}"
    config_file.write_text(f"policies: policies.d/*.yaml\n{config_file.read_text()}")
    team = config_file.parent / "policies.d" / "payments.yaml"
    team.parent.mkdir()
    team.write_text(
        "owner: payments\ntopics:\n  - pattern: 'cl.*'\n    groups: " + required + "\n"
        "    retention.commitoffset.enable: true\n"
    )
    first = "policies.d/payments.yaml requires it on clicks: take it out there first"
    add_readers(
        state_dir, {GroupOnTopic("billing", "clicks"): RememberedReader(GroupKind.CLASSIC, {0: 1})}
    )
    done = command("groups", "forget", "billing", "-c", config_file)
    assert (done.code, done.out) == (2, "")
    assert first in done.err
    assert any(at.group_id == "billing" for at in recall(state_dir).commits)

    done = command("groups", "forget", "billing", "--topic", "orders", "-c", config_file)
    assert done.code == 0  # nobody requires it there
    assert {at.topic for at in recall(state_dir).commits if at.group_id == "billing"} == {"clicks"}

    team.write_text(team.read_text().replace(required, "{}"))
    assert command("groups", "forget", "billing", "-c", config_file).code == 0
