"""The demo's records: each says where it belongs."""

from devkit.demo.scenario import RECORD_BYTES


def encode(topic: str, partition: int, sequence: int) -> bytes:
    """The value of a partition's record number ``sequence``, counted from 0: `RECORD_BYTES`."""
    return f"{topic}-{partition} #{sequence} ".encode().ljust(RECORD_BYTES, b".")


def describe(value: bytes | None) -> str:
    """What a value says it is, in a few characters."""
    return "no value" if value is None else repr(value.rstrip(b".")[:80].decode(errors="replace"))
