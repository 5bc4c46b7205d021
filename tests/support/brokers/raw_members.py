"""Members of classic groups that say what no client here would say, byte by byte."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from devkit.embedded import EmbeddedKafka

JOIN_GROUP, SYNC_GROUP = 11, 14

SESSION_MS = 60_000


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def sized(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def short_subscription(version: int, *topics: str) -> bytes:
    """As kafka-go and sarama-cluster write it: whatever the version, topics and user data."""
    names = b"".join(map(text, topics))
    return struct.pack(">hi", version, len(topics)) + names + sized(b"")


@contextmanager
def member(broker: EmbeddedKafka, group: str, metadata: bytes, assignment: bytes) -> Iterator[None]:
    """The group's only member. The group is stable when it begins. The broker must be the only
    one, and have ``__consumer_offsets``."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        protocols = struct.pack(">i", 1) + text("range") + sized(metadata)
        joined = _asked(
            connection,
            JOIN_GROUP,
            2,
            text(group) + struct.pack(">ii", SESSION_MS, SESSION_MS)
            + text("") + text("consumer") + protocols,
        )  # fmt: skip
        _throttle, error, generation = struct.unpack_from(">ihi", joined)
        assert error == 0, error
        at = struct.calcsize(">ihi")
        words = []
        for _ in ("protocol", "leader", "member"):
            (size,) = struct.unpack_from(">h", joined, at)
            words.append(joined[at + 2 : at + 2 + size].decode())
            at += 2 + size
        _protocol, leader, me = words
        assert leader == me
        synced = _asked(
            connection,
            SYNC_GROUP,
            1,
            text(group) + struct.pack(">i", generation) + text(me)
            + struct.pack(">i", 1) + text(me) + sized(assignment),
        )  # fmt: skip
        assert struct.unpack_from(">ih", synced)[1] == 0
        yield


def _asked(connection: socket.socket, api: int, version: int, body: bytes) -> bytes:
    """The response, behind its header."""
    connection.sendall(sized(struct.pack(">hhi", api, version, 1) + text("raw") + body))
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)[4:]
