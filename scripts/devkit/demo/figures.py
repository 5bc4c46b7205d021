"""The figures of the demo, as its table and its summary show them; those of the disk are read."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class DiskWatch:
    """Follows segment files by their names, which are never used twice. By topic: the bytes
    ``on_disk`` now, those of segments that are gone (``freed``), and how many ``segments`` are
    there, at least one a partition.

    A segment takes disk until its file is gone, thus also in the time between Kafka's renaming
    it (``….log.deleted``) and unlinking it; DescribeLogDirs no longer counts it then.
    """

    def __init__(self, log_dirs: Sequence[Path]) -> None:
        self.on_disk: Counter[str] = Counter()
        self.freed: Counter[str] = Counter()
        self.segments: Counter[str] = Counter()
        self._log_dirs = log_dirs
        self._bytes: dict[tuple[str, str], int] = {}  # (folder, segment) to the last size seen

    def look(self) -> None:
        """Read the folders again."""
        sizes = dict(self._sizes())
        self._bytes |= sizes
        for figures in (self.on_disk, self.freed, self.segments):
            figures.clear()
        for segment, size in self._bytes.items():
            topic = segment[0].rpartition("-")[0]
            (self.on_disk if segment in sizes else self.freed)[topic] += size
            self.segments[topic] += segment in sizes

    def _sizes(self) -> Iterator[tuple[tuple[str, str], int]]:
        for log_dir in self._log_dirs:
            for file in log_dir.glob("*-*/*.log*"):
                try:
                    size = file.stat().st_size
                except FileNotFoundError:  # gone since it was listed
                    continue
                yield (file.parent.name, file.name.removesuffix(".deleted")), size


@dataclass(frozen=True, slots=True)
class Decision:
    """A topic's partitions in the daemon's last plan, summed up.

    ``words`` is the verdict and reason of most of them, ``bound_by`` the groups that bind those
    partitions, or their age.
    """

    words: str
    bound_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A topic at one moment.

    Records: ``written`` to it, ``deleted`` from it, ``read_by_all`` of its groups, ``behind``
    by group. Bytes: ``on_disk`` of the broker and ``freed`` there.
    """

    topic: str
    written: int
    deleted: int
    read_by_all: int
    behind: tuple[tuple[str, int], ...]
    on_disk: int
    freed: int
    decision: Decision


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def decisions(plan: Mapping[str, Any]) -> dict[str, Decision]:
    """By topic, those of the plan; ``plan`` is what /api/plan gave."""
    rows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in plan["partitions"]:
        rows[row["topic"]].append(row)
    return {topic: _decision(of_topic) for topic, of_topic in rows.items()}


def _decision(rows: list[Mapping[str, Any]]) -> Decision:
    ((common, _),) = Counter((row["verdict"], row["reason"]) for row in rows).most_common(1)
    if common[1] == "too_young":
        return Decision(": ".join(common), ("age",))
    groups = {
        row["binding_group"] or "" for row in rows if (row["verdict"], row["reason"]) == common
    }
    return Decision(": ".join(common), tuple(sorted(groups - {""})))
