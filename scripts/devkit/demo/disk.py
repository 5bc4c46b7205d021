"""What the demo's topics take on the broker's disk, and what was freed of it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path


class DiskWatch:
    """Follows segment files by their names, which are never used twice.

    A segment takes disk until its file is gone, thus also in the time between Kafka's renaming
    it (``….log.deleted``) and unlinking it; DescribeLogDirs no longer counts it then.
    """

    def __init__(self, log_dirs: Iterable[Path]) -> None:
        self._log_dirs = tuple(log_dirs)
        self._bytes: dict[tuple[str, str], int] = {}  # (folder, segment) to the last size seen
        self._present: frozenset[tuple[str, str]] = frozenset()

    def look(self) -> None:
        """Read the folders again."""
        sizes = dict(_sizes(self._log_dirs))
        self._bytes |= sizes
        self._present = frozenset(sizes)

    def on_disk(self) -> Mapping[str, int]:
        """Bytes that are there now, by topic."""
        return self._sum(gone=False)

    def freed(self) -> Mapping[str, int]:
        """Bytes of segments that are gone, by topic."""
        return self._sum(gone=True)

    def segments(self) -> Mapping[str, int]:
        """Segment files that are there now, by topic; the least is one a partition."""
        return Counter(_topic(folder) for folder, _ in self._present)

    def _sum(self, *, gone: bool) -> Mapping[str, int]:
        total: Counter[str] = Counter()
        for segment, size in self._bytes.items():
            if (segment not in self._present) is gone:
                total[_topic(segment[0])] += size
        return total


def _topic(folder: str) -> str:
    return folder.rpartition("-")[0]


def _sizes(log_dirs: Iterable[Path]) -> Iterable[tuple[tuple[str, str], int]]:
    for log_dir in log_dirs:
        for file in log_dir.glob("*-*/*.log*"):
            try:
                yield (file.parent.name, file.name.removesuffix(".deleted")), file.stat().st_size
            except FileNotFoundError:  # gone since it was listed
                continue
