"""Kafka's codecs for kafka-python, which unpacks gzip alone unless further packages are installed.

pyarrow, which retentiond has anyway, knows the others. Packages that are installed go first.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from kafka import codec
from kafka.errors import UnsupportedCodecError
from kafka.record import default_records, legacy_records

from retentiond.model import Failure

PACKAGES = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}
"""Each codec's, for kafka-python, where pyarrow was built without it."""


class Snappy:
    """In place of the module ``snappy``; kafka-python itself takes Java's blocks apart."""

    @staticmethod
    def decompress(block: bytes) -> bytes:
        """The block begins with the length of what is in it, seven bits a byte."""
        length = 0
        for position, byte in enumerate(block[:5]):
            length |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                break
        whole: bytes = pa.Codec("snappy").decompress(block, length, asbytes=True)
        return whole


def _decoding(name: str) -> Callable[[bytes], bytes]:
    """A function that unpacks a batch. It raises OSError for one that is cut off or damaged."""

    def decode(batch: bytes) -> bytes:
        with pa.CompressedInputStream(pa.BufferReader(batch), name) as stream:
            whole: bytes = stream.read()
            return whole

    return decode


def add_codecs() -> None:
    """Teaches kafka-python those that it lacks."""
    if codec.snappy is None and pa.Codec.is_available("snappy"):
        codec.snappy = Snappy
    if codec.zstd is None and pa.Codec.is_available("zstd"):
        codec.zstd = pa
        default_records.zstd_decode = _decoding("zstd")
    if not codec.has_lz4() and pa.Codec.is_available("lz4"):
        codec.lz4 = pa
        default_records.lz4_decode = legacy_records.lz4_decode = _decoding("lz4")


def failure_of_codec(error: UnsupportedCodecError) -> Failure:
    """What it is that can't be unpacked, and by which package it can."""
    for name, package in PACKAGES.items():
        if name in str(error):
            return Failure(
                "UNSUPPORTED_CODEC",
                f"its records are compressed with {name}, which this pyarrow can't unpack: install "
                f"the package {package} beside retentiond",
            )
    return Failure("UNSUPPORTED_CODEC", f"its records have a codec that is not known: {error}")
