"""Two clusters in one history: a question is answered for the one that is meant, or not at all."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.state import groups_file
from tests.support.builders.past_clusters import MINUTE_MS, PastCluster, PastEntry, partition_row
from tests.unit.cli.conftest import CONFIG, Command, KeptAnswer

COMMANDS = ("simulate", "recommend", "report")

SINCE = ("--since", "2026-03-01T00:00:00Z")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """East has written last."""
    for cluster, begin_ms, topic in (("west", 0, "orders"), ("east", MINUTE_MS, "clicks")):
        rows = [partition_row(topic, high_watermark=5)]
        entries = [PastEntry(begin_ms + number * 5 * MINUTE_MS, rows=rows) for number in range(3)]
        PastCluster(entries, cluster).write(tmp_path / "history")
    path = tmp_path / "retentiond.yaml"
    text = CONFIG.replace("- name: orders", "- pattern: '.*'")
    places = f"state_dir: {tmp_path / 'state'}\nhistory: {{path: {tmp_path / 'history'}}}\n"
    path.write_text(f"{places}spark: {{master: 'local[1]'}}\n{text}")
    return path


def state_is_about(cluster_id: str, config: Path) -> None:
    folder = config.parent / "state"
    folder.mkdir()
    with closing(groups_file.open_for_writing(folder / groups_file.NAME)) as connection:
        groups_file.write_cluster(connection, cluster_id)


@pytest.mark.parametrize("name", COMMANDS)
def test_where_nothing_says_which_cluster_is_meant_it_lists_them_and_does_not_guess(
    command: Command, config: Path, name: str
) -> None:
    done = command(name, "--config", config, *SINCE)
    assert (done.code, done.out) == (2, "")
    assert "is that of 2 clusters" in done.err
    assert done.err.endswith("give --cluster with one of east, west\n")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("of_state", "option", "meant"),
    [
        ("north", (), "north (that of state_dir "),
        ("west", ("--cluster", "south"), "south (that of --cluster)"),  # it beats the state
    ],
)
def test_a_cluster_that_the_history_does_not_know_is_refused(
    command: Command, config: Path, of_state: str, option: tuple[str, ...], meant: str
) -> None:
    """By all commands in one place."""
    state_is_about(of_state, config)
    done = command("simulate", "--config", config, *SINCE, *option)
    assert (done.code, done.out) == (2, "")
    assert f"has no entry of cluster {meant}" in done.err
    assert "only of east, west" in done.err


@pytest.mark.spark
def test_the_cluster_of_the_state_is_answered_for_though_another_wrote_last(
    command: Command, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retentiond.cli.past.simulate.answered", KeptAnswer())
    state_is_about("west", config)
    done = command("simulate", "--config", config, *SINCE, "--output", "json")
    document = json.loads(done.out)
    assert (done.code, document["cluster_id"]) == (0, "west")
    assert [each["topic"] for each in document["topics"]] == ["orders"]
    assert "the answer is about cluster west; entries of east are left out" in done.err
    table = command("simulate", "--config", config, *SINCE)
    assert "Cluster west: 3 entries from " in table.out
