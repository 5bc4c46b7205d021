"""The promise, as the bench checks it.

**A group claims** its committed offset on a partition, and everything above, from the moment
that a commit of it is acknowledged. It claims nothing before its first commit there, and nothing
below its commit: a group that goes forward gives up what it leaves behind, and one that goes back
claims again what is still there *and is not yet asked to be deleted*. A share group claims every
record that it has not been given.

**A deletion** with cutoff k rests on a second reading of all commits, which began at its
``evidence_at`` and ended before the request. It is *right* if every group that claimed something
at ``evidence_at`` may have stood at k or above, at some moment in between: then an honest reading
could have approved it. It is *wrong* if some group stood below k all that time. Nobody can protect
a group that goes back after the reading, so the window is the only mercy, and a group that never
goes back gains nothing from it: its greatest offset in the window is its last. Who has gone back
before ``evidence_at`` was seen there, however long after the plan that was.

**A finding** is
1. a wrong deletion, whether or not anybody noticed, and also when it failed;
2. a deletion whose evidence says more than a group can have committed, or leaves a group out that
   had committed before;
3. a *gap*: a consumer was given an offset beyond the one that it stood at, and a record in
   between was acknowledged (its transaction committed) or was given to somebody else;
4. a *reset*: a consumer was told that its offset is out of range;
5. a *missing* record: owed, at or above the group's first commit, and never given to it; to a
   share group: owed, below the log start in the end, and never given to it;
6. a record in the place of another.

3 and 4 are no finding only if a right deletion beyond that very offset had been asked for before:
the group itself had then stood beyond it and went back too late, or had no commit yet. What such
a reset passes over is not missing. The *number* of these is shown as ``late rewinds``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from devkit.ledger.book import Book, Reading, Reset, Skip
from devkit.ledger.claims import Claims
from devkit.ledger.deletions import Deletion
from devkit.ledger.marks import NEVER
from devkit.ledger.scenario import Partition


class Kind(StrEnum):
    WRONG_DELETION = "wrong deletion"
    UNTRUE_EVIDENCE = "untrue evidence"
    GAP = "gap"
    RESET = "reset"
    MISSING = "missing record"
    WRONG_RECORD = "wrong record"


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    sentence: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """``late_rewinds``: resets and gaps that the groups had brought upon themselves."""

    findings: tuple[Finding, ...]
    late_rewinds: int


def judge(
    book: Book, deletions: Sequence[Deletion], log_starts: Mapping[Partition, int]
) -> Judgement:
    """Holds what everybody did against what was deleted. ``log_starts`` are those in the end."""
    return _Judge(book, deletions, log_starts).judge()


class _Judge:
    def __init__(
        self, book: Book, deletions: Iterable[Deletion], log_starts: Mapping[Partition, int]
    ) -> None:
        self._book = book
        self._log_starts = log_starts
        self._claims = {reading: Claims(commits) for reading, commits in book.commits.items()}
        self._deletions: defaultdict[Partition, list[Deletion]] = defaultdict(list)
        for deletion in deletions:
            if deletion.requested:
                self._deletions[deletion.partition].append(deletion)

    def judge(self) -> Judgement:
        lossy = [skip for skip in self._book.skips if self._owed_between(skip)]
        late_skips = [each for each in lossy if self._own_fault(each, each.start)]
        late_resets = [each for each in self._book.resets if self._own_fault(each, each.offset)]
        findings = [
            *self._of_deletions(),
            *(_gap(each) for each in lossy if each not in late_skips),
            *(_reset(each) for each in self._book.resets if each not in late_resets),
            *self._missing(late_resets, late_skips),
            *(Finding(Kind.WRONG_RECORD, each) for each in self._book.contradictions),
        ]
        return Judgement(tuple(findings), len(late_resets) + len(late_skips))

    def _of_deletions(self) -> Iterator[Finding]:
        for partition, deletions in self._deletions.items():
            for (group, at), claims in self._claims.items():
                if at == partition:
                    for deletion in deletions:
                        yield from _of_claims(group, claims, deletion)
            for (group, at), times in self._book.shared.items():
                if at == partition:
                    last_given = self._last_given(times.first(self._size(at)), at)
                    for deletion in deletions:
                        yield from _of_share(group, last_given, deletion)

    def _own_fault(self, loss: Skip | Reset, offset: int) -> bool:
        return any(
            deletion.cutoff > offset
            and deletion.requested_at_ms <= loss.at_ms
            and deletion.may_be_applied
            and self._permits(loss.group, deletion)
            for deletion in self._deletions[loss.partition]
        )

    def _permits(self, group: str, deletion: Deletion) -> bool:
        claims = self._claims.get((group, deletion.partition))
        return claims is None or not any(_of_claims(group, claims, deletion))

    def _missing(self, resets: Iterable[Reset], skips: Iterable[Skip]) -> Iterator[Finding]:
        excused: defaultdict[Reading, list[tuple[int, int]]] = defaultdict(list)
        for reset in resets:
            excused[reset.group, reset.partition].append((reset.offset, reset.log_start))
        for skip in skips:
            excused[skip.group, skip.partition].append((skip.start, skip.end))
        starts: dict[Reading, int | None] = {key: each.start for key, each in self._claims.items()}
        starts |= dict.fromkeys(self._book.shared, 0)
        for (group, partition), start in starts.items():
            if start is None:
                continue
            size = self._size(partition)
            lost = self._book.owed[partition].flags(size)
            lost &= ~self._book.seen[group, partition].flags(size)
            lost[:start] = False
            if (group, partition) in self._book.shared:  # it reads in its own time and order
                lost[self._log_starts[partition] :] = False
            for begin, end in excused[group, partition]:
                lost[begin:end] = False
            if count := int(lost.sum()):
                yield Finding(
                    Kind.MISSING,
                    f"group {group} was never given {count} records of {_name(partition)}, "
                    f"the first at offset {int(lost.argmax())}",
                )

    def _owed_between(self, skip: Skip) -> bool:
        owed = self._book.owed[skip.partition]
        return any(offset in owed for offset in range(skip.start, skip.end))

    def _size(self, partition: Partition) -> int:
        return self._book.owed[partition].end

    def _last_given(self, first_given_ms: np.ndarray, partition: Partition) -> np.ndarray:
        """By offset, when the last owed record at or below it was first given to the group."""
        owed = self._book.owed[partition].flags(len(first_given_ms))
        return np.maximum.accumulate(np.where(owed, first_given_ms, -NEVER))


def _of_claims(group: str, claims: Claims, deletion: Deletion) -> Iterator[Finding]:
    stood_at = claims.at(deletion.evidence_at_ms, deletion.requested_at_ms)
    if not stood_at:
        return
    if max(stood_at) < deletion.cutoff:
        yield Finding(
            Kind.WRONG_DELETION, f"{deletion} while group {group} stood at {max(stood_at)}"
        )
    told = deletion.evidence.get(group)
    if told is None:
        yield Finding(Kind.UNTRUE_EVIDENCE, f"{deletion} leaves group {group} out")
    elif told > max(stood_at):
        yield Finding(
            Kind.UNTRUE_EVIDENCE,
            f"{deletion} rests on group {group} at {told}, and it stood at {max(stood_at)}",
        )


def _of_share(group: str, last_given_ms: np.ndarray, deletion: Deletion) -> Iterator[Finding]:
    for kind, offset in (
        (Kind.WRONG_DELETION, deletion.cutoff),
        (Kind.UNTRUE_EVIDENCE, deletion.evidence.get(group, 0)),
    ):
        below = min(offset, len(last_given_ms))
        if below and last_given_ms[below - 1] > deletion.requested_at_ms:
            yield Finding(
                kind, f"{deletion}: share group {group} had not been given all below {offset}"
            )


def _gap(skip: Skip) -> Finding:
    return Finding(
        Kind.GAP,
        f"group {skip.group} stood at {skip.start} of {_name(skip.partition)} "
        f"and was given {skip.end}",
    )


def _reset(reset: Reset) -> Finding:
    return Finding(
        Kind.RESET,
        f"group {reset.group} could not read offset {reset.offset} of {_name(reset.partition)}, "
        f"which begins at {reset.log_start}",
    )


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
