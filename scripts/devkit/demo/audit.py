"""Does the audit log tell what the broker did?"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Partition = tuple[str, int]


def contradictions(
    deletions: Iterable[Mapping[str, Any]], log_starts: Mapping[Partition, int]
) -> list[str]:
    """What in the audit log does not agree with the broker, or with itself; a sentence each.

    ``deletions``: rows of ``retentiond audit --output json``, oldest first. ``log_starts``: the
    log start offsets of every partition on the broker, all of which were 0 in the beginning.
    """
    by_partition: defaultdict[Partition, list[Mapping[str, Any]]] = defaultdict(list)
    for deletion in deletions:
        by_partition[deletion["topic"], deletion["partition"]].append(deletion)
    strangers = sorted(by_partition.keys() - log_starts.keys())
    return [
        *(f"{_name(each)} was deleted from, and is no partition of the demo" for each in strangers),
        *(
            f"{_name(partition)}: {sentence}"
            for partition, log_start in sorted(log_starts.items())
            for sentence in _of_partition(by_partition[partition], log_start)
        ),
    ]


def _of_partition(deletions: Sequence[Mapping[str, Any]], log_start: int) -> Iterator[str]:
    """An unknown outcome may have come true, and need not; what repeats it overlaps with it."""
    proven = possible = 0
    for deletion in deletions:
        cutoff, before, outcome = (
            deletion[name] for name in ("cutoff", "log_start_offset", "outcome")
        )
        if before > possible:
            yield f"a deletion begins at {before}, and nothing is told from {possible} on"
        too_low = {
            group: offset for group, offset in deletion["evidence"].items() if offset < cutoff
        }
        if too_low:
            yield f"cutoff {cutoff} is beyond the commits that it rests on: {too_low}"
        if outcome in ("deleted", "unknown"):
            possible = max(possible, cutoff)
        if outcome == "deleted":
            proven = max(proven, cutoff)
    if not proven <= log_start <= possible:
        yield f"the log starts at {log_start}, and by the audit log at {proven}"


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
