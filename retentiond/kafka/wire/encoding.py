"""What messages are made of that are written and read by hand: Kafka's flexible encoding (KIP-482).

And two whole requests, of 14 and 18 bytes, for `retentiond.kafka.errors.connection_check`: it asks
a broker that no client could connect to, so no client can send them. They stay as long as neither
client tells its caller why it comes to no connection.
"""

from __future__ import annotations

import struct

INT16, INT32, INT64 = (struct.Struct(kind) for kind in (">h", ">i", ">q"))

API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""A Kafka request that every listener answers before any login: its length, ApiVersions' key and
version, correlation id 1 and no client id."""

NO_METADATA = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)
"""The same for Metadata, of no topics at all."""

LONG = 0x80
"""From here on a length takes more than one byte."""


def length(size: int) -> bytes:
    """Of a string or a list."""
    rest, written = size + 1, bytearray()
    while rest >= LONG:
        written.append(rest & 0x7F | LONG)
        rest >>= 7
    return bytes([*written, rest])


def text(value: str) -> bytes:
    encoded = value.encode()
    return length(len(encoded)) + encoded


class Reader:
    """Kafka's flexible encoding (KIP-482), from ``at`` on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def integer(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack_from(self.data, self.at)
        self.at += kind.size
        return int(value)

    def length(self) -> int | None:
        """Of a string or a list; None: there is none."""
        size = self._varint()
        return size - 1 if size else None

    def text(self) -> str | None:
        size = self.length()
        return None if size is None else str(self._bytes(size), "utf-8")

    def skip_tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            self._bytes(self._varint())

    def _bytes(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ValueError("a response ends too early")
        return self.data[start : self.at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < LONG:
                return value
            shift += 7
