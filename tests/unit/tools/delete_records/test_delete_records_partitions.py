"""Unknown partitions are found out before anything is asked for."""

from __future__ import annotations

import pytest

from retentiond.kafka.interface import OffsetBound, TopicConfig
from retentiond.model import Outcome
from retentiond.tools.delete_records.partitions import Item, find, preview, refuse_hopeless
from tests.support.builders.deletable_topics import AT, Deletable, topic

CLUSTER = {"orders": topic(partitions=3), "one": topic("one")}


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (
            Item("orders", 3, 1),
            "UNKNOWN_TOPIC_OR_PARTITION: the topic has 3 partitions, from 0 to 2",
        ),
        (Item("one", 1, 1), "UNKNOWN_TOPIC_OR_PARTITION: the topic has only partition 0"),
        (
            Item("nosuch", 0, 1),
            "UNKNOWN_TOPIC_OR_PARTITION: there is no such topic, or you may not describe it",
        ),
    ],
)
def test_what_is_unknown_fails_in_words_and_the_rest_stays(item: Item, error: str) -> None:
    good, bad = find(Deletable(topics=CLUSTER), [Item("orders", 2, 1), item])
    assert (good.is_pending, good.topic_id) == (True, "id")
    assert (bad.outcome, bad.error) == (Outcome.FAILED, error)


@pytest.mark.parametrize("name", ["orders\0x", "\ud800", "a b", "x" * 250, "\N{SNOWMAN}"])
def test_a_name_that_no_topic_can_have_never_reaches_the_client(name: str) -> None:
    """librdkafka cuts it off at a NUL, which makes it the name of another topic."""
    asked = Deletable(topics=CLUSTER)
    good, bad = find(asked, [Item("orders", 0, 1), Item(name, 0, 1)])
    assert asked.described == ["orders"]
    assert (good.is_pending, bad.outcome) == (True, Outcome.FAILED)
    assert bad.error is not None
    assert "no topic can have this name" in bad.error


def test_a_preview_counts_up_to_the_high_watermark() -> None:
    asked = Deletable(bounds={OffsetBound.LOG_START: {AT: 4}, OffsetBound.HIGH_WATERMARK: {AT: 10}})

    def records(item: Item) -> int | None:
        return preview(asked, [item])[0].records

    assert records(Item("orders", 0, OffsetBound.HIGH_WATERMARK)) == 6
    assert records(Item("orders", 0, 7)) == 3
    assert records(Item("orders", 0, 2)) == 0


def test_a_dry_run_says_what_a_broker_would_refuse() -> None:
    asked = Deletable(bounds={OffsetBound.LOG_START: {AT: 4}, OffsetBound.HIGH_WATERMARK: {AT: 10}})
    (item,) = refuse_hopeless(asked, preview(asked, [Item("orders", 0, 11)]))
    assert (item.outcome, item.records) == (Outcome.FAILED, 0)
    assert item.error is not None
    assert "offset 11 is beyond the high watermark 10" in item.error


def test_a_dry_run_says_that_nothing_goes_from_a_topic_that_is_only_compacted() -> None:
    asked = Deletable(
        bounds={OffsetBound.LOG_START: {AT: 4}, OffsetBound.HIGH_WATERMARK: {AT: 10}},
        configs={"orders": TopicConfig(frozenset({"compact"}), None)},
    )
    (item,) = refuse_hopeless(asked, preview(asked, [Item("orders", 0, 7)]))
    assert (item.outcome, item.records) == (Outcome.FAILED, 0)
    assert str(item.error).startswith("POLICY_VIOLATION: ")
