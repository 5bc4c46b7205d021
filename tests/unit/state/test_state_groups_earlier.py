"""A ``groups.db`` of the version before is read once and rewritten."""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from retentiond.errors import StateError
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.memory.remembered import KnownTopic
from retentiond.model import GroupKind
from retentiond.state.groups import GroupMemory
from retentiond.state.groups_file import NAME
from retentiond.state.groups_lookup import readers_of, recall, topics_read_by
from retentiond.state.state_dir import created

SCHEMA = """
CREATE TABLE topics (topic TEXT NOT NULL PRIMARY KEY, topic_id TEXT NOT NULL, groups TEXT NOT NULL,
    agreed INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE commits (group_id TEXT NOT NULL, topic TEXT NOT NULL,
    is_external INTEGER NOT NULL DEFAULT 0, kind TEXT NOT NULL, offsets BLOB NOT NULL,
    absent_since_ms INTEGER, moved_at_ms BLOB NOT NULL, absent_ms INTEGER NOT NULL DEFAULT 0,
    seen_at_ms INTEGER, stale TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (group_id, topic, is_external)) STRICT, WITHOUT ROWID;
CREATE TABLE losses (sentence TEXT NOT NULL) STRICT;
CREATE TABLE cluster (cluster_id TEXT NOT NULL) STRICT;
CREATE TABLE observed (boot_id TEXT NOT NULL, ms INTEGER NOT NULL) STRICT;
CREATE TABLE gone (topic TEXT NOT NULL PRIMARY KEY, ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""

FAR = 2**53 + 1

READERS = {
    GroupOnTopic("billing", "orders"): RememberedReader(
        GroupKind.CLASSIC, {0: 3, 2: FAR, 70_000: 300}, None, {0: 7, 2: 7, 70_000: 7},
        stale=frozenset({2}),
    ),
    GroupOnTopic("billing", "orders", is_external=True): RememberedReader(
        GroupKind.EXTERNAL, {0: 1, 1: 256}, 5, {1: 9}, absent_ms=77, seen_at_ms=4
    ),
    GroupOnTopic("search", "clicks"): RememberedReader(GroupKind.SHARE, {}, seen_at_ms=2),
}  # fmt: skip


def framed(numbers: list[int]) -> bytes:
    """As small as they could be written."""
    least = min(numbers)
    above = [each - least for each in numbers]
    width = next(width for width in (0, 1, 2, 4, 8) if max(above) < 1 << 8 * width)
    return struct.pack("<qB", least, width) + b"".join(
        each.to_bytes(width, "little") for each in above
    )


def packed(by_partition: Mapping[int, int]) -> bytes:
    partitions = sorted(by_partition)
    body = struct.pack("<I", len(partitions))
    if partitions:
        steps = [at - before for at, before in zip(partitions, [-1, *partitions], strict=False)]
        body += framed(steps) + framed([by_partition[at] for at in partitions])
    return body + struct.pack("<I", zlib.crc32(body))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    with created(path, SCHEMA, 6) as connection:
        for at, last in READERS.items():
            connection.execute(
                "INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*at, last.kind.value, packed(last.offsets), last.absent_since_ms,
                 packed(last.moved_at_ms), last.absent_ms, last.seen_at_ms,
                 str(sorted(last.stale))),
            )  # fmt: skip
        connection.execute("""INSERT INTO topics VALUES ('orders', 'its-id', '["billing"]', 2)""")
        connection.execute("INSERT INTO gone VALUES ('old', 8)")
        connection.execute("INSERT INTO cluster VALUES ('cluster-a')")
        connection.execute("INSERT INTO losses VALUES ('some were lost')")
    return path


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        ((found,),) = connection.execute("PRAGMA user_version").fetchall()
        return int(found)


def test_all_of_it_is_rewritten_and_read_as_before(path: Path) -> None:
    for _ in range(2):
        with closing(GroupMemory.open(path.parent)) as memory:
            remembered = memory.recall()
        assert remembered.commits == READERS
        assert remembered.topics == {"orders": KnownTopic("its-id", ("billing",), 2)}
        assert dict(remembered.gone_ms) == {"old": 8}
        assert (remembered.cluster_id, remembered.lost) == ("cluster-a", "some were lost")
        assert version(path) == 7
    assert not [*path.parent.glob("*.damaged*")]


def test_what_only_looks_at_it_reads_it_and_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    assert recall(path.parent).commits == READERS
    assert {*(readers_of(path.parent, "orders") or {})} == {"billing", "billing (external)"}
    assert [*(topics_read_by(path.parent, "search") or {})] == ["clicks"]
    with pytest.raises(StateError, match=r"by an earlier retentiond; start retentiond of this"):
        GroupMemory.open(path.parent, shared=True)
    assert path.read_bytes() == before


def test_a_damaged_one_is_kept_aside_as_it_was(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE commits SET offsets = CAST(x'00' || offsets AS BLOB)")
    with closing(GroupMemory.open(path.parent)) as memory:
        assert "were damaged" in str(memory.recall().lost)
    (aside,) = (each for each in path.parent.glob("*.damaged-*") if each.name.endswith("Z"))
    assert version(aside) == 6


def test_a_disk_that_fills_up_meanwhile_leaves_it_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("retentiond.state.groups_file.write_readers", refuse)
        with pytest.raises(StateError, match="disk is full"):
            GroupMemory.open(path.parent)
    assert version(path) == 6
    assert recall(path.parent).commits == READERS
