"""A first look in JSON's terms: the plan, its topics and the total."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retentiond.look.summary import ClusterLook, Kept, TopicLook
from retentiond.observe.report import CycleReport, document


def look_document(look: ClusterLook, report: CycleReport, retention_ms: int) -> dict[str, Any]:
    """The plan as ``--output json`` gives it, with its topics and the total."""
    return {
        **document(report, with_outcomes=False),
        "consumed_retention_ms": retention_ms,
        "topics": [_topic_document(topic) for topic in look.topics],
        "total": {
            "topics": len(look.topics),
            "partitions": sum(len(topic.rows) for topic in look.topics),
            "records": look.freed_records,
            "records_on_disk": look.records,
            "predicted_bytes": look.freed_bytes,
            "is_bytes_known_of_all": look.is_bytes_known,
            "log_bytes": look.disk.total,
            "kept_by": _kept_documents(look.kept),
        },
    }


def _topic_document(topic: TopicLook) -> dict[str, Any]:
    return {
        "topic": topic.topic,
        "partitions": len(topic.rows),
        "groups": max(row.groups for row in topic.rows),
        "records": topic.freed_records,
        "records_on_disk": topic.records,
        "predicted_bytes": topic.freed_bytes,
        "size_bytes": topic.size_bytes,
        "unread_partitions": topic.unread,
        "belongs_to": None if topic.owner is None else topic.owner.short,
        "kept_by": _kept_documents(topic.kept),
    }


def _kept_documents(kept: Iterable[Kept]) -> list[dict[str, Any]]:
    return [
        {
            "reason": each.keeper.reason.value,
            "binding_group": each.keeper.group,
            "records": each.records,
            "approximate_bytes": each.size_bytes,
        }
        for each in kept
    ]
