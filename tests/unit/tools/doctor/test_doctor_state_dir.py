"""The state directory, on the very host that the tests run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from retentiond.memory.remembered import Remembered
from retentiond.state.pause import Pause, write_pause
from retentiond.state.state_dir import StateLock
from retentiond.tools.doctor.finding import Level
from retentiond.tools.doctor.state_dir import check_remembered, check_state_dir, read_state_dir
from tests.support.builders.examined_clusters import bad


def test_a_state_directory_that_is_not_there_is_ok_and_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "not/there"
    assert (Level.PROBLEM, "state_dir") not in bad(check_state_dir(read_state_dir(path)))
    assert list(tmp_path.iterdir()) == []


def test_a_state_directory_of_ones_own_is_ok(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    found = read_state_dir(tmp_path)
    assert (found.is_writable, found.exists, found.holder) == (True, True, None)
    assert [each for each in bad(check_state_dir(found)) if each[1] == "state_dir"] == []


def test_a_file_in_its_place_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/below"):
        found = read_state_dir(path)
        assert (Level.PROBLEM, "state_dir") in bad(check_state_dir(found))


def test_a_lock_that_a_daemon_holds_is_ok_and_its_holder_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with StateLock(tmp_path):
        found = read_state_dir(tmp_path)
    said = [each.sentence for each in check_state_dir(found) if each.subject == "state_dir"]
    assert len(said) == 1
    assert "in use by retentiond with pid" in said[0]


def test_a_name_that_a_killed_daemon_left_in_its_lock_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4711 elsewhere\n")
    assert read_state_dir(tmp_path).holder is None
    with StateLock(tmp_path):
        pass  # nor has it been locked by looking


def test_what_is_wrong_with_a_state_directory_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    sound = replace(read_state_dir(tmp_path), free_bytes=10 << 30)
    assert bad(check_state_dir(sound)) == []
    for wrong, expected in (
        (replace(sound, is_writable=False), (Level.PROBLEM, "state_dir")),
        (replace(sound, owner=sound.user + 1), (Level.WARNING, "state_dir")),
        (replace(sound, mode=0o777), (Level.WARNING, "state_dir")),
        (replace(sound, free_bytes=500 << 20), (Level.WARNING, "disk")),
        (replace(sound, free_bytes=1 << 20), (Level.PROBLEM, "disk")),
    ):
        assert bad(check_state_dir(wrong)) == [expected]


def test_a_pause_is_a_warning(tmp_path: Path) -> None:
    write_pause(tmp_path, Pause("moving disks"))
    found = [e for e in check_state_dir(read_state_dir(tmp_path)) if e.subject == "pause"]
    assert [(each.level, each.remedy) for each in found] == [(Level.WARNING, "retentiond resume")]


def test_the_state_of_another_cluster_is_a_problem(tmp_path: Path) -> None:
    (finding,) = check_remembered(Remembered(cluster_id="a"), "b", tmp_path)
    assert finding.level is Level.PROBLEM
    assert "belongs to cluster a, and this is cluster b" in str(finding)
    for mine in (None, "b"):
        assert not [*check_remembered(Remembered(cluster_id=mine), "b", tmp_path)]


def test_remembered_groups_that_are_lost_are_a_problem(tmp_path: Path) -> None:
    (finding,) = check_remembered(Remembered(lost="a file is missing"), "b", tmp_path)
    assert (finding.level, finding.sentence) == (
        Level.PROBLEM,
        "nothing is deleted: a file is missing",
    )
