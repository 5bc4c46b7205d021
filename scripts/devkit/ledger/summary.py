"""What the bench says in the end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devkit.audit import Deletion
from devkit.ledger.book import Book
from devkit.ledger.faults import Faults
from devkit.ledger.judge import Judgement, Kind
from devkit.ledger.play import Ended

Figures = dict[str, Any]

WANTED = (
    "consumers crashed",
    "consumers lagged",
    "consumers stopped",
    "crashes before a first commit",
    "members frozen",
    "rewinds",
    "subscriptions changed",
    "topics recreated",
    "transactions aborted",
)


def figures(
    book: Book,
    other: Book,
    *,
    deletions: Sequence[Deletion],
    ended: Ended,
    judgements: Sequence[Judgement],
    faults: Faults,
    events: Mapping[str, int],
) -> Figures:
    """Everything that can be counted; by name, some by kind or topic below it."""
    deleted: Counter[str] = Counter()
    for (topic, _), log_start in ended.log_starts.items():
        deleted[topic] += log_start
    outcomes = Counter(each.outcome.value if each.outcome else "open" for each in deletions)
    found = Counter(each.kind for judgement in judgements for each in judgement.findings)
    counts = dict(sorted(book.counts.items()))
    return {
        "records written": counts.pop("records written", 0),
        "records delivered": counts.pop("records delivered", 0),
        "records written to the other cluster": other.counts["records written"],
        "records delivered by the other cluster": other.counts["records delivered"],
        "records deleted": {**dict(sorted(deleted.items())), "all": sum(deleted.values())},
        "segments deleted from remote storage": ended.remote_segments_deleted,
        "deletions": {**dict(sorted(outcomes.items())), "all": sum(outcomes.values())},
        "faults": {
            **{str(fault): faults.done[fault] for fault in faults.kinds},
            "all": faults.done.total(),
        },
        "faults amid a deletion": faults.struck_amid_deletion,
        "new starts of the daemon": faults.new_starts,
        "daemon": dict(sorted(events.items())),
        "clients": {**dict.fromkeys(WANTED, 0), **counts},
        "late rewinds": sum(each.late_rewinds for each in judgements),
        "findings": {str(kind): found[kind] for kind in Kind},
    }


def lines(found: Figures) -> Iterable[str]:
    for name, value in found.items():
        if not isinstance(value, Mapping):
            yield f"{name:<46} {value:>12,}"
            continue
        yield f"{name}"
        for part, count in value.items():
            yield f"  {part:<44} {count:>12,}"


def idle(found: Figures) -> Iterable[str]:
    """A sentence for everything that never happened, so that nothing was proven about it."""
    for name in ("records deleted", "faults"):
        for part, count in found[name].items():
            if not count:
                yield f"{name}: {part}: none"
    if not found["segments deleted from remote storage"]:
        yield "segments deleted from remote storage: none"
    for part in WANTED:
        if not found["clients"][part]:
            yield f"{part}: none"
