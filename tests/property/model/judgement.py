"""What speaks against deleting up to a cutoff, by the truth of one reading. `ledger` asks."""

from __future__ import annotations

from collections.abc import Collection

from retentiond.model import GroupKind, TopicPartition
from tests.property.model.photograph import Photograph
from tests.property.model.rules import TopicRule


def of_census(reading: Photograph, rule: TopicRule) -> None:
    """Whether every group was shown, and could be read."""
    assert reading.is_whole, "the groups were not asked for"
    assert not reading.hidden, f"{reading.hidden} were hidden"
    assert not reading.doubts, reading.doubts
    for group in reading.groups.keys() & reading.failed:
        if not rule.excludes_group(group):
            assert _is_told_by_commits(group, reading), f"{group} is unread"


def _is_told_by_commits(group: str, reading: Photograph) -> bool:
    """A streams group whose members can't be described."""
    is_streams = reading.kinds[group] is GroupKind.STREAMS
    return is_streams and group in reading.told and bool(reading.commits[group])


def of_topic(at: TopicPartition, reading: Photograph, rule: TopicRule, topic_id: str) -> None:
    assert reading.ids[at.topic] == topic_id
    assert not {at, at.topic} & reading.failed
    policies, retention_ms = reading.configs[at.topic]
    assert "delete" in policies
    assert "compact" not in policies
    assert retention_ms is None or rule.age_ms <= retention_ms


def of_partition(at: TopicPartition, reading: Photograph, rule: TopicRule, cutoff: int) -> None:
    assert reading.log_starts[at] < cutoff
    assert cutoff <= reading.high_watermarks[at]
    assert cutoff <= reading.last_stable[at]
    if rule.age_ms:
        assert cutoff <= reading.young[at], "records are too young"


def of_groups(
    at: TopicPartition,
    reading: Photograph,
    rule: TopicRule,
    cutoff: int,
    remembered: Collection[str],
) -> None:
    """Whether everyone who counts has read that far."""
    relevant = {
        group
        for group in {*reading.readers(at.topic), *remembered, *rule.required}
        if not rule.excludes_group(group)
    }
    assert len(relevant) >= rule.min_groups
    for group in sorted(relevant):
        committed = reading.commits.get(group, {}).get(at)
        assert committed is not None, f"{group} has no commit"
        assert cutoff <= committed, f"{group} has yet to read {committed}"
        assert committed <= reading.high_watermarks[at], f"{group} is beyond the end"
