"""Where state is kept by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentiond.errors import ConfigError, UsageError
from retentiond.state_places import daemon_state_dir
from tests.unit.config.files import parsed


@pytest.fixture(autouse=True)
def users_states(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    states = tmp_path / "ada"
    monkeypatch.setenv("XDG_STATE_HOME", str(states))
    return states / "retentiond"


def may_write(monkeypatch: pytest.MonkeyPatch, *, may: bool) -> None:
    """To the folder above: the tests' user may be root, to whom nothing is closed."""
    monkeypatch.setattr("retentiond.state_places.os.access", lambda *_: may)


@pytest.mark.parametrize(
    ("may", "is_there", "is_the_systems"),
    [
        (True, False, True),
        (False, False, False),
        # Else a user's pause would be written where the daemon doesn't look.
        (False, True, True),
    ],
)
def test_who_may_not_make_the_systems_folder_has_one_of_their_own_unless_it_is_there(  # noqa: PLR0917
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    users_states: Path,
    may: bool,
    is_there: bool,
    is_the_systems: bool,
) -> None:
    may_write(monkeypatch, may=may)
    system = tmp_path / "retentiond"
    if is_there:
        system.mkdir()
    assert daemon_state_dir(system) == (system if is_the_systems else users_states)


def test_without_a_home_it_is_the_systems_folder_and_its_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    may_write(monkeypatch, may=False)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    assert daemon_state_dir(tmp_path / "retentiond") == tmp_path / "retentiond"


def remembers(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "groups.db").touch()


def test_where_a_daemon_has_its_memory_it_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, users_states: Path
) -> None:
    """A folder that appears would begin without the groups that have vanished."""
    may_write(monkeypatch, may=True)
    remembers(users_states)
    system = tmp_path / "retentiond"
    assert daemon_state_dir(system) == users_states
    system.mkdir()
    assert daemon_state_dir(system) == users_states


def test_of_two_memories_none_is_taken(tmp_path: Path, users_states: Path) -> None:
    remembers(users_states)
    remembers(tmp_path / "retentiond")
    with pytest.raises(UsageError, match="say with state_dir which one is meant"):
        daemon_state_dir(tmp_path / "retentiond")


def test_what_depends_on_the_user_is_no_place_for_a_daemon_that_deletes(
    monkeypatch: pytest.MonkeyPatch, users_states: Path
) -> None:
    remembers(users_states)
    text = "{kafka: {bootstrap.servers: a:1}, topics: [{name: a}], dry_run: %s}"
    assert parsed(text % "true").state_dir == users_states
    with pytest.raises(ConfigError, match="state_dir: expected a folder where dry_run is false"):
        parsed(text % "false")
    said = parsed((text % "false")[:-1] + ", state_dir: /somewhere}")
    assert said.state_dir == Path("/somewhere")
