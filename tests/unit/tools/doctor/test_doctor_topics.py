"""What the policy's entries match, and what keeps a topic from losing a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from retentiond.act.evidence import Evidence
from retentiond.config import Config, TopicPolicy
from retentiond.gather.groups import GroupListing
from retentiond.gather.topics import NO_ID, EnabledTopic
from retentiond.kafka.interface import GroupMembers
from retentiond.kafka.topics import Operations
from retentiond.memory.readers import GroupOnTopic, RememberedReader
from retentiond.memory.remembered import NOTHING, Remembered
from retentiond.model import Commit, Failure, GroupKind, TopicPartition
from retentiond.snapshot import GroupReading
from retentiond.tools.doctor.examine import evidence_about
from retentiond.tools.doctor.finding import Finding, Level, PartitionLog
from retentiond.tools.doctor.groups import (
    check_external,
    check_groups,
    check_readers,
    check_unseen,
)
from retentiond.tools.doctor.topics import (
    check_entries,
    check_topics,
    check_undated,
    deletable,
    read_undated,
)
from tests.support.builders.examined_clusters import DAY_MS, bad, config, only, topic
from tests.support.builders.remembered import readers_table
from tests.support.fakes import FakeCluster

NOTHING_TOLD: dict[str, Operations | Failure] = {}

ORDERS = config({"name": "orders", "retention.commitoffset.hours": 1})


def test_a_pattern_matches_whole_names_and_one_that_matches_none_is_a_warning() -> None:
    mine = config({"name": "orders"}, {"pattern": "stage"})
    found = only(check_entries(mine, frozenset({"orders", "stage.a"}), NOTHING_TOLD))
    assert (found.level, found.subject) == (Level.WARNING, "topics[1]")


def test_an_exact_name_that_does_not_exist_is_a_warning() -> None:
    absent = {"orders": Failure("UNKNOWN_TOPIC_OR_PARTITION", "")}
    found = only(check_entries(ORDERS, frozenset(), absent))
    assert (found.level, found.sentence) == (Level.WARNING, "there is no topic orders")


def test_an_entry_that_switches_off_or_excepts_what_does_not_exist_is_a_warning() -> None:
    off = {"retention.commitoffset.enable": False}
    mine = config(
        {"pattern": ".*", "except": ["orders", "audti.*"]},
        {"pattern": "ledgers.*", **off},
        {"name": "audti", **off},
        {"name": "orders", **off},
    )
    found = check_entries(mine, frozenset({"orders", "audit"}), NOTHING_TOLD)
    assert [(each.subject, each.sentence) for each in found if each.level is Level.WARNING] == [
        (
            "topics[0].except[1]",
            "the exception audti.* matches no topic that is visible here, so it keeps records of "
            "none",
        ),
        (
            "topics[1]",
            "the pattern ledgers.* matches no topic that is visible here, so it keeps records of "
            "none",
        ),
        ("topics[2]", "there is no topic audti, so it keeps records of none"),
    ]


def test_a_policy_that_enables_nothing_is_a_warning() -> None:
    mine = config({"name": "orders", "retention.commitoffset.enable": False})
    assert bad(check_entries(mine, frozenset({"orders"}), NOTHING_TOLD)) == [
        (Level.WARNING, "topics")
    ]


def test_a_topic_that_goes_with_its_policy_is_ok() -> None:
    (found,) = check_topics([topic("orders", ORDERS)], ORDERS)
    assert found.level is Level.OK


def test_topics_that_are_held_for_one_reason_are_one_finding_in_the_guards_words() -> None:
    mine = config({"name": "a"}, {"name": "b"}, {"pattern": "c.*"})
    found = check_topics([topic(name, mine, failure=NO_ID) for name in ("a", "b", "c1")], mine)
    meant, caught = found
    assert (meant.level, meant.subject, meant.names) == (Level.PROBLEM, "2 topics", ("a", "b"))
    assert "inter.broker.protocol.version" in meant.sentence
    assert meant.remedy == "retentiond explain TOPIC says what to do"
    assert (caught.level, caught.subject) == (Level.WARNING, "topic c1")
    assert caught.remedy == "retentiond explain c1 says what to do"


def test_topics_of_streams_are_told_by_their_names() -> None:
    mine = config({"pattern": ".*"})
    names = ("a-store-changelog", "a-repartition", "orders")
    assert bad(check_topics([topic(name, mine) for name in names], mine)) == [
        (Level.WARNING, "topic a-store-changelog"),
        (Level.WARNING, "topic a-repartition"),
    ]


def test_patterns_that_disagree_about_a_topic_are_a_problem() -> None:
    mine = config({"pattern": "ord.*"}, {"pattern": ".*", "retention.commitoffset.hours": 1})
    found = only(check_topics([topic("orders", mine)], mine))
    assert found.level is Level.PROBLEM
    assert "topics[0] and topics[1]" in found.sentence


def listing(*committed: str, reading: tuple[str, ...] = (), on: str = "orders") -> GroupListing:
    """Groups that have committed on a topic, and others with a member that subscribes to it."""
    kind = GroupKind.CLASSIC
    return GroupListing(
        groups={name: GroupReading(name, kind, "Stable") for name in (*committed, *reading)},
        commits={name: [Commit(on, 0, 5)] for name in committed},
        members={name: GroupMembers(frozenset({on})) for name in reading},
    )


def evidence(topic: EnabledTopic, seen: GroupListing, remembered: Remembered = NOTHING) -> Evidence:
    policy = topic.reading.policy
    readers = policy.external_readers if isinstance(policy, TopicPolicy) else ()
    return evidence_about([topic], seen, dict.fromkeys(readers, ()), remembered)


def about_readers(
    of: Config, seen: GroupListing, remembered: Remembered = NOTHING
) -> Iterator[Finding]:
    orders = topic("orders", of)
    return check_readers([orders], evidence(orders, seen, remembered))


EXTERNAL = config(
    {"name": "orders", "groups": {"external": [{"name": "lake", "offsets": "/offsets.json"}]}}
)
(LAKE,) = EXTERNAL.entries[0].policy.external_readers


REMEMBERED = Remembered(
    readers=readers_table(
        {GroupOnTopic("a", "orders"): RememberedReader(GroupKind.CLASSIC, {0: 5})}
    )
)

REQUIRING = config({"name": "orders", "groups": {"required": ["a"]}})

SILENT = config({"name": "orders"}, {"name": "x", "retention.commitoffset.enable": None})

DENIED = {"orders": Failure("TOPIC_AUTHORIZATION_FAILED", "")}


@pytest.mark.parametrize(
    "found",
    [
        check_entries(config({"pattern": "ord.*"}), frozenset({"orders"}), NOTHING_TOLD),
        check_entries(SILENT, frozenset({"orders"}), NOTHING_TOLD),  # of x nothing is said
        check_entries(ORDERS, frozenset(), DENIED),  # it may be there
        check_topics([topic("orders", ORDERS, retention_ms=None)], ORDERS),
        about_readers(ORDERS, listing("a")),
        about_readers(ORDERS, listing(reading=("b",))),
        about_readers(EXTERNAL, listing()),
        about_readers(ORDERS, listing(), REMEMBERED),
        about_readers(REQUIRING, listing(), REMEMBERED),
    ],
)
def test_nothing_is_said_of_what_is_well(found: Iterable[Finding]) -> None:
    assert bad(found) == []


def test_a_topic_that_only_an_excluded_group_reads_is_a_warning() -> None:
    mine = config({"name": "orders", "groups": {"exclude": ["console-.*"]}})
    found = only(about_readers(mine, listing("console-1")))
    assert (found.level, found.subject) == (Level.WARNING, "topic orders")


def test_groups_that_read_and_do_not_count_because_of_only_are_a_warning() -> None:
    mine = config({"name": "orders", "groups": {"only": ["a"], "exclude": ["console-.*"]}})
    found = only(about_readers(mine, listing("a", "console-1", reading=("b",))))
    assert (found.level, found.subject) == (Level.WARNING, "topic orders")
    assert found.sentence == (
        "does not wait for b, which reads it: only groups that match a count (groups.only)"
    )
    assert bad(about_readers(mine, listing("a", "console-1"))) == []


LOGS = {TopicPartition("orders", 0): PartitionLog(0, 10, None)}


@pytest.mark.parametrize(("offset", "level"), [(10, Level.OK), (11, Level.PROBLEM)])
def test_an_external_reader_beyond_the_end_is_not_well(offset: int, level: Level) -> None:
    position = (Commit("orders", 0, offset), Commit("clicks", 0, 5000))
    (found,) = check_external([topic("orders", EXTERNAL)], {LAKE: position}, (), LOGS)
    assert (found.level, found.subject) == (level, "external reader lake")
    if level is Level.PROBLEM:
        assert found.sentence == (
            "its position lies beyond the end, so orders is held: orders-0 ends at 10, its "
            "position is 11"
        )


def test_an_external_readers_position_is_said() -> None:
    position = (Commit("orders", 0, 5), Commit("clicks", 0, 1))
    (found,) = check_external([topic("orders", EXTERNAL)], {LAKE: position}, (), LOGS)
    assert (found.level, found.subject) == (Level.OK, "external reader lake")
    assert found.sentence == "its position is read: 2 partitions of 2 topics"


def test_a_position_that_names_a_topic_whose_policy_does_not_name_the_reader_is_told() -> None:
    both = config(
        {"name": "orders", "groups": {"external": [{"name": "lake", "offsets": "/offsets.json"}]}},
        {"name": "clicks"},
    )
    position = (Commit("orders", 0, 5), Commit("clicks", 0, 1))
    topics = [topic("orders", both), topic("clicks", both)]
    found = only(check_external(topics, {LAKE: position}, (), LOGS))
    assert (found.level, found.subject) == (Level.WARNING, "external readers")
    assert "external reader lake names topic clicks" in found.sentence
    assert "name it under groups.external" in (found.remedy or "")


def test_an_external_readers_position_that_can_not_be_read_is_a_problem_of_its_own_kind() -> None:
    failure = Failure("EXTERNAL_READER", "no batch is committed in /lake")
    found = only(check_external([topic("orders", EXTERNAL)], {LAKE: failure}, (), LOGS))
    assert (found.level, found.subject) == (Level.PROBLEM, "external reader lake")
    assert found.sentence == "can't be read, so orders is held: no batch is committed in /lake"
    assert "groups.external" in (found.remedy or "")
    assert "DESCRIBE" not in (found.remedy or "")


def test_an_external_reader_that_lacks_a_partition_or_has_a_groups_name_is_not_well() -> None:
    topics = [topic("orders", EXTERNAL)]
    lacking = only(check_external(topics, {LAKE: ()}, (), LOGS))
    assert (lacking.level, lacking.subject) == (Level.WARNING, "topic orders")
    namesake = only(check_external(topics, {LAKE: (Commit("orders", 0, 1),)}, ("lake",), LOGS))
    assert "has the name of a group of the cluster" in namesake.sentence


def test_what_the_guard_objects_to_about_readers_is_a_warning() -> None:
    app = GroupReading("app", GroupKind.STREAMS, "Stable")
    members = {"app": GroupMembers(frozenset(), changelogs=frozenset({"orders"}))}
    found = only(about_readers(ORDERS, GroupListing(groups={"app": app}, members=members)))
    assert (found.level, found.subject) == (Level.WARNING, "topic orders")
    assert "held: the topic is a changelog of group app" in found.sentence


def test_sources_of_classic_streams_and_what_speaks_for_unseen_readers_are_warnings() -> None:
    app = GroupReading("app", GroupKind.CLASSIC, "Stable", is_streams_classic=True)
    seen = GroupListing(groups={"app": app}, commits={"app": [Commit("orders", 0, 5)]})
    names = frozenset({"orders", "clicks", "a.checkpoints.internal"})
    sign, source = check_unseen(names, evidence(topic("orders", ORDERS), seen))
    assert (sign.level, sign.subject) == (Level.WARNING, "readers that commit nothing")
    assert "topic a.checkpoints.internal is MirrorMaker 2's" in sign.sentence
    assert (source.level, source.subject) == (Level.WARNING, "topic orders")
    assert "read by group app, which looks like Kafka Streams" in source.sentence
    assert "global tables" in (source.remedy or "")


def test_wherever_readers_are_said_to_be_there_those_that_commit_nothing_are_said_unseen() -> None:
    (found,) = about_readers(ORDERS, listing("a"))
    assert found.level is Level.OK
    assert "readers that commit nothing can't be seen" in found.sentence


def test_a_required_group_that_has_not_committed_is_named() -> None:
    mine = config({"name": "orders", "groups": {"required": ["billing", "search"]}})
    found = only(about_readers(mine, listing("search")))
    assert found.level is Level.WARNING
    assert found.sentence == "held: group billing is required, and has never committed on it"


def test_a_group_that_can_not_be_read_is_a_problem_and_named() -> None:
    failure = Failure("GROUP_AUTHORIZATION_FAILED", "not authorized")
    unreadable = GroupReading("secret", GroupKind.CLASSIC, "Empty", failure)
    seen = GroupListing(groups={"secret": unreadable, **listing("open").groups})
    found = only(check_groups(seen))
    assert (found.level, found.subject) == (Level.PROBLEM, "group secret")
    assert "GROUP_AUTHORIZATION_FAILED" in found.sentence
    assert found.remedy is not None
    assert "DESCRIBE on GROUP" in found.remedy


def test_an_error_that_nobody_foresaw_has_a_remedy_too() -> None:
    failure = Failure("ERROR_4711", "this version does not know that error")
    unreadable = GroupReading("odd", GroupKind.CLASSIC, "Empty", failure)
    assert only(check_groups(GroupListing(groups={"odd": unreadable}))).level is Level.PROBLEM


def test_groups_that_can_not_be_listed_are_a_problem_and_nobody_is_said_to_be_missing() -> None:
    seen = GroupListing(problems=("broker 3 did not list its groups: refused",))
    assert only(check_groups(seen)).level is Level.PROBLEM
    assert list(about_readers(ORDERS, seen)) == []


def test_retention_is_compared_in_milliseconds() -> None:
    week = config({"name": "orders"})
    assert bad(check_topics([topic("orders", week, retention_ms=7 * DAY_MS + 1)], week)) == []
    equal = only(check_topics([topic("orders", week, retention_ms=7 * DAY_MS)], week))
    assert equal.level is Level.WARNING
    assert equal.sentence.startswith(
        "it frees nothing: its consumed retention of 7 days is not shorter"
    )
    assert bad(check_topics([topic("orders", week, retention_ms=7 * DAY_MS - 1)], week)) == [
        (Level.PROBLEM, "topic orders")
    ]


def test_a_pattern_that_frees_nothing_of_many_topics_is_one_warning() -> None:
    mine = config({"pattern": "stage.*"}, {"name": "orders"})
    topics = [topic(f"stage.{at}", mine, retention_ms=7 * DAY_MS) for at in range(9)]
    found = check_topics([*topics, topic("orders", mine, retention_ms=7 * DAY_MS)], mine)
    of_pattern, of_name = found
    assert (of_pattern.level, of_pattern.subject) == (Level.WARNING, "9 topics")
    assert of_pattern.names == tuple(f"stage.{at}" for at in range(9))
    assert of_pattern.sentence.endswith(": stage.0, stage.1, stage.2, stage.3 and 5 more")
    assert of_name.subject == "topic orders"


def test_topics_from_which_nothing_is_ever_deleted_are_left_to_that_finding() -> None:
    mine = config({"pattern": ".*"}, {"name": "allowed", "allow_compacted": True})
    both = frozenset({"compact", "delete"})
    topics = [
        topic("orders", mine),
        topic("allowed", mine, cleanup_policy=both),
        topic("unallowed", mine, cleanup_policy=both),
        topic("compacted", mine, cleanup_policy=frozenset({"compact"})),
        topic("__consumer_offsets", mine, is_internal=True),
    ]
    assert [each.reading.name for each in deletable(topics)] == ["orders", "allowed"]


def test_topics_whose_records_have_no_timestamp_are_one_warning() -> None:
    """Unless their age does not matter."""
    stamps_ms = {"orders": FakeCluster().now_ms - DAY_MS, "clicks": -1, "views": -2, "any": -1}
    mine = config(
        {"pattern": ".*", "retention.commitoffset.hours": 1},
        {"name": "any", "retention.commitoffset.ms": 0},
    )
    kafka = FakeCluster()
    for name, stamp_ms in stamps_ms.items():
        kafka.create_topic(name)
        kafka.produce(name, 0, 3, timestamp_ms=stamp_ms)
    logs = {TopicPartition(name, 0): PartitionLog(0, 3, None) for name in stamps_ms}
    topics = [topic(name, mine) for name in stamps_ms]
    found = only(check_undated(read_undated(kafka, topics, logs, kafka.now_ms)))
    assert (found.level, found.names) == (Level.WARNING, ("clicks", "views"))
