"""One snapshot of a healthy cluster: what it says, what it asked, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from retentiond.config import PolicyConflict
from retentiond.errors import KafkaUnavailable
from retentiond.gather.groups import STANDSTILL_S
from retentiond.gather.offsets import NO_RETENTION, NOT_ASKED
from retentiond.kafka.interface import EpochEnd, OffsetBound
from retentiond.memory.remembered import KnownTopic, Remembered
from retentiond.model import Failure, GroupKind, TopicPartition
from retentiond.snapshot import PartitionReading, Snapshot
from tests.support.builders.gather_worlds import (
    CLICKS_0,
    ENABLED,
    HOUR_MS,
    ORDERS_0,
    ORDERS_1,
    Waits,
    commits,
    config,
    entry,
    groups,
    healthy,
    partitions,
    readers,
    second_snapshot,
    snapshot,
    topic,
)
from tests.support.fakes import FakeCluster, Transaction


def pattern(regex: str, minutes: int = 60, **more: Any) -> dict[str, Any]:
    """An entry for all topics that it matches."""
    return {**entry("", minutes, **more), "pattern": regex, "name": None}


ABOUT_GROUPS = {"coordinator_state", "list_groups", "commits", "members"}


def asked_offsets(kafka: FakeCluster) -> set[TopicPartition]:
    """Every partition that any look-up was about."""
    return {
        at
        for call in kafka.script.calls
        if call.api in ("offsets", "offsets_at")
        for at in call.args[0]
    }


def position(kafka: FakeCluster, api: str, *args: object) -> int:
    """Which call it was, counted from 0, of those with these last arguments."""
    (found,) = (
        number
        for number, call in enumerate(kafka.script.calls)
        if call.api == api and call.args[len(call.args) - len(args) :] == args
    )
    return found


def test_a_healthy_cluster_is_read_as_it_is() -> None:
    kafka = healthy()
    taken = snapshot(kafka)
    assert taken.complete
    assert taken.cluster_id == "KfakefakefakefakefakeQ"
    assert taken.taken_at_ms == kafka.now_ms
    assert [each.name for each in taken.topics] == ["clicks", "orders"]
    assert topic(taken, "orders").topic_id == kafka.topics["orders"].topic_id
    assert topic(taken, "orders").forced_retention_ms == 7 * 24 * HOUR_MS
    assert {each.failure for each in taken.topics} == {None}
    assert partitions(taken) == {
        at: PartitionReading(0 if at.topic == "clicks" else 1, at.partition, 0, 6, 6, 4)
        for at in ENABLED
    }
    assert {name: each.kind for name, each in groups(taken).items()} == {
        "billing": GroupKind.CLASSIC,
        "newcomer": GroupKind.CLASSIC,
        "pipeline": GroupKind.STREAMS,
        "search": GroupKind.CONSUMER,
        "stranger": GroupKind.CLASSIC,
    }
    assert commits(taken) == {
        ("billing", ORDERS_0): 3,
        ("billing", ORDERS_1): 4,
        ("pipeline", CLICKS_0): 2,
        ("search", ORDERS_0): 5,
        ("search", CLICKS_0): 1,
    }
    assert readers(taken) == {("search", "orders"), ("search", "clicks"), ("newcomer", "clicks")}
    assert not taken.commits["remembered_offset"].is_valid().to_pylist().count(True)


def test_coordinators_are_read_before_and_after_everything_about_groups() -> None:
    kafka = healthy()
    snapshot(kafka)
    before, listing, *of_each_group, after = (
        api for api in kafka.script.apis if api in ABOUT_GROUPS
    )
    assert (before, listing, after) == ("coordinator_state", "list_groups", "coordinator_state")
    assert sorted(of_each_group) == ["commits", "members"]


def test_the_listing_keeps_its_distance_from_both_readings_of_the_coordinators() -> None:
    kafka = healthy()
    waits = Waits()
    snapshot(kafka, wait_until=waits)
    before, after = waits.instants
    assert 0 < before <= STANDSTILL_S
    assert 0 < after <= STANDSTILL_S


def test_commits_are_read_before_the_ends_and_the_ends_before_the_look_ups_by_time() -> None:
    kafka = healthy()
    snapshot(kafka)
    read = position(kafka, "commits")
    high_watermarks = position(kafka, "offsets", OffsetBound.HIGH_WATERMARK)
    last_stable = position(kafka, "offsets", OffsetBound.LAST_STABLE)
    by_time = position(kafka, "offsets_at")
    assert read < min(high_watermarks, last_stable)
    assert max(high_watermarks, last_stable) < by_time


def test_a_record_that_arrives_after_the_end_was_read_does_not_move_the_retention_offset() -> None:
    kafka = healthy()
    kafka.advance(2 * HOUR_MS)  # all records are old now
    old = kafka.now_ms - 2 * HOUR_MS
    kafka.script.before("offsets_at", lambda: kafka.produce("orders", 0, 3, timestamp_ms=old))
    reading = partitions(snapshot(kafka))[ORDERS_0]
    assert (reading.high_watermark, reading.retention_offset) == (6, 6)


def test_a_commit_that_keeps_up_with_the_end_is_not_beyond_it() -> None:
    kafka = healthy()
    kafka.script.before("commits", lambda: kafka.produce("orders", 0, 2))
    kafka.script.before("commits", lambda: kafka.commit("billing", {ORDERS_0: 8}))
    taken = snapshot(kafka)
    assert commits(taken)["billing", ORDERS_0] == partitions(taken)[ORDERS_0].high_watermark


def test_no_record_of_an_open_transaction_is_before_the_end() -> None:
    kafka = healthy()
    transaction = Transaction()
    kafka.advance(2 * HOUR_MS)
    kafka.produce("orders", 0, 2, transaction=transaction, timestamp_ms=kafka.now_ms - 2 * HOUR_MS)
    reading = partitions(snapshot(kafka))[ORDERS_0]
    assert (reading.high_watermark, reading.last_stable_offset) == (8, 6)
    assert reading.retention_offset == 6


def test_enabled_topics_and_all_groups_are_asked_about_and_live_ones_for_their_members() -> None:
    """A streams group for its topology, too."""
    kafka = healthy()
    taken = snapshot(kafka)
    assert asked_offsets(kafka) == set(ENABLED)
    asked = {call.api: call.args[0] for call in kafka.script.calls if call.args}
    assert set(asked["describe_topics"]) == set(asked["topic_configs"]) == {"orders", "clicks"}
    assert set(asked["commits"]) == set(kafka.groups)
    assert {each.group_id for each in asked["members"]} == {"search", "newcomer", "pipeline"}
    assert [each.group_id for each in taken.groups] == sorted(groups(taken))
    assert list(partitions(taken)) == sorted(partitions(taken))


@pytest.mark.parametrize(
    "entries", [[entry("unknown")], [{"name": "orders", "retention.commitoffset.enable": False}]]
)
def test_without_an_enabled_topic_nothing_is_asked_of_any_log(
    entries: list[dict[str, object]],
) -> None:
    kafka = healthy()
    taken = snapshot(kafka, config(*entries))
    assert (taken.topics, taken.partitions, taken.commits.num_rows) == ((), (), 0)
    assert asked_offsets(kafka) == set()
    assert groups(taken).keys() == kafka.groups.keys()


def test_a_topic_that_the_policy_names_and_nobody_shows_is_read_as_one_with_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka leaves it out of the listing, and answers only who asks for it by name."""
    kafka = healthy()
    refused = Failure("TOPIC_AUTHORIZATION_FAILED", "not authorized")
    listed, described = kafka.topic_names(), kafka.describe_topics
    monkeypatch.setattr(kafka, "topic_names", lambda: listed - {"orders"})
    monkeypatch.setattr(
        kafka, "describe_topics", lambda names: {**described(names), "orders": refused}
    )

    hidden = {topic.name: topic for topic in snapshot(kafka).topics}["orders"]
    assert hidden.failure == refused
    assert ORDERS_0 in partitions(snapshot(kafka))


