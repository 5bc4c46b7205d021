"""The group census: who is missing, who can't be read, and what makes a listing incomplete."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.errors import KafkaUnavailable
from retentiond.gather.groups import READABLE, UNKNOWN_GROUP, GroupListing
from retentiond.kafka.groups.members import NOT_OF_ITS_KIND
from retentiond.kafka.interface import GroupMembers
from retentiond.model import Failure, GroupKind
from retentiond.snapshot import GroupReading
from tests.support.builders.gather_worlds import (
    CLICKS_0,
    ORDERS_0,
    ORDERS_1,
    commits,
    config,
    entry,
    groups,
    healthy,
    readers,
    second_snapshot,
    snapshot,
)
from tests.support.fakes import FakeCluster
from tests.support.fakes.groups import HIDDEN
from tests.support.fakes.world import OFFSETS_TOPIC

REFUSED = Failure("GROUP_AUTHORIZATION_FAILED", "not for you")

Happens = Callable[[FakeCluster], object]


def test_a_required_group_that_nobody_has_seen_is_absent() -> None:
    policy = config(entry("orders", groups={"required": ["billing", "audit"]}))
    found = groups(snapshot(healthy(), policy))
    assert found["audit"] == GroupReading("audit", GroupKind.UNKNOWN, "Absent")
    assert not found["audit"].is_live
    assert found["billing"].kind is GroupKind.CLASSIC


def test_a_group_required_for_a_topic_that_does_not_exist_is_not_invented() -> None:
    policy = config(entry("unknown", groups={"required": ["audit"]}))
    assert "audit" not in groups(snapshot(healthy(), policy))


@pytest.mark.parametrize("kind", [GroupKind.SHARE, GroupKind.STREAMS])
def test_a_live_group_of_any_kind_reads_what_its_members_do(kind: GroupKind) -> None:
    kafka = healthy()
    kafka.join("sharers", ["orders"], kind=kind)
    taken = snapshot(kafka)
    assert groups(taken)["sharers"] == GroupReading("sharers", kind, "Stable")
    assert ("sharers", "orders") in readers(taken)
    assert taken.complete


@pytest.mark.parametrize("offset", [3, None])  # None: a commit, or a start offset, that is unread
@pytest.mark.parametrize(
    ("group", "kind"), [("sharers", GroupKind.SHARE), ("billing", GroupKind.CLASSIC)]
)
def test_a_commit_is_read_as_it_is_and_fails_no_group(
    group: str, kind: GroupKind, offset: int | None
) -> None:
    kafka = healthy()
    kafka.commit(group, {ORDERS_0: offset}, kind)
    taken = snapshot(kafka)
    assert commits(taken)[group, ORDERS_0] == offset
    assert groups(taken)[group].failure is None


def test_a_group_of_an_unknown_kind_is_unreadable() -> None:
    kafka = healthy()
    kafka.commit("quantum", {ORDERS_0: 1}, GroupKind.UNKNOWN)
    assert groups(snapshot(kafka))["quantum"].failure == UNKNOWN_GROUP


def test_a_live_group_that_shows_neither_members_nor_commits_is_unreadable() -> None:
    kafka = healthy()
    kafka.groups["newcomer"].rebalancing = True
    taken = snapshot(kafka)
    assert groups(taken)["newcomer"] == GroupReading(
        "newcomer", GroupKind.CLASSIC, "PreparingRebalance", HIDDEN
    )


def test_a_rebalancing_group_is_unreadable_although_it_has_committed_on_another_topic() -> None:
    kafka = healthy()
    kafka.join("billing", ["orders", "clicks"])
    kafka.groups["billing"].rebalancing = True
    assert groups(snapshot(kafka))["billing"].failure == HIDDEN


@pytest.mark.parametrize("kind", READABLE)
def test_a_group_that_can_not_be_described_is_unreadable_whatever_it_has_committed(
    kind: GroupKind,
) -> None:
    kafka = healthy()
    kafka.join("pipeline", ["clicks", "orders"], kind=kind)
    kafka.commit("pipeline", {CLICKS_0: 2})
    kafka.fail("members", "pipeline", REFUSED)
    assert groups(snapshot(kafka))["pipeline"].failure == REFUSED


def test_the_changelogs_of_a_streams_group_are_known_with_and_without_members() -> None:
    kafka = healthy()
    kafka.join("pipeline", ["clicks"], kind=GroupKind.STREAMS)
    kafka.groups["pipeline"].changelogs = frozenset({"clicks", "elsewhere"})
    for _ in range(2):
        taken = snapshot(kafka)
        (restores,) = taken.changelogs
        assert taken.groups[restores.group].group_id == "pipeline"
        assert taken.topics[restores.topic].name == "clicks"
        assert restores in taken.readers
        kafka.groups["pipeline"].members.clear()


def test_a_classic_group_of_kafka_streams_is_known_by_its_members() -> None:
    kafka = healthy()
    kafka.join("app", ["orders"], member="app-1f3c-StreamThread-1-consumer")
    found = groups(snapshot(kafka))
    assert {name for name, group in found.items() if group.is_streams_classic} == {"app"}


def test_workers_of_kafka_connect_are_known_by_their_protocol() -> None:
    kafka = healthy()
    kafka.join("loaders", [])
    kafka.groups["loaders"].protocol = "connect"
    found = groups(snapshot(kafka))
    assert {name for name, group in found.items() if group.is_connect} == {"loaders"}


def test_an_empty_group_without_commits_is_there() -> None:
    kafka = healthy()
    kafka.leave("newcomer")
    assert groups(snapshot(kafka))["newcomer"] == GroupReading(
        "newcomer", GroupKind.CLASSIC, "Empty"
    )


def lost_sight_of(kafka: FakeCluster, group: str) -> None:
    """As when __consumer_offsets got partitions: the coordinator that is asked does not know a
    group that another broker lists."""
    kafka.commit(group, {ORDERS_0: 1})
    kafka.groups[group].commits.clear()
    kafka.fail("members", group, NOT_OF_ITS_KIND)


def test_a_listed_group_that_its_coordinator_does_not_know_may_read_anything() -> None:
    kafka = healthy()
    lost_sight_of(kafka, "moved")
    taken = snapshot(kafka)
    assert groups(taken)["moved"].failure == NOT_OF_ITS_KIND


def test_the_second_reading_describes_who_had_no_commit_in_the_first_or_is_new() -> None:
    kafka = healthy()
    kafka.leave("newcomer")
    first = snapshot(kafka)
    lost_sight_of(kafka, "moved")
    kafka.fail("members", "newcomer", NOT_OF_ITS_KIND)
    second = groups(second_snapshot(kafka, first, [ORDERS_0]))
    assert {name for name, group in second.items() if group.failure} == {"moved", "newcomer"}


def test_a_commit_on_a_partition_that_the_metadata_lacks_makes_its_group_a_reader() -> None:
    kafka = healthy()
    kafka.commit("billing", {("clicks", 7): 3})
    taken = snapshot(kafka)
    assert ("billing", "clicks") in readers(taken)
    assert ("billing", CLICKS_0) not in commits(taken)


def test_a_commit_on_a_topic_whose_metadata_is_unread_makes_its_group_a_reader() -> None:
    kafka = healthy()
    kafka.fail("describe_topics", "orders", REFUSED)
    taken = snapshot(kafka)
    assert {("billing", "orders"), ("search", "orders")} <= readers(taken)


def test_a_subscription_by_pattern_reads_what_it_matches() -> None:
    kafka = healthy()
    kafka.join("matching", patterns=["ord.*"], kind=GroupKind.CONSUMER)
    assert {topic for group, topic in readers(snapshot(kafka)) if group == "matching"} == {"orders"}


@pytest.mark.long
@pytest.mark.parametrize(
    "pattern", ["(?P<", "(?!orders).*", r"(b)\1", "a**", "\\C", "b{1001}", r"\pL" * 9_999, "\udc80"]
)
def test_a_pattern_that_re2_cannot_read_as_the_coordinator_does_may_match_anything(
    pattern: str,
) -> None:
    census = GroupListing(members={"matching": GroupMembers(frozenset(), (pattern,))})
    assert census.read_by("matching", {"orders"})


@pytest.mark.parametrize(
    ("pattern", "reads"), [("[[:alpha:]]+", True), ("[[:digit:]]+", False), ("(?i)ORDERS", True)]
)
def test_a_pattern_is_read_as_the_coordinator_reads_it(pattern: str, reads: bool) -> None:
    census = GroupListing(members={"matching": GroupMembers(frozenset(), (pattern,))})
    assert bool(census.read_by("matching", {"orders"})) is reads


@pytest.mark.timeout(120)
@pytest.mark.parametrize("pattern", ["([a-z.]+)+!", "(a|a)*b", "(.*)*x", "(.*)" * 200 + "x"])
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    census = GroupListing(members={"matching": GroupMembers(frozenset(), (pattern,))})
    assert not census.read_by("matching", {"a" * 249})


def test_a_group_nobody_described_reads_nothing_by_its_members() -> None:
    assert not GroupListing().read_by("billing", {"orders"})


def leaderless(kafka: FakeCluster) -> None:
    kafka.partition(OFFSETS_TOPIC, 2).elect(None)


def moved_to(kafka: FakeCluster, broker: int) -> None:
    kafka.move_leader(OFFSETS_TOPIC, 1, to=broker)


def hides(kafka: FakeCluster) -> None:
    kafka.may_describe_cluster = False


def a_coordinator_moves_back_and_forth(kafka: FakeCluster) -> None:
    leader = kafka.partition(OFFSETS_TOPIC, 1).leader
    assert leader is not None
    kafka.script.before("list_groups", lambda: moved_to(kafka, 3))
    kafka.script.after("list_groups", lambda: moved_to(kafka, leader))


def describing_the_cluster_is_allowed_only_after_the_listing(kafka: FakeCluster) -> None:
    hides(kafka)
    kafka.script.after("list_groups", lambda: setattr(kafka, "may_describe_cluster", True))


def the_offsets_topic_comes_into_being(kafka: FakeCluster) -> None:
    topic = kafka.topics[OFFSETS_TOPIC]
    partitions, topic.partitions = topic.partitions, []
    kafka.script.before("list_groups", lambda: topic.partitions.extend(partitions))


def a_coordinator_comes_to_work(kafka: FakeCluster) -> None:
    kafka.not_at_work = {2}
    kafka.script.after("list_groups", kafka.not_at_work.clear)


def leaders_catch_up(kafka: FakeCluster) -> None:
    """What they lack at first, they may lack for all of the listing."""
    kafka.behind = {1, 2}
    kafka.script.after("list_groups", kafka.behind.clear)


def meanwhile(happens: Happens) -> Happens:
    return lambda kafka: kafka.script.after("list_groups", lambda: happens(kafka))


GRANT = "grant it DESCRIBE on the cluster"
MOVED = "^group coordinators moved while the groups were listed$"
NO_LEADER = r"^1 partition of __consumer_offsets has no leader \(2\)"
NOT_AT_WORK = (
    r"^1 group coordinator is not available \(partition 2 of __consumer_offsets\): "
    "their groups can't be seen$"
)


@pytest.mark.parametrize(
    ("happens", "sentence"),
    [
        (leaderless, NO_LEADER),
        (meanwhile(leaderless), NO_LEADER),
        (lambda kafka: kafka.script.before("list_groups", lambda: moved_to(kafka, 3)), MOVED),
        (a_coordinator_moves_back_and_forth, MOVED),
        (lambda kafka: kafka.kill_broker(2), "^broker 2 did not list its groups"),
        (hides, GRANT),
        (describing_the_cluster_is_allowed_only_after_the_listing, GRANT),
        (
            lambda kafka: setattr(kafka, "may_describe_offsets", False),
            "grant it DESCRIBE on that topic",
        ),
        (the_offsets_topic_comes_into_being, MOVED),
        (a_coordinator_comes_to_work, NOT_AT_WORK),
        (meanwhile(lambda kafka: kafka.not_at_work.add(2)), NOT_AT_WORK),
        (
            leaders_catch_up,
            r"^2 leaders of __consumer_offsets have not caught up yet \(partitions 1, 2\): ",
        ),
    ],
)
def test_a_listing_that_could_lack_a_group_is_incomplete_and_says_why(
    happens: Happens, sentence: str
) -> None:
    kafka = healthy()
    happens(kafka)
    taken = snapshot(kafka)
    assert not taken.complete
    problems = taken.problems + taken.hidden
    assert [problem for problem in problems if re.search(sentence, problem)]
    assert all("\n" not in problem for problem in problems)


def test_groups_that_may_be_hidden_hold_only_topics_that_do_not_assume_them_visible() -> None:
    kafka = healthy()
    hides(kafka)
    trusting = entry("orders", groups_visible="assumed")
    taken = snapshot(kafka, config(trusting, entry("clicks")))
    assert not taken.complete
    assert [each.name for each in taken.topics if taken.hides_groups_of(each)] == ["clicks"]
    assert snapshot(kafka, config(trusting)).complete


@pytest.mark.parametrize("api", ["list_groups", "commits", "members"])
def test_a_census_that_breaks_off_leaves_what_it_has_seen_and_is_incomplete(api: str) -> None:
    kafka = healthy()
    kafka.script.fail_next(api, KafkaUnavailable("broker 2 went away"))
    policy = config(entry("orders", groups={"required": ["billing"]}))
    taken = snapshot(kafka, policy)
    assert taken.problems == ("broker 2 went away",)
    assert len(taken.partitions) == 2
    if api == "list_groups":
        assert groups(taken) == {"billing": GroupReading("billing", GroupKind.UNKNOWN, "Absent")}
        return
    assert {*groups(taken)} == {"billing", "newcomer", "pipeline", "search", "stranger"}
    assert set(commits(taken)) == (
        set()
        if api == "commits"
        else {("billing", ORDERS_0), ("billing", ORDERS_1), ("search", ORDERS_0)}
    )


def test_a_cluster_where_nobody_has_committed_yet_is_complete() -> None:
    kafka = FakeCluster()
    kafka.topics[OFFSETS_TOPIC].partitions = []
    kafka.create_topic("orders")
    taken = snapshot(kafka)
    assert taken.complete
    assert taken.groups == ()


@given(
    st.frozensets(st.sampled_from(["a", "a.b", "ab", "b", "é"])),
    st.frozensets(st.sampled_from(["a", "b", "not.there"])),
    st.lists(st.sampled_from(["a.*", "b", ".*é", "a\\..", "(", "\\Ca"]), max_size=3),
)
def test_who_reads_a_topic_by_pattern_is_found_whatever_was_asked_before(
    names: frozenset[str], topics: frozenset[str], patterns: list[str]
) -> None:
    """One that can't be compiled, or means something else to the coordinator, may match any."""
    listing = GroupListing(members={"g": GroupMembers(topics, tuple(patterns))})
    expected = {
        name
        for name in names
        if name in topics
        or any(each in {"(", "\\Ca"} or re.fullmatch(each, name) for each in patterns)
    }
    assert listing.read_by("g", names) == expected
