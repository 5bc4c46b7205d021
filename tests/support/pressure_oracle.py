"""When log directories would have been under pressure, in plain Python: one directory and one entry
after the other, from the words of the documentation."""

from __future__ import annotations

from collections import defaultdict

from tests.support.builders.past_clusters import PastCluster
from tests.support.past_oracle import (
    Log,
    LogDir,
    Row,
    Time,
    Tried,
    log_dirs_of,
    logs_of,
    of_kind,
)


class Disks:
    """``told[log_dir][e]``: its total and its usable bytes in entry ``e``; ``freed``: likewise,
    what the policy would have freed there without pressure, as far as that is known."""

    def __init__(self, cluster: PastCluster, time: Time, tried: dict[str, Tried]) -> None:
        self.time = time
        self.told: dict[LogDir, dict[int, tuple[int, int]]] = defaultdict(dict)
        self.freed: dict[LogDir, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for at in time.period:
            for row in of_kind(cluster.entries[at], "log_dir"):
                total, usable = row["total_bytes"], row["usable_bytes"]
                if total and total > 0 and usable is not None and 0 <= usable <= total:
                    self.told[row["broker"], row["log_dir"]][at] = (total, usable)
        for topic, policy in tried.items():
            for log in logs_of(cluster, time, topic, policy):
                self._add(log)

    def _add(self, log: Log) -> None:
        """Each replica has as much of the log as any other."""
        freed: float | None = None
        where: list[LogDir] | None = None
        for at in log.starts:
            row: Row = log.rows[at, log.topic_id, log.partition]
            real, simulated = log.sizes[at]
            if real is not None and simulated is not None:
                freed = real - simulated
            where = where if (found := log_dirs_of(row)) is None else found
            for log_dir in where or ():
                self.freed[log_dir][at] += (freed or 0) / len(where or ())

    def usable(self, log_dir: LogDir, at: int) -> float:
        _, usable = self.told[log_dir][at]
        return usable + sum(
            self.freed[other][at] for other in self.told if self._is_one_disk(log_dir, other)
        )

    def _is_one_disk(self, one: LogDir, other: LogDir) -> bool:
        both = self.told[one].keys() & self.told[other].keys()
        return (
            one[0] == other[0]
            and bool(both)
            and all(
                self.told[one][at][0] == self.told[other][at][0]
                and abs(self.told[one][at][1] - self.told[other][at][1])
                <= 0.001 * self.told[one][at][0]
                for at in both
            )
        )

    def pressed(self, below: float, until: float) -> dict[LogDir, list[int]]:
        """The entries under pressure. One that tells nothing lies between two others."""
        found: dict[LogDir, list[int]] = {}
        for log_dir, told in sorted(self.told.items()):
            found[log_dir] = []
            silent: list[int] = []
            was_pressed = is_pressed = False
            for at in self.time.period:
                if at not in told:
                    silent.append(at)
                    continue
                total, usable = told[at][0], self.usable(log_dir, at)
                if usable < total * below / 100:
                    is_pressed = True
                elif usable >= total * until / 100:
                    is_pressed = False
                if is_pressed:
                    found[log_dir] += [*(silent if was_pressed else ()), at]
                was_pressed, silent = is_pressed, []
        return found


def times(entries: list[int]) -> list[tuple[int, int]]:
    """The first and the last of entries that follow each other."""
    found: list[tuple[int, int]] = []
    for at in entries:
        first = found.pop()[0] if found and found[-1][1] == at - 1 else at
        found.append((first, at))
    return found
