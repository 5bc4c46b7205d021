"""A first look as JSON: the plan with its topics, and the total."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retentiond.tell.answers import KeptRecords, TopicAnswer
from retentiond.tell.first_look.policy import NOTHING_UNSEEN, UnseenReaders
from retentiond.tell.report import CycleReport, document


def first_look_document(
    report: CycleReport, retention_ms: int, unseen: UnseenReaders = NOTHING_UNSEEN
) -> dict[str, Any]:
    """``unseen_readers``: what speaks for readers that commit nothing, a sentence each."""
    look = report.answers
    return {
        **document(report, with_outcomes=False),
        "consumed_retention_ms": retention_ms,
        "unseen_readers": list(unseen.evidence),
        "topics": [_topic_document(topic) for topic in look.by_frees],
        "total": {
            "topics": len(look.topics),
            "partitions": len(look.partitions),
            "records": look.records,
            "records_on_disk": look.log_records,
            "predicted_bytes": look.known_frees.local,
            "predicted_remote_bytes": look.known_frees.remote,
            "is_bytes_known_of_all": look.is_bytes_known,
            "log_bytes": look.log_bytes,
            "kept_by": _kept_documents(look.kept),
        },
    }


def _topic_document(topic: TopicAnswer) -> dict[str, Any]:
    frees = topic.frees_of_size
    return {
        "topic": topic.topic,
        "partitions": len(topic.partitions),
        "groups": max(each.row.groups for each in topic.partitions),
        "records": topic.records,
        "records_on_disk": topic.log_records,
        "predicted_bytes": frees.local,
        "size_bytes": topic.size.local,
        "predicted_remote_bytes": frees.remote,
        "remote_bytes": topic.size.remote,
        "unread_partitions": topic.unread,
        "belongs_to": None if topic.owner is None else topic.owner.short,
        "kept_by": _kept_documents(topic.kept),
    }


def _kept_documents(kept: Iterable[KeptRecords]) -> list[dict[str, Any]]:
    return [
        {
            "reason": keeper.reason.value,
            "binding_group": keeper.group,
            "records": records,
            "approximate_bytes": size.local,
            "approximate_remote_bytes": size.remote,
        }
        for keeper, records, size in kept
    ]
