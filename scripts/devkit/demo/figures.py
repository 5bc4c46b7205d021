"""The figures of the demo, as its table and its summary show them."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """A topic's partitions in the daemon's last plan, summed up.

    ``words`` is the verdict and reason of most of them, ``bound_by`` the groups that bind those
    partitions, or their age.
    """

    words: str
    bound_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A topic at one moment.

    Records: ``written`` to it, ``deleted`` from it, ``read_by_all`` of its groups, ``behind``
    by group. Bytes: ``on_disk`` of the broker and ``freed`` there.
    """

    topic: str
    written: int
    deleted: int
    read_by_all: int
    behind: tuple[tuple[str, int], ...]
    on_disk: int
    freed: int
    decision: Decision


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def decisions(plan: Mapping[str, Any]) -> dict[str, Decision]:
    """By topic, those of the plan; ``plan`` is what /api/plan gave."""
    rows: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in plan["partitions"]:
        rows[row["topic"]].append(row)
    return {topic: _decision(of_topic) for topic, of_topic in rows.items()}


def _decision(rows: list[Mapping[str, Any]]) -> Decision:
    ((common, _),) = Counter((row["verdict"], row["reason"]) for row in rows).most_common(1)
    if common[1] == "too_young":
        return Decision(": ".join(common), ("age",))
    groups = {
        row["binding_group"] or "" for row in rows if (row["verdict"], row["reason"]) == common
    }
    return Decision(": ".join(common), tuple(sorted(groups - {""})))
