"""What the daemon's last plan says of each topic."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """A topic's partitions, summed up.

    ``words`` is the verdict and reason of most of them, ``bound_by`` the groups that bind those
    partitions, or their age.
    """

    words: str
    bound_by: tuple[str, ...] = ()


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
