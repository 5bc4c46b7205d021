"""The bench's records: each carries a number that no other record of its cluster has."""

import time

from devkit.ledger.scenario import RECORD_BYTES

DIGITS = 20


def now_ms() -> float:
    """Epoch milliseconds by the bench's own clock, which is right when the daemon's is not."""
    return time.time() * 1000


def encode(sequence: int) -> bytes:
    return f"{sequence:0{DIGITS}d}".encode().ljust(RECORD_BYTES, b".")


def decode(value: bytes | None) -> int | None:
    """None: it is no record of the bench, or not a whole one."""
    if value is None or len(value) != RECORD_BYTES or not value[:DIGITS].isdigit():
        return None
    return int(value[:DIGITS])
