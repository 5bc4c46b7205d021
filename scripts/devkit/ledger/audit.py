"""Does the audit log tell what the brokers did?"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from devkit.ledger.deletions import Deletion
from devkit.ledger.scenario import Partition
from retentiond.model import Outcome


def contradictions(deletions: Iterable[Deletion], log_starts: Mapping[Partition, int]) -> list[str]:
    """What does not agree with the brokers, or with itself; a sentence each.

    ``deletions``: all of them, oldest first, when nothing runs any longer. ``log_starts``: where
    every partition begins now; all began at 0.
    """
    by_partition: defaultdict[Partition, list[Deletion]] = defaultdict(list)
    for deletion in deletions:
        by_partition[deletion.partition].append(deletion)
    strangers = sorted(by_partition.keys() - log_starts.keys())
    return [
        *(f"{each} was deleted from, and is no partition of the bench" for each in strangers),
        *(
            f"{topic}-{number}: {sentence}"
            for (topic, number), log_start in sorted(log_starts.items())
            for sentence in _of_partition(by_partition[topic, number], log_start)
        ),
    ]


def _of_partition(deletions: Sequence[Deletion], log_start: int) -> Iterator[str]:
    """An unknown outcome may have come true, and need not; what repeats it overlaps with it."""
    possible = 0
    for deletion in deletions:
        if deletion.log_start > possible:
            yield f"a deletion begins at {deletion.log_start}, and nothing is told from {possible}"
        beyond = {
            group: offset for group, offset in deletion.evidence.items() if offset < deletion.cutoff
        }
        if beyond:
            yield f"cutoff {deletion.cutoff} is beyond the commits that it rests on: {beyond}"
        if deletion.may_be_applied:
            possible = max(possible, deletion.cutoff)
        if deletion.outcome is Outcome.DELETED:
            proven = max(deletion.cutoff, deletion.low_watermark or 0)
            if proven > log_start:
                yield f"it was deleted up to {proven}, and the log starts at {log_start}"
        elif deletion.may_be_applied and deletion.cutoff <= log_start:
            yield f"the deletion up to {deletion.cutoff} was applied, and is not settled"
    if log_start > possible:
        yield f"the log starts at {log_start}, and nothing is told beyond {possible}"
