"""Where state is kept by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.state_places import daemon_state_dir


@pytest.fixture(autouse=True)
def users_states(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    states = tmp_path / "ada"
    monkeypatch.setenv("XDG_STATE_HOME", str(states))
    return states / "retentiond"


def may_write(monkeypatch: pytest.MonkeyPatch, *, may: bool) -> None:
    """To the folder above: the tests' user may be root, to whom nothing is closed."""
    monkeypatch.setattr("retentiond.state_places.os.access", lambda *_: may)


def test_who_may_make_the_systems_folder_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    may_write(monkeypatch, may=True)
    assert daemon_state_dir(tmp_path / "retentiond") == tmp_path / "retentiond"


def test_who_may_not_make_it_has_a_folder_of_their_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, users_states: Path
) -> None:
    may_write(monkeypatch, may=False)
    assert daemon_state_dir(tmp_path / "retentiond") == users_states


def test_the_systems_folder_is_everybodys_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Else a user's pause would be written where the daemon doesn't look."""
    may_write(monkeypatch, may=False)
    system = tmp_path / "retentiond"
    system.mkdir()
    assert daemon_state_dir(system) == system


def test_without_a_home_it_is_the_systems_folder_and_its_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    may_write(monkeypatch, may=False)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    assert daemon_state_dir(tmp_path / "retentiond") == tmp_path / "retentiond"
