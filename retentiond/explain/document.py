"""An explanation in JSON's terms, under the plan's field names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retentiond.explain.partition import Explanation
from retentiond.explain.standings import Standing
from retentiond.explain.topic import Alike, GroupOnTopic, by_group, by_reason
from retentiond.observe.report import rfc3339, row_document


def topic_document(explanations: Sequence[Explanation]) -> dict[str, Any]:
    """All partitions of a topic."""
    return {
        "topic": explanations[0].row.topic,
        "reasons": [_alike(each) for each in by_reason(explanations)],
        "groups": [_on_topic(each) for each in by_group(explanations)],
        "partitions": [partition_document(each) for each in explanations],
    }


def partition_document(explanation: Explanation) -> dict[str, Any]:
    return {
        **row_document(explanation.row),
        "end": explanation.end,
        "consumed_retention_ms": explanation.consumed_retention_ms,
        "size_bytes": explanation.size_bytes,
        "why": explanation.why,
        "remedy": explanation.remedy,
        "on_disk": list(explanation.on_disk),
        "time_stamps": list(explanation.ages),
        "kept_by": [
            {
                "reason": keeper.reason.value,
                "binding_group": keeper.group,
                "records": records,
                "size_bytes": explanation.size_of(records),
            }
            for keeper, records in explanation.kept.items()
        ],
        "relevant_groups": [
            {
                **_group(standing),
                "committed_offset": standing.committed_offset,
                "remembered_offset": standing.remembered_offset,
                "lag": explanation.lag(standing),
                "stands_since": _at(standing.stands_since_ms),
                "binds": explanation.binds(standing),
            }
            for standing in explanation.standings
        ],
        "excluded_groups": list(explanation.excluded),
    }


def _alike(alike: Alike) -> dict[str, Any]:
    first = alike.explanations[0]
    return {
        "verdict": alike.verdict.value,
        "reason": alike.reason.value,
        "partitions": list(alike.partitions),
        "records": alike.records,
        "binding_groups": list(alike.groups),
        "why": first.why,
        "remedy": first.remedy,
    }


def _on_topic(group: GroupOnTopic) -> dict[str, Any]:
    return {
        **_group(group.standing),
        "lag": group.lag,
        "stands_since": _at(group.standing.stands_since_ms),
        "binds": list(group.binds),
        "without_commit": list(group.without_commit),
        "kept_records": group.kept_records,
        "kept_bytes": group.kept_bytes,
    }


def _group(standing: Standing) -> dict[str, Any]:
    return {
        "group": standing.group_id,
        "kind": standing.kind.value,
        "state": standing.state,
        "counts_because": standing.trace,
        "absent_since": _at(standing.absent_since_ms),
        "trouble": standing.trouble,
    }


def _at(epoch_ms: int | None) -> str | None:
    return None if epoch_ms is None else rfc3339(epoch_ms)
