"""What counts as an orphan, and what is left alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from retentiond.errors import StateError, UsageError
from retentiond.fields import document_of
from retentiond.kafka.log_dirs import TopicReplicas
from retentiond.model import Failure
from retentiond.tools.orphans.orphan import Fate, Scan
from tests.support.builders.orphans_host import (
    BROKER,
    DAY_MS,
    HEX,
    HOUR_MS,
    NEW_ID,
    OLD_ID,
    Host,
    stray,
)
from tests.support.waiting import eventually


def found(look: Scan) -> dict[str, str]:
    return {orphan.folder.name: orphan.why for orphan in look.orphans}


def test_what_the_cluster_assigns_to_this_broker_is_no_orphan(host: Host) -> None:
    host.put("orders-0")
    host.cluster.assign("orders", 8, BROKER)
    assert found(host.look()) == {}


def test_what_the_cluster_does_not_assign_to_it_is_one(host: Host) -> None:
    for name in ("gone-0", "moved-0", "shrunk-1", "recreated-0"):
        host.put(name)
    host.cluster.assign("moved", 8, 9)
    host.cluster.assign("shrunk", BROKER)
    host.cluster.assign("recreated", BROKER, topic_id=NEW_ID)
    assert found(host.look()) == {
        "gone-0": "there is no such topic",
        "moved-0": "other brokers have the replicas",
        "shrunk-1": "the topic has no such partition",
        "recreated-0": "the topic was recreated, with another id",
    }


def test_a_folder_without_a_topic_id_is_told_by_its_name(host: Host) -> None:
    host.put("orders-0", topic_id=None)
    host.put("gone-0", topic_id=None)
    host.cluster.assign("orders", BROKER, topic_id=NEW_ID)
    assert set(found(host.look())) == {"gone-0"}


def test_one_broker_that_says_so_is_enough_for_a_replica(host: Host) -> None:
    host.put("orders-0")
    host.cluster.assign("orders", 8)
    host.cluster.by_broker[9] = {"orders": TopicReplicas(OLD_ID, {0: frozenset({8, BROKER})})}
    assert found(host.look()) == {}


def test_the_copy_of_a_move_is_the_replicas(host: Host) -> None:
    name = f"orders-0.{HEX}-future"
    host.put(name)
    host.cluster.assign("orders", BROKER)
    assert found(host.look()) == {}
    host.cluster.assign("orders", 8)
    assert set(found(host.look())) == {name}


def test_what_the_broker_is_about_to_delete_is_left_to_it(host: Host) -> None:
    host.put(f"gone-0.{HEX}-delete")
    look = host.remove()
    assert (look.orphans, look.unclear) == ((), ())
    assert host.names() == {f"gone-0.{HEX}-delete"}


def test_a_stray_of_a_partition_elsewhere_is_an_orphan(host: Host) -> None:
    name = stray("orders")
    host.put(name)
    host.cluster.assign("orders", 8)
    assert found(host.look()) == {name: "other brokers have the replicas"}


def test_a_stray_of_a_partition_of_this_broker_counts_only_beside_its_replica(host: Host) -> None:
    name = stray("orders")
    host.put(name)
    host.cluster.assign("orders", BROKER)
    assert found(host.look()) == {}
    host.put("orders-0")
    assert found(host.look()) == {name: "another folder is the broker's replica now"}


def test_kafkas_own_folders_are_not_looked_at(host: Host) -> None:
    for name in ("__cluster_metadata-0", "remote-log-index-cache"):
        (host.log_dir / name).mkdir()
    look = host.look()
    assert (look.orphans, look.unclear) == ((), ())


def test_what_is_not_understood_is_named_and_left_alone(host: Host, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (host.log_dir / "linked-0").symlink_to(tmp_path / "elsewhere")
    (host.log_dir / "lost+found").mkdir()
    (host.put("damaged-0") / "partition.metadata").write_text("version: 1\ntopic_id: what")
    (host.put("odd-0", topic_id=None) / "partition.metadata").symlink_to(tmp_path / "elsewhere")
    cut = "t" * (255 - 41) + f"-0.{HEX}-stray"
    host.put(cut)
    look = host.remove()
    assert look.orphans == ()
    assert {each.name: each.why for each in look.unclear} == {
        "linked-0": "it is a symbolic link",
        "lost+found": "its name is no partition's",
        "damaged-0": "its partition.metadata can't be read",
        "odd-0": "its partition.metadata can't be read",
        cut: "Kafka may have cut the topic's name short",
    }
    assert host.names() == {"linked-0", "lost+found", "damaged-0", "odd-0", cut}


def test_orphans_and_their_bytes_are_counted_by_directory(host: Host, tmp_path: Path) -> None:
    second = tmp_path / "second"
    host.add_log_dir(second)
    host.log_dirs.append(second)
    host.put("gone-0")
    host.put("gone-1", ages_ms=[DAY_MS, DAY_MS])
    host.put("orders-0", log_dir=second)
    host.cluster.assign("orders", BROKER)
    assert [document_of(of_log_dir) for of_log_dir in host.look().log_dirs] == [
        {"log_dir": str(host.log_dir), "count": 2, "size_bytes": 3 * 161},
        {"log_dir": str(second), "count": 0, "size_bytes": 0},
    ]


def test_an_answer_with_an_error_is_no_evidence(host: Host) -> None:
    host.put("hidden-0")
    host.put("unsure-0")
    host.cluster.topics["hidden"] = Failure("TOPIC_AUTHORIZATION_FAILED", "no")
    host.cluster.topics["unsure"] = TopicReplicas(OLD_ID, {0: frozenset()}, frozenset({0}))
    look = host.look()
    assert look.orphans == ()
    assert {each.name for each in look.unclear} == {"hidden-0", "unsure-0"}


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("silent", "broker 9 did not tell its view"),
        ("down", "the cluster knows no broker 7 now"),
        ("forbidden", "may not DESCRIBE the cluster"),
        ("clockless", "the cluster's clock could not be read"),
        ("no retention", "broker 7 does not tell its log.retention"),
        ("dead", "no broker is alive"),
    ],
)
def test_an_incomplete_reading_lets_nothing_go_and_forgets_nothing(
    host: Host, trouble: str, said: str
) -> None:
    host.put("gone-0")
    host.look()
    cluster = host.cluster
    match trouble:
        case "silent":
            cluster.by_broker[9] = Failure("_TIMED_OUT", "")
        case "down":
            cluster.registered = [8, 9]
        case "forbidden":
            cluster.may_describe_cluster = False
        case "clockless":
            cluster.clock = Failure("LEADER_NOT_AVAILABLE", "")
        case "no retention":
            cluster.retention = Failure("CLUSTER_AUTHORIZATION_FAILED", "")
            (memory,) = host.state_dir.glob("orphans-*.json")
            text = memory.read_text()
            memory.write_text(text.replace(f'"retention_ms":{7 * DAY_MS}', '"retention_ms":null'))
        case "dead":
            cluster.live = []
    look = host.look(after_ms=3 * HOUR_MS, remove=True)
    assert any(said in problem for problem in look.problems)
    assert all(orphan.fate is Fate.KEPT for orphan in look.orphans)
    assert host.names() == {"gone-0"}
    host.cluster.__init__()  # type: ignore[misc]  # as new
    (orphan,) = host.look(after_ms=3 * HOUR_MS).orphans
    assert orphan.fate is Fate.REMOVABLE


def test_a_broker_that_is_down_keeps_the_retention_that_it_told_before(host: Host) -> None:
    host.put("gone-0", ages_ms=[2 * DAY_MS])
    host.cluster.retention = DAY_MS
    host.look()
    host.cluster.live = [8, 9]
    host.cluster.retention = Failure("not to be asked", "")
    look = host.look(after_ms=3 * HOUR_MS)
    assert (look.problems, look.retention_ms) == ((), DAY_MS)
    assert [orphan.fate for orphan in look.orphans] == [Fate.REMOVABLE]


def test_a_broker_that_is_up_and_does_not_tell_its_retention_is_not_taken_by_an_old_one(
    host: Host,
) -> None:
    host.put("gone-0", ages_ms=[2 * DAY_MS])
    host.cluster.retention = DAY_MS
    host.look()
    host.cluster.retention = Failure("REQUEST_TIMED_OUT", "")
    look = host.look(after_ms=3 * HOUR_MS)
    assert "broker 7 does not tell its log.retention" in look.problems[0]
    assert [orphan.fate for orphan in look.orphans] == [Fate.KEPT]


def test_an_assignment_that_an_incomplete_look_saw_begins_the_time_anew(host: Host) -> None:
    host.put("gone-0")
    host.look()
    host.cluster.assign("gone", BROKER)
    host.cluster.by_broker[9] = Failure("REQUEST_TIMED_OUT", "")
    assert host.look(after_ms=HOUR_MS).problems
    host.cluster.by_broker.clear()
    host.cluster.assign("gone", 8)
    (orphan,) = host.look(after_ms=3 * HOUR_MS).orphans
    assert (orphan.fate, orphan.observed_ms) == (Fate.KEPT, 0)


@pytest.mark.parametrize("was_alive", [True, False])
def test_where_the_cluster_does_not_tell_who_is_down_it_counts_that_the_broker_was_seen(
    host: Host, was_alive: bool
) -> None:
    """As before Kafka 4.0."""
    host.put("gone-0")
    host.cluster.tells_fenced = False
    host.terms = replace(host.terms, retention_ms=DAY_MS)
    if was_alive:
        host.look()
    host.cluster.live = host.cluster.registered = [8, 9]
    problems = host.look().problems
    known = "the cluster knows no broker 7 now; start it, or look at its id"
    assert problems == (() if was_alive else (known,))


def test_another_cluster_is_refused(host: Host) -> None:
    host.cluster.cluster_id = "Kanother"
    with pytest.raises(UsageError, match="--bootstrap-server is cluster Kanother"):
        host.look()


def test_directories_of_two_brokers_are_refused(host: Host, tmp_path: Path) -> None:
    host.add_log_dir(tmp_path / "other", broker=8)
    host.log_dirs.append(tmp_path / "other")
    with pytest.raises(UsageError, match="once for each broker"):
        host.look()


@pytest.mark.parametrize(
    "text", [None, "", "node.id=x\ncluster.id=K\n", "node.id=1\n", "node.id=1\ncluster.id=../K\n"]
)
def test_a_directory_that_is_no_brokers_is_refused(host: Host, text: str | None) -> None:
    meta = host.log_dir / "meta.properties"
    if text is None:
        meta.unlink()
    else:
        meta.write_text(text)
    with pytest.raises(UsageError, match=r"meta\.properties"):
        host.look()


def test_a_log_directory_may_be_a_link_and_counts_once(host: Host, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(host.log_dir)
    host.log_dirs.append(tmp_path / "link")
    host.put("gone-0")
    (of_log_dir,) = host.look().log_dirs
    assert (of_log_dir.count, of_log_dir.size_bytes) == (1, 161)


def test_a_directory_that_is_not_there_is_refused(host: Host, tmp_path: Path) -> None:
    host.log_dirs.append(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is not there"):
        host.look()


def since(look: Scan) -> int:
    (orphan,) = look.orphans
    return orphan.since_ms


def test_an_orphan_is_remembered_over_looks(host: Host) -> None:
    host.put("gone-0")
    first = since(host.look())
    assert since(host.look(after_ms=HOUR_MS)) == first


def test_a_folder_that_was_assigned_meanwhile_counts_from_anew(host: Host) -> None:
    host.put("gone-0")
    first = since(host.look())
    host.cluster.assign("gone", BROKER)
    host.look(after_ms=HOUR_MS)
    host.cluster.assign("gone", 8)
    assert since(host.look(after_ms=2 * HOUR_MS)) >= first + 2 * HOUR_MS


def test_a_folder_that_was_changed_meanwhile_counts_from_anew(host: Host) -> None:
    folder = host.put("gone-0")
    first = since(host.look())
    checkpoint = folder / "leader-epoch-checkpoint"

    def changed_ms() -> int:
        checkpoint.chmod(0o600)  # which changes its ctime, to the kernel's tick
        return checkpoint.stat().st_ctime_ns // 1_000_000

    eventually(changed_ms, lambda changed: changed > first)
    assert since(host.look(after_ms=HOUR_MS)) >= first + HOUR_MS


def test_another_folder_of_the_same_name_counts_from_anew(host: Host) -> None:
    folder = host.put("gone-0")
    first = since(host.look())
    folder.rename(host.log_dir.parent / "kept")
    host.put("gone-0")
    assert since(host.look(after_ms=HOUR_MS)) >= first + HOUR_MS


def test_a_clock_that_went_back_counts_from_anew(host: Host) -> None:
    host.put("gone-0")
    first = since(host.look())
    host.cluster.clock = first - HOUR_MS
    assert since(host.look()) == first - HOUR_MS


def test_a_clock_that_was_behind_once_makes_no_orphan_older(host: Host) -> None:
    """Seen for the first time "40 days ago", it is to wait all of its two hours. Nothing in it was
    changed in these 40 days, or it would count from then on."""
    host.put("gone-0", ages_ms=[90 * DAY_MS])
    first_ms = 60 * DAY_MS
    host.look(after_ms=first_ms, wrong_by_ms=-40 * DAY_MS)
    (kept,) = host.look(after_ms=first_ms + HOUR_MS, remove=True).orphans
    assert kept.fate is Fate.KEPT
    assert kept.reason is not None
    assert "for too short a time" in kept.reason
    (gone,) = host.look(after_ms=first_ms + 3 * HOUR_MS, remove=True).orphans
    assert gone.fate is Fate.REMOVED


def test_what_passed_while_the_host_was_down_counts_for_nothing(host: Host) -> None:
    host.put("gone-0")
    for after_ms, boot, fate in (
        (0, "first", Fate.KEPT),
        (HOUR_MS, "first", Fate.KEPT),  # one hour
        (24 * HOUR_MS, "second", Fate.KEPT),
        (24 * HOUR_MS + HOUR_MS // 2, "second", Fate.KEPT),  # an hour and a half
        (25 * HOUR_MS, "second", Fate.REMOVABLE),
    ):
        (orphan,) = host.look(after_ms=after_ms, boot=boot).orphans
        assert orphan.fate is fate


def test_directories_that_are_not_looked_at_are_not_forgotten(host: Host, tmp_path: Path) -> None:
    host.put("gone-0")
    first = since(host.look())
    second = tmp_path / "second"
    host.add_log_dir(second)
    host.log_dirs = [second]
    host.look(after_ms=HOUR_MS)
    host.log_dirs = [host.log_dir]
    assert since(host.look(after_ms=2 * HOUR_MS)) == first


@pytest.mark.parametrize(
    "damaged",
    [
        '{"version": 2, "first_seen_ms": [{"log_dir": "/a"}]}',
        '{"version": 2, "first_seen_ms": [3]}',
        '{"version": 2, "looked_at": 3}',
        '{"version": 2, "looked_at": ["boot"]}',
        '{"version": 2, "retention_ms": "7"}',
        '{"version": 2, "retention_ms": true}',
        '{"version": 2, "was_alive": 1}',
        '{"version": 1}',
        '{"version": 2',
        "[]",
    ],
)
def test_a_damaged_memory_is_refused(host: Host, damaged: str) -> None:
    host.look()
    (memory,) = host.state_dir.glob("orphans-*.json")
    memory.write_text(damaged)
    with pytest.raises(StateError, match="is damaged; move it away"):
        host.look()


@pytest.mark.parametrize(
    ("terms", "retention", "ages", "reason"),
    [
        ({}, 7 * DAY_MS, [8 * DAY_MS], None),
        ({}, 7 * DAY_MS, [6 * DAY_MS, 8 * DAY_MS], "within the retention period"),
        ({}, 7 * DAY_MS, [-DAY_MS], "within the retention period"),
        ({"retention_ms": DAY_MS}, 7 * DAY_MS, [2 * DAY_MS], None),
        ({"retention_ms": DAY_MS}, None, [2 * DAY_MS], None),
        ({}, None, [900 * DAY_MS], "retention is unlimited"),
        ({"after_ms": DAY_MS}, 0, [DAY_MS], "for too short a time: 21 hours more"),
    ],
)
def test_an_orphan_may_go_when_it_and_its_records_are_old_enough(
    host: Host, terms: dict[str, int], retention: int | None, ages: list[int], reason: str | None
) -> None:
    host.terms = replace(host.terms, **terms)
    host.cluster.retention = retention
    host.put("gone-0", ages_ms=ages)
    host.look()
    (orphan,) = host.look(after_ms=3 * HOUR_MS).orphans
    if reason is None:
        assert (orphan.fate, orphan.reason) == (Fate.REMOVABLE, None)
    else:
        assert orphan.fate is Fate.KEPT
        assert reason in str(orphan.reason)


def test_a_folder_without_any_record_is_as_old_as_its_segment(host: Host) -> None:
    folder = host.put("gone-0", ages_ms=[])
    host.look()
    (orphan,) = host.look(after_ms=3 * HOUR_MS).orphans
    assert "within the retention period" in str(orphan.reason)
    os.utime(folder / f"{0:020}.log", (0, 0))
    host.look()
    (orphan,) = host.look(after_ms=3 * HOUR_MS).orphans
    assert orphan.fate is Fate.REMOVABLE
