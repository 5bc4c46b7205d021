"""Sets of offsets and figures by offset, small enough for hours of records."""

from array import array

import numpy as np
from numpy.typing import NDArray

NEVER = float("inf")


class Marks:
    """A set of offsets of one partition, a byte each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, offset: int) -> None:
        if offset >= len(self._bytes):
            self._bytes.extend(bytes(offset + 1 - len(self._bytes) + 4096))
        self._bytes[offset] = 1

    def __contains__(self, offset: int) -> bool:
        return offset < len(self._bytes) and self._bytes[offset] == 1

    def __len__(self) -> int:
        return self._bytes.count(1)

    @property
    def end(self) -> int:
        """One past the greatest; 0 for the empty set."""
        return self._bytes.rfind(1) + 1

    def flags(self, size: int) -> NDArray[np.bool_]:
        """A copy: whether each offset below ``size`` is in it."""
        flags = np.zeros(size, dtype=np.bool_)
        part = np.frombuffer(bytes(self._bytes[:size]), dtype=np.bool_)
        flags[: len(part)] = part
        return flags


class Times:
    """When each offset of one partition came first, in epoch milliseconds; else `NEVER`."""

    def __init__(self) -> None:
        self._ms = array("d")

    def note(self, offset: int, at_ms: float) -> None:
        if offset >= len(self._ms):
            self._ms.extend([NEVER] * (offset + 1 - len(self._ms) + 4096))
        self._ms[offset] = min(self._ms[offset], at_ms)

    def first(self, size: int) -> NDArray[np.float64]:
        """A copy: the times of all offsets below ``size``."""
        times = np.full(size, NEVER)
        part = np.array(self._ms[:size])
        times[: len(part)] = part
        return times
