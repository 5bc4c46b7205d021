"""How groups are shown that are remembered or in the cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from retentiond.cli.output.printing import Column, ColumnKind, Row
from retentiond.formatting import rfc3339, say_name

if TYPE_CHECKING:
    from retentiond.memory.readers import ReaderName, RememberedReader
    from retentiond.memory.remembered import Remembered

GROUP_COLUMNS = (
    Column("GROUP", ColumnKind.NAME),
    Column("KIND", ColumnKind.WORD),
    Column("TOPICS", ColumnKind.FIGURE),
    Column("WITHOUT COMMIT", ColumnKind.FIGURE),
    Column("REMEMBERED", ColumnKind.WORD),
    Column("VANISHED SINCE", ColumnKind.WORD),
)


def by_reader(remembered: Remembered) -> Mapping[ReaderName, Mapping[str, RememberedReader]]:
    """Each reader's remembered commits, by topic."""
    found: defaultdict[ReaderName, dict[str, RememberedReader]] = defaultdict(dict)
    for at, last in remembered.commits.items():
        found[at.reader][at.topic] = last
    return found


def group_document(group_id: str, on: Mapping[str, RememberedReader]) -> dict[str, Any]:
    """A remembered group as ``--output json`` gives it. ``on``: its commits, by topic."""
    absent = [last.absent_since_ms for last in on.values()]
    since = max((at for at in absent if at is not None), default=None)
    return {
        "group": group_id,
        "kind": next(iter(on.values())).kind.value,
        "remembered": True,
        "vanished_since": None if since is None or None in absent else rfc3339(since),
        "topics": {
            topic: {str(partition): offset for partition, offset in sorted(last.offsets.items())}
            for topic, last in sorted(on.items())
        },
        "without_commit": {
            topic: None if last.seen_at_ms is None else rfc3339(last.seen_at_ms)
            for topic, last in sorted(on.items())
            if not last.offsets
        },
    }


def group_row(document: Mapping[str, Any]) -> Row:
    return Row(
        [
            say_name(document["group"]),
            document["kind"],
            str(len(document["topics"])),
            str(len(document["without_commit"]) or "-"),
            "yes" if document["remembered"] else "no",
            document["vanished_since"] or "-",
        ],
        "yellow" if document["vanished_since"] else "",
    )
