"""An explanation as JSON: of a partition, and of a whole topic."""

from __future__ import annotations

from typing import Any

from retentiond.formatting import rfc3339
from retentiond.model import PlanRow
from retentiond.tell.answers import SimilarPartitions
from retentiond.tell.explain.partition import Explanation, TopicExplanation
from retentiond.tell.group_answers import GroupAnswer
from retentiond.tell.report import partition_document


def topic_document(explained: TopicExplanation) -> dict[str, Any]:
    """All partitions of a topic."""
    return {
        "topic": explained.answer.topic,
        "reasons": [_alike(each, explained) for each in explained.reasons],
        "groups": [_group_of_topic(each) for each in explained.groups],
        "partitions": [explanation_document(explained, each) for each in explained.partitions],
    }


def explanation_document(explained: TopicExplanation, of: Explanation) -> dict[str, Any]:
    return {
        **partition_document(of.answer),
        "end": of.end,
        "why": of.answer.why,
        "remedy": explained.remedy(of.row),
        "on_disk": list(of.on_disk),
        "time_stamps": list(of.ages),
        "kept_by": [
            {
                "reason": keeper.reason.value,
                "binding_group": keeper.group,
                "records": records,
                "size_bytes": size.local,
                "remote_bytes": size.remote,
            }
            for keeper, records, size in of.answer.kept
        ],
        "relevant_groups": [
            _group_of_partition(each, of.row)
            for each in sorted(explained.groups, key=lambda group: group.group_id)
        ],
        "excluded_groups": list(explained.excluded),
    }


def _alike(alike: SimilarPartitions, explained: TopicExplanation) -> dict[str, Any]:
    return {
        "verdict": alike.first.verdict.value,
        "reason": alike.first.reason.value,
        "partitions": list(alike.numbers),
        "records": alike.records,
        "binding_groups": list(alike.binding_groups),
        "why": alike.partitions[0].why,
        "remedy": explained.remedy(alike.first),
    }


def _group_of_topic(group: GroupAnswer) -> dict[str, Any]:
    return {
        **_group(group),
        "lag": group.lag,
        "stands_since": _at(group.stands_since_ms),
        "binds": list(group.binds),
        "without_commit": list(group.without_commit),
        "kept_records": group.kept_records,
        "kept_bytes": group.kept.local,
        "kept_remote_bytes": group.kept.remote,
    }


def _group_of_partition(group: GroupAnswer, row: PlanRow) -> dict[str, Any]:
    reader, number = group.reader, row.partition
    return {
        **_group(group),
        "committed_offset": reader.committed.get(number),
        "remembered_offset": reader.remembered.get(number),
        "lag": group.lags[number],
        "stands_since": _at(reader.stands_since_ms.get(number)),
        "binds": number in group.binds,
    }


def _group(group: GroupAnswer) -> dict[str, Any]:
    reader = group.reader
    return {
        "group": reader.group_id,
        "kind": None if reader.kind is None else reader.kind.value,
        "state": reader.state,
        "counts_because": reader.trace,
        "absent_since": _at(reader.absent_since_ms),
        "trouble": reader.problem,
    }


def _at(epoch_ms: int | None) -> str | None:
    return None if epoch_ms is None else rfc3339(epoch_ms)