def test_a_topic_in_conflict_between_two_patterns_is_read_without_a_retention() -> None:
    kafka = healthy()
    patterns = [
        {"pattern": pattern, "retention.commitoffset.enable": True, **retention}
        for pattern, retention in (
            ("ord.*", {"retention.commitoffset.hours": 1}),
            (".*ers", {"retention.commitoffset.hours": 2}),
        )
    ]
    taken = snapshot(kafka, config(*patterns))
    assert isinstance(topic(taken, "orders").policy, PolicyConflict)
    assert {each.failure for each in taken.partitions} == {NO_RETENTION}
    assert {each.high_watermark for each in taken.partitions} == {6}


def retention_ms(ms: int) -> dict[str, Any]:
    return {**entry("orders"), "retention.commitoffset.ms": ms}


@pytest.mark.parametrize(
    ("orders", "clicks", "ages_ms", "offsets"),
    [
        (entry("orders", minutes=5), 90, [5 * 60_000, 5 * 60_000, 90 * 60_000], [4, 4, 4]),
        (retention_ms(0), 60, [None, None, HOUR_MS], [6, 6, 4]),  # no time is asked
        (retention_ms(10**15), 60, [None, None, HOUR_MS], [0, 0, 4]),  # longer than time itself
    ],
)
def test_each_topic_is_asked_at_its_own_retention_before_now(
    orders: dict[str, Any], clicks: int, ages_ms: list[int | None], offsets: list[int]
) -> None:
    kafka = healthy()
    taken = snapshot(kafka, config(orders, entry("clicks", minutes=clicks)))
    (asked,) = (call.args[0] for call in kafka.script.calls if call.api == "offsets_at")
    every = (ORDERS_0, ORDERS_1, CLICKS_0)
    first = {at: 0 for at in every[:2] if orders.get("retention.commitoffset.ms")}
    assert asked == first | {
        at: kafka.now_ms - age_ms
        for at, age_ms in zip(every, ages_ms, strict=True)
        if age_ms is not None
    }
    assert [partitions(taken)[at].retention_offset for at in every] == offsets


