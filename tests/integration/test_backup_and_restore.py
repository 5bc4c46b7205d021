"""A ``state_dir`` that is moved, backed up and put back, by the words of docs/operations.md.

A topic has twenty records, and a fast group has read five when the backup is made. Then a late
group comes, reads eight, and vanishes; by the end the fast group has read all. What the late group
has yet to read is what a memory of before it came knows nothing about.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retentiond.state.operator_actions import read_pause, remove_pause
from tests.contract.real import RealDriver
from tests.faults.held import log_start
from tests.support.brokers.command import consumed, settings, write
from tests.support.brokers.cycles import Retentiond, arrange_deletion, told

pytestmark = pytest.mark.broker

OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")


class Place:
    """A retentiond with a folder of its own, and the topic's two groups."""

    def __init__(self, driver: RealDriver, topic: str, folder: Path) -> None:
        self.driver, self.topic, self.folder = driver, topic, folder
        self.state_dir = folder / "state"
        self.fast, self.late = f"fast-{topic}", f"late-{topic}"
        self.retentiond = Retentiond(driver.kafka, folder, topic)

    def elsewhere(self, name: str, **rules: object) -> Place:
        folder = self.folder.parent / name
        folder.mkdir(exist_ok=True)
        other = Place(self.driver, self.topic, folder)
        topic = consumed(self.topic, **rules)
        other.retentiond = Retentiond(self.driver.kafka, folder, topic)
        return other

    def commit(self, group: str, offset: int) -> None:
        self.driver.commit(group, {(self.topic, 0): offset})

    @property
    def reason(self) -> str:
        """Why nothing goes, in one more cycle."""
        return told(self.retentiond.cycle(), self.topic).reason

    @property
    def log_start(self) -> int:
        return log_start(self.driver.broker, self.topic)


@pytest.fixture
def place(driver: RealDriver, tmp_path: Path, topic_name: str) -> Place:
    (tmp_path / "here").mkdir()
    place = Place(driver, topic_name, tmp_path / "here")
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms] * 20)
    place.commit(place.fast, 5)
    arrange_deletion(place.retentiond, topic_name, 5)
    return place


def late_group_came_and_went(place: Place) -> None:
    place.commit(place.late, 8)
    place.commit(place.fast, 20)
    arrange_deletion(place.retentiond, place.topic, 8)
    place.driver.delete_group(place.late)
    assert place.reason == "group_vanished"


def documented(heading: str) -> str:
    """The commands that docs/operations.md gives below a heading."""
    section = OPERATIONS.split(f"\n### {heading}\n")[1].split("\n### ")[0].split("\n## ")[0]
    found = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def back_up(place: Place, to: Path) -> None:
    """As the page says, with these folders for its own."""
    config = place.folder / "retentiond.yaml"
    write(config, settings("localhost:9092", place.state_dir, topics=[consumed(place.topic)]))
    script = documented("Backup").replace("/backup/2026-11-23", str(to))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "RETENTIOND_CONFIG": str(config)},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_directory_that_was_moved_goes_on_where_it_was(place: Place) -> None:
    late_group_came_and_went(place)
    moved = place.elsewhere("there")
    place.state_dir.rename(moved.state_dir)
    before = moved.retentiond.audit

    assert moved.reason == "group_vanished"
    assert moved.retentiond.audit == before
    assert moved.log_start == 8


def test_a_backup_that_is_put_back_deletes_nothing_until_an_operator_has_looked(
    place: Place, tmp_path: Path
) -> None:
    back_up(place, tmp_path / "backup")
    late_group_came_and_went(place)

    restored = place.elsewhere("restored")
    shutil.copytree(tmp_path / "backup", restored.state_dir)
    for _ in range(2):
        assert restored.reason == "paused"  # it knows nothing of the late group
    assert "from the backup of" in str(read_pause(restored.state_dir))
    assert restored.log_start == 8

    named = place.elsewhere("restored", groups={"required": [place.late]})
    remove_pause(named.state_dir)
    for _ in range(2):
        assert named.reason == "required_group_missing"
    assert named.log_start == 8


def test_a_memory_that_is_not_put_back_is_missed(place: Place, tmp_path: Path) -> None:
    back_up(place, tmp_path / "backup")
    late_group_came_and_went(place)
    restored = place.elsewhere("restored")
    shutil.copytree(tmp_path / "backup", restored.state_dir)
    (restored.state_dir / "groups.db").unlink()
    remove_pause(restored.state_dir)

    assert restored.reason == "group_list_incomplete"
    assert restored.log_start == 8
