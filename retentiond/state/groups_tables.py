"""The tables of ``groups.db``, both ways: a topic's readers are one blob with a checksum."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from retentiond.clock import Uptime
from retentiond.memory.readers import NOBODY, READERS, Readers
from retentiond.memory.remembered import KnownTopic, Remembered

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")

_KEEP = """
INSERT INTO readers (topic, crc, rows) VALUES (?, ?, ?)
ON CONFLICT (topic) DO UPDATE SET crc = excluded.crc, rows = excluded.rows
"""


def read_all(connection: sqlite3.Connection) -> Remembered:
    """Raises `sqlite3.Error`, and `ValueError` or `TypeError` for what retentiond has not written;
    so does every function here that reads."""
    return read_others(connection, read_readers(connection))


def read_readers(connection: sqlite3.Connection) -> Readers:
    return _joined(_stored(connection))


def read_reader(connection: sqlite3.Connection, group_id: str) -> Readers:
    """The rows of that name alone. It never holds more than one topic's beside them."""
    return _joined(readers.where(readers.are(group_id)) for readers in _stored(connection))


def read_topic(connection: sqlite3.Connection, topic: str) -> Readers:
    return _joined(_stored(connection, topic))


def _stored(connection: sqlite3.Connection, topic: str | None = None) -> Iterator[Readers]:
    """The readers of every topic in turn, or of this one."""
    where, values = ("", ()) if topic is None else ("WHERE topic = ?", (topic,))
    query = f"SELECT topic, crc, rows FROM readers {where} ORDER BY topic"
    for row in connection.execute(query, values):
        yield Readers(_unpacked(*row))


def _joined(parts: Iterable[Readers]) -> Readers:
    tables = [part.table for part in parts]
    return Readers(pa.concat_tables(tables).combine_chunks()) if tables else NOBODY


def read_others(connection: sqlite3.Connection, readers: Readers) -> Remembered:
    """What the file has besides the ``readers``."""
    losses = [sentence for (sentence,) in connection.execute("SELECT sentence FROM losses")]
    topics = connection.execute("SELECT topic, topic_id, groups, agreed FROM topics")
    return Remembered(
        topics={
            name: KnownTopic(topic_id, tuple(json.loads(groups)), agreed)
            for name, topic_id, groups, agreed in topics
        },
        readers=readers,
        lost="; ".join(losses) or None,
        cluster_id=read_cluster_id(connection),
        gone_ms=dict(connection.execute("SELECT topic, ms FROM gone")),
    )


def write_readers(connection: sqlite3.Connection, before: Readers, after: Readers) -> None:
    """Writes the topics whose readers differ from those ``before``, which the file has."""

    def changed() -> Iterator[tuple[str, int, bytes]]:
        for topic in after.topics:
            now = after.about([topic])
            if now != before.about([topic]):
                yield (topic, *_packed(topic, now))

    connection.executemany(_KEEP, changed())
    gone = [(topic,) for topic in before.topics - after.topics]
    connection.executemany("DELETE FROM readers WHERE topic = ?", gone)


def _packed(topic: str, readers: Readers) -> tuple[int, bytes]:
    """The checksum and the rows. The topic is part of the checksum: rows of another are damage."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, READERS, options=_COMPRESSED) as writer:
        writer.write_table(readers.table)
    rows = sink.getvalue().to_pybytes()
    return _checksum(topic, rows), rows


def _unpacked(topic: str, crc: int, rows: bytes) -> pa.Table:
    """Raises `ValueError` for what is not of `_packed`."""
    if crc != _checksum(topic, rows):
        raise ValueError(f"the readers of {topic} have another checksum")
    table = pa.ipc.open_stream(rows).read_all()
    if table.schema != READERS:
        raise ValueError(f"the readers of {topic} have other columns")
    return table


def _checksum(topic: str, rows: bytes) -> int:
    return zlib.crc32(rows, zlib.crc32(topic.encode()))


def read_cluster_id(connection: sqlite3.Connection) -> str | None:
    for (cluster_id,) in connection.execute("SELECT cluster_id FROM cluster"):
        return str(cluster_id)
    return None


def read_observed(connection: sqlite3.Connection) -> Uptime | None:
    """When the last complete reading was that counted an absence; None if it is not known."""
    for boot_id, ms in connection.execute("SELECT boot_id, ms FROM observed"):
        return Uptime(boot_id, ms)
    return None
