"""What retentiond says it has deleted, and whether that agrees with what the brokers did."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from retentiond.model import Outcome
from retentiond.state.audit_records import read_deletions

Partition = tuple[str, int]
"""Topic and partition number."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """One request to delete what lies below ``cutoff``, and what became of it.

    By the clock of whoever looks it was not in the audit log yet at ``unseen_ms``, and was at
    ``seen_ms``. ``outcome`` None is an open intent. ``evidence``: commits by group.
    """

    cluster_id: str
    topic_id: str
    partition: Partition
    log_start: int
    cutoff: int
    unseen_ms: float
    seen_ms: float
    outcome: Outcome | None = Outcome.DELETED
    low_watermark: int | None = None
    evidence: Mapping[str, int] = field(default_factory=dict)

    @property
    def may_be_applied(self) -> bool:
        return self.outcome not in (Outcome.NOT_ATTEMPTED, Outcome.FAILED)


def read(
    state_dir: Path, first_seen: Mapping[int, tuple[float, float]] = MappingProxyType({})
) -> list[Deletion]:
    """Oldest first. Raises StateError. ``first_seen``: by id, ``unseen_ms`` and ``seen_ms``."""
    last = max(first_seen.values(), default=(0.0, 0.0))
    return [
        Deletion(
            cluster_id=each.cluster_id,
            topic_id=str(each.row.topic_id),
            partition=(each.row.topic, each.row.partition),
            log_start=each.row.log_start_offset or 0,
            cutoff=each.row.cutoff or 0,
            unseen_ms=first_seen.get(each.id, last)[0],
            seen_ms=first_seen.get(each.id, last)[1],
            outcome=each.outcome,
            low_watermark=each.low_watermark,
            evidence={by.group_id: by.committed_offset for by in each.evidence},
        )
        for each in read_deletions(state_dir)
    ]


def contradictions(deletions: Iterable[Deletion], log_starts: Mapping[Partition, int]) -> list[str]:
    """What does not agree with the brokers, or with itself; a sentence each.

    ``deletions``: all that are said to be of this cluster, oldest first, when nothing runs any
    longer. ``log_starts``: where every partition begins now that was never deleted; all began
    at 0.
    """
    by_partition = _by_partition(deletions)
    return [
        f"{topic}-{number}: {sentence}"
        for (topic, number), log_start in sorted(log_starts.items())
        for sentence in _of_partition(by_partition[topic, number], log_start)
    ]


def unsettled(deletions: Iterable[Deletion], log_starts: Mapping[Partition, int]) -> list[str]:
    """Which deletions were applied and are still open, a sentence each. The daemon settles them in
    its next cycle, so one that was stopped amid a request may leave some."""
    return [
        f"{deletion.partition[0]}-{deletion.partition[1]}: "
        f"the deletion up to {deletion.cutoff} was applied, and is not settled"
        for partition, made in sorted(_by_partition(deletions).items())
        if partition in log_starts
        for deletion in made
        if deletion.outcome is not Outcome.DELETED
        and deletion.may_be_applied
        and deletion.cutoff <= log_starts[partition]
    ]


def _by_partition(deletions: Iterable[Deletion]) -> defaultdict[Partition, list[Deletion]]:
    found: defaultdict[Partition, list[Deletion]] = defaultdict(list)
    for deletion in deletions:
        found[deletion.partition].append(deletion)
    return found


def _of_partition(deletions: Sequence[Deletion], log_start: int) -> Iterator[str]:
    """An unknown outcome may have come true, and need not; what repeats it overlaps with it."""
    possible = 0
    for deletion in deletions:
        if deletion.log_start > possible:
            yield f"a deletion begins at {deletion.log_start}, and nothing is told from {possible}"
        too_low = {
            group: offset for group, offset in deletion.evidence.items() if offset < deletion.cutoff
        }
        if too_low:
            yield f"cutoff {deletion.cutoff} is beyond the commits that it rests on: {too_low}"
        if deletion.may_be_applied:
            possible = max(possible, deletion.cutoff)
        if deletion.outcome is Outcome.DELETED:
            proven = max(deletion.cutoff, deletion.low_watermark or 0)
            if proven > log_start:
                yield f"it was deleted up to {proven}, and the log starts at {log_start}"
    if log_start > possible:
        yield f"the log starts at {log_start}, and nothing is told beyond {possible}"
