"""What the bench says in the end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devkit.ledger.book import Book
from devkit.ledger.deletions import Deletion
from devkit.ledger.faults import Fault, Faults
from devkit.ledger.promise import Judgement, Kind
from devkit.ledger.scenario import Partition

Figures = dict[str, Any]


def figures(
    book: Book,
    *,
    deletions: Sequence[Deletion],
    log_starts: Mapping[Partition, int],
    judgement: Judgement,
    faults: Faults,
    events: Mapping[str, int],
) -> Figures:
    """Everything that can be counted; by name, some by kind or topic below it."""
    deleted: Counter[str] = Counter()
    for (topic, _), log_start in log_starts.items():
        deleted[topic] += log_start
    outcomes = Counter(
        each.outcome.value if each.outcome else "open" for each in deletions if each.requested
    )
    found = Counter(each.kind for each in judgement.findings)
    counts = dict(sorted(book.counts.items()))
    return {
        "records written": counts.pop("records written", 0),
        "records delivered": counts.pop("records delivered", 0),
        "records deleted": {**dict(sorted(deleted.items())), "all": sum(deleted.values())},
        "deletions": {**dict(sorted(outcomes.items())), "all": sum(outcomes.values())},
        "faults": {
            **{str(fault): faults.done[fault] for fault in Fault},
            "all": faults.done.total(),
        },
        "faults amid a deletion": faults.struck_amid_deletion,
        "daemon": dict(sorted(events.items())),
        "clients": counts,
        "late rewinds": judgement.late_rewinds,
        "gaps": found[Kind.GAP],
        "resets": found[Kind.RESET],
        "findings": {str(kind): found[kind] for kind in Kind},
    }


def lines(found: Figures) -> Iterable[str]:
    """The figures as a table."""
    for name, value in found.items():
        if not isinstance(value, Mapping):
            yield f"{name:<40} {value:>12,}"
            continue
        yield f"{name}"
        for part, count in value.items():
            yield f"  {part:<38} {count:>12,}"


def idle(found: Figures) -> Iterable[str]:
    """A sentence for everything that never happened, so that nothing was proven about it."""
    for name in ("records deleted", "faults"):
        for part, count in found[name].items():
            if not count:
                yield f"{name}: {part}: none"
    for part in ("rewinds", "consumers stopped", "consumers lagged", "transactions aborted"):
        if not found["clients"].get(part):
            yield f"{part}: none"
