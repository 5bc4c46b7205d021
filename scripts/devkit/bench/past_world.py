"""A made-up past whose answers are known: worked out by numpy from the formulas of this file, and
by nothing that the product has.

Entries are five minutes apart. A partition grows by its rate, but for every fifth entry. A group
has read what was there ``lag`` entries ago. By its number a topic is one of `Manner`. Everything
is an array by partition and entry.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from devkit.bench.layouts import Layout

Offsets = npt.NDArray[np.int64]

STEP_MS = 300_000
A_DAY = 86_400_000 // STEP_MS
RETENTION = 12
"""Of the policy that is simulated, in entries: an hour."""

KEPT = 25
"""Of the policy by which records were really deleted. Not such that a log never shrinks, growing
whenever it is cut."""

RECORD_BYTES = 100
DISK_BYTES = 10**12


class Manner(IntEnum):
    """What is special about a topic; a topic's is its number modulo their count."""

    STEADY = 0
    REWOUND = 1
    """Group 0 goes back once, for one entry, some way into the time."""

    DELETED = 2
    """Records were really deleted: the only topics whose log start moves."""

    STOPPED = 3
    """Group 0 stops committing after half of the time."""


@dataclass(frozen=True)
class PastTopic:
    number: int
    partitions: int
    groups: int
    entries: int

    @property
    def name(self) -> str:
        return f"topic-{self.number:04d}"

    @property
    def manner(self) -> Manner:
        return Manner(self.number % len(Manner))

    def group(self, number: int) -> str:
        return f"{self.name}-group-{number:02d}"

    @cached_property
    def steps(self) -> Offsets:
        number, entry = np.mgrid[: self.partitions, : self.entries]
        rate = 10 + (self.number * 13 + number * 7) % 50
        return np.where((number + entry) % 5 == 0, 0, rate).astype(np.int64)

    @cached_property
    def ends(self) -> Offsets:
        """High watermarks."""
        return np.cumsum(self.steps, axis=1)

    def _ends_at(self, entries: Offsets) -> Offsets:
        """0 before the first."""
        return np.where(entries < 0, 0, self.ends[:, np.maximum(entries, 0)])

    @property
    def _every(self) -> Offsets:
        return np.arange(self.entries)

    @property
    def rewind(self) -> tuple[int, int]:
        """At which entry, and to what was read so many entries before."""
        return 6 * self.entries // 10, self.groups + RETENTION + 5 + self.number % 20

    def committed(self, group: int, entries: Offsets | None = None) -> Offsets:
        """At those entries, or at all of them."""
        at = self._every if entries is None else entries
        read = at - 1 - group
        if group == 0 and self.manner is Manner.REWOUND:
            entry, back = self.rewind
            read = np.where(at == entry, read - back, read)
        if group == 0 and self.manner is Manner.STOPPED:
            read = np.minimum(read, self.entries // 2)
        return self._ends_at(read)

    @cached_property
    def least(self) -> Offsets:
        """Smallest committed offsets."""
        found: Offsets = np.stack([self.committed(each) for each in range(self.groups)]).min(axis=0)
        return found

    def cutoffs(self, retention: int) -> Offsets:
        """What goes at each entry under a retention of so many; 0: nothing."""
        return np.minimum(self.least, self._ends_at(self._every - retention))

    def starts(self, retention: int) -> Offsets:
        """Log start offsets, as each entry would have found them."""
        found = np.zeros_like(self.ends)
        found[:, 1:] = np.maximum.accumulate(self.cutoffs(retention), axis=1)[:, :-1]
        return found

    @cached_property
    def real_starts(self) -> Offsets:
        if self.manner is Manner.DELETED:
            return self.starts(KEPT)
        return np.zeros_like(self.ends)

    @cached_property
    def sizes(self) -> Offsets:
        return RECORD_BYTES * (self.ends - self.real_starts)

    def simulated(self, retention: int) -> dict[str, float]:
        """What ``simulate`` must find, by its names."""
        starts, sizes = self.starts(retention), self.sizes.sum(axis=0)
        simulated = RECORD_BYTES * (self.ends - starts).sum(axis=0)
        return {
            "mean_bytes": float(sizes.mean()),
            "peak_bytes": float(sizes.max()),
            "simulated_mean_bytes": float(simulated.mean()),
            "simulated_peak_bytes": float(simulated.max()),
            "simulated_records_deleted": float(
                np.maximum(self.cutoffs(retention) - starts, 0).sum()
            ),
        }

    def missed(self, retention: int) -> dict[tuple[str, int], int]:
        """Records, by reader and partition."""
        if self.manner is not Manner.REWOUND:
            return {}
        at, _ = self.rewind
        lost = self.starts(retention)[:, at] - self.committed(0)[:, at]
        return {(self.group(0), number): int(each) for number, each in enumerate(lost) if each > 0}

    @property
    def last_cutoffs(self) -> Offsets:
        """Up to where the last entry has really deleted, by partition."""
        last = np.maximum(self.cutoffs(KEPT)[:, -1], self.real_starts[:, -1])
        return last if self.manner is Manner.DELETED else self.real_starts[:, -1]

    @property
    def keeper(self) -> str:
        """The group that binds in the end."""
        return self.group(0 if self.manner is Manner.STOPPED else self.groups - 1)


def topics(layout: Layout, days: int) -> list[PastTopic]:
    groups = layout.commits // (layout.topics * layout.partitions)
    entries = days * A_DAY
    return [
        PastTopic(number, layout.partitions, groups, entries) for number in range(layout.topics)
    ]


def usable_bytes(entries: int) -> Offsets:
    """Of the one log directory: it fills evenly."""
    return DISK_BYTES - 10**6 * np.arange(entries, dtype=np.int64)
