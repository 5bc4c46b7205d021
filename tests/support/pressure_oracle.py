"""When log directories would have been under pressure, in plain Python: one directory and one entry
after the other, from the words of the documentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

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


class Lines(NamedTuple):
    """Percent of a disk: a directory is under pressure below the one, until the other."""

    below: float
    until: float


def every_log(cluster: PastCluster, time: Time, tried: dict[str, Tried]) -> list[Log]:
    """Played without pressure."""
    return [log for topic in tried for log in logs_of(cluster, time, topic, tried[topic])]


def played_as_needed(
    cluster: PastCluster, time: Time, logs: list[Log], lines: Lines, random: Random
) -> tuple[dict[LogDir, list[int]], list[Log]]:
    """What a daemon may do, entry after entry: it sees which directories are under pressure by now,
    and takes some partitions there, no matter which. The entries under pressure, and the logs."""
    logs, pressed = list(logs), defaultdict[LogDir, list[int]](list)
    before: set[LogDir] = set()
    taken: list[list[int]] = [[] for _ in logs]
    for at in time.period:
        disks = Disks(cluster, time, logs)
        told = {log_dir for log_dir, entries in disks.told.items() if at in entries}
        now = {each for each in told if disks.is_pressed(each, at, lines, before=each in before)}
        before = now | (before - told)
        for log_dir in now:
            pressed[log_dir].append(at)
        for number, log in enumerate(logs):
            row = log.rows.get((at, log.topic_id, log.partition))
            where = log_dirs_of(row) if row else None
            if now.intersection(where or ()) and random.randrange(2):
                taken[number].append(at)
                logs[number] = Log(
                    *(cluster, time, log.topic, log.tried, log.topic_id, log.partition, log.rows),
                    dict.fromkeys(disks.told, taken[number]),
                )
    return pressed, logs


class Disks:
    """``told[log_dir][e]``: its total and its usable bytes in entry ``e``; ``freed``: likewise,
    what the policy would have freed there without pressure, as far as that is known."""

    def __init__(self, cluster: PastCluster, time: Time, logs: Iterable[Log]) -> None:
        self.time = time
        self.told: dict[LogDir, dict[int, tuple[int, int]]] = defaultdict(dict)
        self.freed: dict[LogDir, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for at in time.period:
            for row in of_kind(cluster.entries[at], "log_dir"):
                total, usable = row["total_bytes"], row["usable_bytes"]
                if total and total > 0 and usable is not None and 0 <= usable <= total:
                    self.told[row["broker"], row["log_dir"]][at] = (total, usable)
        for log in logs:
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

    def is_pressed(self, log_dir: LogDir, at: int, lines: Lines, *, before: bool) -> bool:
        """``before``: whether it was, when it was told last."""
        total, usable = self.told[log_dir][at][0], self.usable(log_dir, at)
        if usable < total * lines.below / 100:
            return True
        return before and usable < total * lines.until / 100

    def pressed(self, lines: Lines) -> dict[LogDir, list[int]]:
        """The entries under pressure. One that tells nothing lies between two others."""
        found: dict[LogDir, list[int]] = {}
        for log_dir, told in sorted(self.told.items()):
            found[log_dir] = []
            silent: list[int] = []
            before = False
            for at in self.time.period:
                if at not in told:
                    silent.append(at)
                    continue
                now = self.is_pressed(log_dir, at, lines, before=before)
                if now:
                    found[log_dir] += [*(silent if before else ()), at]
                before, silent = now, []
        return found


def times(entries: list[int], time: Time) -> list[tuple[int, int]]:
    """The first and the last of entries that follow each other in the period: one between them may
    lie outside, where a clock was set back."""
    found: list[tuple[int, int]] = []
    before = None
    for at in time.period:
        if at in entries:
            first = found.pop()[0] if before in entries else at
            found.append((first, at))
        before = at
    return found