def test_a_second_reading_asks_about_the_doomed_partitions_alone() -> None:
    kafka = healthy()
    first = snapshot(kafka)
    kafka.script.calls.clear()
    taken = second_snapshot(kafka, first, [ORDERS_1])
    assert asked_offsets(kafka) == {ORDERS_1}
    assert [each.name for each in taken.topics] == ["orders"]
    found = partitions(taken)
    assert found[ORDERS_1] == PartitionReading(0, 1, 0, 6, 6, 4)
    assert found[ORDERS_0].failure == NOT_ASKED
    assert found[ORDERS_0].high_watermark is None


def test_a_second_reading_takes_the_same_census_as_the_first() -> None:
    kafka = healthy()
    first = snapshot(kafka)
    second = second_snapshot(kafka, first, [ORDERS_1])
    assert second.groups == first.groups
    assert commits(second) == {
        key: offset for key, offset in commits(first).items() if key[1].topic == "orders"
    }
    assert readers(second) == {("search", "orders")}


def elsewhere(taken: Snapshot) -> set[tuple[str, str]]:
    return {(group, topic) for group, topics in taken.other_topics.items() for topic in topics}


def test_a_second_reading_tells_also_who_reads_enabled_topics_that_it_is_not_about() -> None:
    kafka = healthy()
    kafka.join("regex", patterns=["cl.*"], kind=GroupKind.CONSUMER)
    kafka.join("elsewhere", ["secrets"])
    kafka.join("early", ["later"])
    policy = config(entry("orders"), entry("later"), pattern("cl.*ks"))
    first = snapshot(kafka, policy)
    taken = second_snapshot(kafka, first, [ORDERS_0], policy)
    assert {each.name for each in first.topics} == {"clicks", "orders"}
    assert elsewhere(taken) == {
        ("early", "later"),  # a topic that is not there yet
        ("newcomer", "clicks"),
        ("pipeline", "clicks"),  # by its commit
        ("regex", "clicks"),
        ("search", "clicks"),
    }


def test_a_second_reading_of_a_topic_that_is_gone_does_not_invent_it() -> None:
    kafka = healthy()
    first = snapshot(kafka)
    kafka.delete_topic("orders")
    taken = second_snapshot(kafka, first, [ORDERS_1])
    (gone,) = taken.topics
    assert gone.failure is not None
    assert (gone.failure.code, gone.topic_id) == ("UNKNOWN_TOPIC_OR_PARTITION", None)
    assert [each.failure for each in taken.partitions] == [NOT_ASKED]


# Who wants a topic that is not there yet


@pytest.mark.parametrize(
    ("topics", "patterns", "waits_for"),
    [
        (["later"], [], {"later"}),  # which the policy names
        (["stage.later"], [], {"stage.later"}),  # which it enables by a pattern
        (["orders", "later", "clicks"], [], {"later"}),
        (["orders"], [], set()),
        (["other.later"], [], set()),  # which it does not enable
        (["disabled"], [], set()),
        (["stage.torn"], [], {"stage.torn"}),  # its patterns contradict each other
        ([], ["l.*"], {"later"}),
        ([], ["stage.*"], {"stage.gone"}),  # which is known from earlier
        ([], [".*"], {"later", "stage.gone"}),
        ([], ["(?!orders).*"], {"later", "stage.gone"}),  # no pattern that RE2 can read
        ([], ["orders|clicks"], set()),
    ],
)
@pytest.mark.parametrize("excluded", [False, True])
def test_members_that_want_a_topic_which_is_not_there_wait_for_it(
    topics: list[str], patterns: list[str], waits_for: set[str], excluded: bool
) -> None:
    kafka = healthy()
    kafka.join("early", topics, patterns, GroupKind.CONSUMER)
    exclude: dict[str, Any] = {"groups": {"exclude": ["e.*y"]}} if excluded else {}
    policy = config(
        entry("orders", **exclude),
        entry("later", **exclude),
        {"name": "disabled", "retention.commitoffset.enable": False},
        pattern(r"stage\..*", **exclude),
        pattern(".*torn", minutes=5, **exclude),
    )
    known = Remembered({"stage.gone": KnownTopic("its-id"), "other.gone": KnownTopic("its-id")})
    taken = snapshot(kafka, policy, remembered=known)
    torn = waits_for & {"stage.torn"}  # whom nobody can exclude, as long as nobody knows how
    assert elsewhere(taken) == {("early", name) for name in (torn if excluded else waits_for)}
    assert taken.complete


