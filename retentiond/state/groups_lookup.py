"""What other processes than the daemon look up in ``groups.db``. They change nothing on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from retentiond.errors import StateError
from retentiond.memory.readers import Readers, RememberedReader
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.snapshot import namesake_id
from retentiond.state import groups_file
from retentiond.state.groups_tables import read_all, read_reader, read_topic
from retentiond.state.state_dir import connect, is_there, say_denied


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Raises `StateError` if the memory is of another version. None if there is no file."""
    if not is_there(path):
        yield None
        return
    with closing(connect(path, read_only=True)) as connection:
        groups_file.check_version(connection, path)
        yield connection


def recall(state_dir: Path) -> Remembered:
    """A file that can't be read is a loss."""
    path = state_dir / groups_file.NAME
    try:
        with _opened(path) as connection:
            if connection is not None:
                return groups_file.with_cluster(read_all(connection), path)
        lost = groups_file.loss_of_missing(path)
        return groups_file.with_cluster(Remembered(lost=lost), path) if lost else NOTHING
    except (OSError, sqlite3.Error, ValueError, KeyError, TypeError) as error:
        why = say_denied(path) or error
        return Remembered(lost=f"the remembered groups in {path} can't be read ({why})")


def recall_topic(state_dir: Path, topic: str) -> Remembered:
    """The readers of one topic; none if they can't be read."""
    readers = _look_up(state_dir, lambda connection: read_topic(connection, topic))
    return NOTHING if readers is None else Remembered(readers=readers)


def check_version_in(state_dir: Path) -> None:
    """Raises `StateError` if the memory is of another version. A damaged one is a loss: `recall`
    tells it."""
    with suppress(OSError, sqlite3.Error), _opened(state_dir / groups_file.NAME):
        pass


def cluster_of(state_dir: Path) -> str | None:
    """The id of the cluster of this state; None if it is not known. It is fast however many groups
    are remembered."""
    path = state_dir / groups_file.NAME
    with suppress(OSError, sqlite3.Error, StateError), _opened(path) as connection:
        if connection is not None:
            return groups_file.cluster_of(connection, path)
    return groups_file.with_cluster(NOTHING, path).cluster_id


def readers_of(state_dir: Path, topic: str) -> dict[str, RememberedReader] | None:
    """The readers of a topic with their last commits, by name. If a group and an external reader
    have the same name, the vanished one goes by `namesake_id`. None if they can't be read."""
    readers = _look_up(state_dir, lambda connection: read_topic(connection, topic))
    if readers is None:
        return None
    by_name: dict[str, RememberedReader] = {}
    by_reader = readers.by_name().items()
    for at, last in sorted(by_reader, key=lambda item: item[1].absent_since_ms is not None):
        is_second = at.group_id in by_name
        second_name = namesake_id(at.group_id, is_external=at.is_external)
        by_name[second_name if is_second else at.group_id] = last
    return by_name


def topics_read_by(state_dir: Path, group_id: str) -> dict[str, RememberedReader] | None:
    """A reader's last commits, by topic. If a group and an external reader have the name, the one
    that is not absent counts. None if they can't be read."""
    readers = _look_up(state_dir, lambda connection: read_reader(connection, group_id))
    if readers is None:
        return None
    in_turn = sorted(readers.by_name().items(), key=lambda item: item[1].absent_since_ms is None)
    return {at.topic: last for at, last in in_turn}


def _look_up(state_dir: Path, look_up: Callable[[sqlite3.Connection], Readers]) -> Readers | None:
    try:
        with _opened(state_dir / groups_file.NAME) as connection:
            return None if connection is None else look_up(connection)
    except (OSError, StateError, sqlite3.Error, ValueError, TypeError):
        return None
