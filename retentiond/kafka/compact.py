"""Kafka's flexible encoding (KIP-482), for what kafka-python is too slow at."""

from __future__ import annotations

import struct

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
