"""Harm, as a reader sees it.

A *reader* is a group, and wants the record at its own position next: what it has processed it
knows by itself, whether or not it has told anybody. It is *shown* on a topic once a whole cycle
of the daemon has passed in which it was all the time a member with partitions of that topic, or
had a commit there; nothing that a listing did not show can be asked of a program that lists. It
stays shown, whatever becomes of its members, its commits and the topic, until an operator
*forgets* it.

**A finding** is
1. a *loss*: a reader stood at an offset, found that the next one there is lies beyond, and a
   record in between was acknowledged (its transaction committed) or was given to somebody;
2. a *missing* record: owed, and never given to a reader that has read on beyond or to the end;
   of a topic that it was shown on before that was created, from the first record on, else from
   where it first began;
3. a record in the place of another.

What it passes over by its own will is no harm: a reader that goes to the end (`latest`) gives up
what lies before, and so does one that commits its old position to a topic that has just been
created again. And nobody can protect a reader

- that was not shown when the deletion was decided;
- that itself had told, within the last `EVIDENCE_MS` before the deletion was recorded, that it is
  done with that record (a commit beyond it), and went back only then. The *number* of these is
  shown as ``late rewinds``.

Both need a deletion in the audit log, of that very topic by its id and on that very cluster: the
first one that took the record. A record that is gone without one is harm. Which deletions were
recorded when is taken by the bench's own clock; the audit log's times and evidence count for
nothing here.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from devkit.audit import Deletion
from devkit.ledger.book import Book, Commit, Log, Loss
from devkit.ledger.scenario import Partition
from devkit.ledger.shown import FOREVER

EVIDENCE_MS = 5_000.0
"""No deletion is requested on older evidence: that is promised, and measured here from before
the deletion was recorded."""

UNAWARE_MS = 3_000.0
"""A member is told within this time that its topic is another one."""

LONGEST_COMMIT_MS = 120_000.0
"""No client of the bench waits longer for an answer, so none asked earlier is still on its way."""


class Kind(StrEnum):
    GAP = "gap"
    RESET = "reset"
    MISSING = "missing record"
    WRONG_RECORD = "wrong record"


@dataclass(frozen=True, slots=True)
class Finding:
    """``at_ms``: when the deletion was recorded that did it, or else when a reader noticed."""

    kind: Kind
    sentence: str
    at_ms: float = FOREVER

    def said(self, began_ms: float) -> str:
        """With the time since then, where it is known."""
        seconds = (self.at_ms - began_ms) / 1000
        at = "" if self.at_ms == FOREVER else f" at {seconds:.0f} s"
        return f"{self.kind}{at}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """``late_rewinds``: losses that the readers had brought upon themselves."""

    findings: tuple[Finding, ...]
    late_rewinds: int


def judge(
    book: Book, deletions: Sequence[Deletion], log_starts: Mapping[Partition, int], cluster_id: str
) -> Judgement:
    """Holds what everybody did against what was deleted, when nothing runs any longer.

    ``log_starts`` are those in the end.
    """
    made: defaultdict[Log, list[Deletion]] = defaultdict(list)
    for each in deletions:
        topic, number = each.partition
        for incarnation, life in enumerate(book.topics[topic]):
            if (life.topic_id, cluster_id) == (each.topic_id, each.cluster_id):
                made[topic, incarnation, number].append(each)
    return _Judge(book, made, log_starts).judge()


def may_have_stood_at(commits: Sequence[Commit], since_ms: float, until_ms: float) -> list[int]:
    """The committed offsets of a group at some moment in between, those two included.

    A commit counts from when it was asked for until another one, asked for after its answer, is
    acknowledged. Commits overlap where their order at the coordinator can't be told.
    """
    before = [each for each in commits if each.acknowledged and each.ended_ms <= since_ms]
    anchor_ms = max((each.sent_ms for each in before), default=-FOREVER)
    return [
        each.offset
        for each in commits
        if each.sent_ms <= until_ms
        and each.ended_ms >= anchor_ms
        and each.sent_ms >= anchor_ms - LONGEST_COMMIT_MS
    ]


class _Judge:
    def __init__(
        self,
        book: Book,
        deletions: Mapping[Log, Sequence[Deletion]],
        log_starts: Mapping[Partition, int],
    ) -> None:
        self._book = book
        self._deletions = deletions
        self._log_starts = log_starts
        self._offsets: dict[Log, list[int]] = {}
        self._excused: defaultdict[tuple[str, Log], list[tuple[int, int]]] = defaultdict(list)

    def judge(self) -> Judgement:
        findings: list[Finding] = []
        late = 0
        for loss in self._book.losses:
            found = self._of_loss(loss)
            late += found is True
            if isinstance(found, Finding):
                findings.append(found)
        for group, partition in dict.fromkeys([*self._book.given, *self._book.begins]):
            findings.extend(self._missing(group, partition))
        findings.extend(Finding(Kind.WRONG_RECORD, each) for each in self._book.contradictions)
        return Judgement(tuple(findings), late)

    def _of_loss(self, loss: Loss) -> Finding | bool:
        """True: nobody but the reader itself is to blame; False: nothing is lost."""
        incarnation = self._book.incarnation(loss.partition[0], loss.at_ms)
        if incarnation is None:
            return False
        log = (loss.partition[0], incarnation, loss.partition[1])
        offsets = self._sorted_offsets(log)
        lost = offsets[bisect_left(offsets, loss.start) : bisect_left(offsets, loss.end)]
        if not lost:
            return False
        for offset in lost:
            taken_by = self._taken_by(log, offset, loss.at_ms)
            if taken_by is None or not self._permitted(loss.group, log, taken_by):
                return Finding(
                    Kind.RESET if loss.reset else Kind.GAP,
                    f"group {loss.group} stood at {loss.start} of {_name(log)}, and the next that "
                    f"it found is at {loss.end} ({_blame(taken_by)})",
                    taken_by.seen_ms if taken_by else loss.at_ms,
                )
        self._excused[loss.group, log].append((loss.start, loss.end))
        return True

    def _missing(self, group: str, partition: Partition) -> Iterator[Finding]:
        """Of the last incarnation: what became of the others was taken with them."""
        topic, number = partition
        log = (topic, len(self._book.topics[topic]) - 1, number)
        life = self._book.topics[topic][-1]
        begins = [
            each for each in self._book.begins[group, partition] if each.at_ms > life.since_ms
        ]
        shared = group in self._book.share_groups
        shown = self._book.shown_since(group, topic)
        if not begins and not shared:
            return
        start = 0
        if not shared and (shown is None or shown > life.since_ms):
            start = min(each.offset for each in begins)
        gave_up = [(0, each.offset) for each in begins if each.gave_up]
        passed = [*gave_up, (0, self._stale(group, log)), *self._excused[group, log]]
        end = FOREVER
        if shared:  # it reads in its own time and order
            end = self._log_starts[partition]
        elif group in self._book.forgotten:
            own = self._book.own.get((group, partition))
            end = own.offset if own is not None and own.incarnation == log[1] else 0
        given = set(self._book.given[group, partition])
        owed = self._book.owed[log]
        missing = sorted(
            offset
            for offset, sequence in zip(owed.offsets, owed.sequences, strict=True)
            if start <= offset < end
            and sequence not in given
            and not any(low <= offset < high for low, high in passed)
        )
        blamed = [(offset, self._taken_by(log, offset, FOREVER)) for offset in missing]
        harm = [
            (offset, taken_by)
            for offset, taken_by in blamed
            if taken_by is None or not self._permitted(group, log, taken_by)
        ]
        if harm:
            first, taken_by = harm[0]
            yield Finding(
                Kind.MISSING,
                f"group {group} was never given {len(harm)} records of {_name(log)}, "
                f"the first at offset {first} ({_blame(taken_by)})",
                taken_by.seen_ms if taken_by else FOREVER,
            )

    def _stale(self, group: str, log: Log) -> int:
        """What its members told before they could know that the topic is another one: they may
        have begun there."""
        topic, incarnation, number = log
        if not incarnation:
            return 0
        deleted_ms = self._book.topics[topic][incarnation - 1].until_ms
        known_ms = self._book.topics[topic][incarnation].since_ms + UNAWARE_MS
        return max(
            (
                each.offset
                for each in self._book.commits[group, (topic, number)]
                if each.acknowledged and deleted_ms <= each.ended_ms and each.sent_ms <= known_ms
            ),
            default=0,
        )

    def _sorted_offsets(self, log: Log) -> list[int]:
        if log not in self._offsets:
            self._offsets[log] = sorted(self._book.owed[log].offsets)
        return self._offsets[log]

    def _taken_by(self, log: Log, offset: int, before_ms: float) -> Deletion | None:
        """The first deletion that may have taken the record."""
        for each in self._deletions.get(log, ()):
            if each.cutoff > offset and each.may_be_applied and each.seen_ms <= before_ms + 1000:
                return each
        return None

    def _permitted(self, group: str, log: Log, deletion: Deletion) -> bool:
        """Who lists may have asked for it, as far as this group is concerned."""
        if group in self._book.share_groups:
            return False
        shown = self._book.shown_since(group, log[0])
        if shown is None or shown > deletion.unseen_ms:
            return True
        life = self._book.topics[log[0]][log[1]]
        commits = [
            each
            for each in self._book.commits[group, (log[0], log[2])]
            if life.since_ms <= each.ended_ms and each.sent_ms <= life.until_ms
        ]
        decided_ms = deletion.unseen_ms - EVIDENCE_MS
        stood_at = may_have_stood_at(commits, decided_ms, deletion.seen_ms)
        return bool(stood_at) and max(stood_at) >= deletion.cutoff


def _name(log: Log) -> str:
    return f"{log[0]}-{log[2]}" + (f", made again {log[1]} times" if log[1] else "")


def _blame(deletion: Deletion | None) -> str:
    if deletion is None:
        return "no deletion of this topic on this cluster is in the audit log"
    return f"deleted from {deletion.log_start} up to {deletion.cutoff}"
