"""What the demo's topics take on the broker's disk, and what was freed of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path


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