def test_who_waits_for_a_topic_waits_no_more_when_it_is_there_or_it_is_gone() -> None:
    kafka = healthy()
    kafka.join("early", ["later"])
    policy = config(entry("later"))
    assert elsewhere(snapshot(kafka, policy)) == {("early", "later")}
    kafka.create_topic("later", 1)
    taken = snapshot(kafka, policy)
    assert (elsewhere(taken), readers(taken)) == (set(), {("early", "later")})
    kafka.delete_topic("later")
    kafka.leave("early")
    assert elsewhere(snapshot(kafka, policy)) == set()


def test_when_no_broker_answers_there_is_no_snapshot() -> None:
    kafka = healthy()
    for broker in list(kafka.brokers):
        kafka.kill_broker(broker)
    with pytest.raises(KafkaUnavailable):
        snapshot(kafka)


@pytest.mark.parametrize("api", ["topic_names", "coordinator_state"])
def test_when_the_cluster_or_its_topics_cannot_be_asked_there_is_no_snapshot(api: str) -> None:
    kafka = healthy()
    kafka.script.fail_next(api, KafkaUnavailable("gone"))
    with pytest.raises(KafkaUnavailable, match="gone"):
        snapshot(kafka)


def test_a_commit_of_an_earlier_epoch_comes_with_what_its_leader_says_of_it() -> None:
    kafka = healthy()
    kafka.commit("billing", {ORDERS_0: 6, ORDERS_1: 4}, leader_epoch=0)
    assert not snapshot(kafka).epoch_ends  # its leader leads in that epoch

    kafka.partition("orders", 0).lose_from(3, 2)
    kafka.produce("orders", 0, 9)
    taken = snapshot(kafka)
    at = list(partitions(taken)).index(ORDERS_0)
    assert taken.epoch_ends == {(at, 0): EpochEnd(0, 3)}
    (row,) = taken.commits.filter(taken.commits["is_replaced"]).to_pylist()
    assert taken.groups[row["group_id"]].group_id == "billing"
    assert (row["partition_id"], row["offset"], row["leader_epoch"]) == (at, 6, 0)


def test_a_commit_at_the_end_is_asked_about_too() -> None:
    """It is what a group commits that has read everything."""
    kafka = healthy()
    kafka.partition("orders", 0).lose_from(3, 2)
    kafka.produce("orders", 0, 9)
    end = partitions(snapshot(kafka))[ORDERS_0].high_watermark
    assert end is not None
    kafka.commit("billing", {ORDERS_0: end}, leader_epoch=0)
    taken = snapshot(kafka)
    (row,) = taken.commits.filter(taken.commits["is_replaced"]).to_pylist()
    assert row["offset"] == end


def test_epochs_are_asked_about_only_where_a_deletion_could_go_up_to_the_commit() -> None:
    kafka = healthy()
    kafka.commit("billing", {ORDERS_0: 0}, leader_epoch=5)
    kafka.commit("search", {ORDERS_0: 7}, leader_epoch=5)
    snapshot(kafka)
    assert not [call for call in kafka.script.calls if call.api == "epoch_ends"]


def test_a_leader_that_does_not_tell_of_an_epoch_leaves_its_partition_unread() -> None:
    kafka = healthy()
    kafka.commit("billing", {ORDERS_0: 3, ORDERS_1: 4}, leader_epoch=5)
    kafka.fail("epoch_ends", ORDERS_0, Failure("TIMED_OUT", "no answer"))
    taken = snapshot(kafka)
    assert partitions(taken)[ORDERS_0].failure == Failure("TIMED_OUT", "no answer")
    assert partitions(taken)[ORDERS_1].failure is None
    assert [*taken.epoch_ends.values()] == [EpochEnd(None, None)]
