"""``retentiond plan``'s first looks on a real broker that it has never seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from retentiond.config import load
from retentiond.kafka.interface import OffsetBound
from retentiond.model import TopicPartition
from tests.contract.real import RealDriver
from tests.support.brokers.command import SPARK, Document, Done, write
from tests.support.command_here import run_here
from tests.support.tiers import OwnKafka

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000

DAY_MS = 24 * HOUR_MS

RECORDS = 10

CHANGELOG = "app-store-changelog"

SEGMENTED = 40
"""Records of a topic whose segments hold about ten of them."""

JOURNALS = {
    "schema-changes.inventory": str(2**63 - 1),  # as Debezium makes it
    "ledger": "-1",  # a name that says nothing
}
"""Topics that a system reads from their beginning, each with its ``retention.ms``."""

TOPICS = (
    *("orders", "slow", "young", "unread", "compacted", "short", "segmented", CHANGELOG),
    *JOURNALS,
)


@dataclass(frozen=True)
class Seen:
    """A cluster, and what a first look at it printed and wrote."""

    servers: str
    driver: RealDriver
    folder: Path
    done: Done

    def topic(self, name: str) -> Document:
        topics = {topic["topic"]: topic for topic in self.done.plan["topics"]}
        found: Document = topics[name]
        return found

    def row(self, name: str) -> Document:
        (row,) = (row for row in self.done.plan["partitions"] if row["topic"] == name)
        found: Document = row
        return found


def populate(driver: RealDriver) -> None:
    two_days_ago = driver.now_ms - 2 * DAY_MS
    configs = {
        "compacted": {"cleanup.policy": "compact"},
        "short": {"retention.ms": str(HOUR_MS)},
        "segmented": {"segment.bytes": str(2**20)},  # the least that Kafka takes
        CHANGELOG: {"cleanup.policy": "compact"},
        **{name: {"retention.ms": retention_ms} for name, retention_ms in JOURNALS.items()},
    }
    for name in TOPICS:
        # Kafka's own retention would delete what is two days old after one hour.
        driver.create_topic(name, 1, {"retention.ms": str(30 * DAY_MS), **configs.get(name, {})})
        is_young = name in ("young", "short")
        if name == "segmented":
            driver.produce(name, [two_days_ago] * SEGMENTED, value=bytes(100_000))
        else:
            driver.produce(name, [driver.now_ms if is_young else two_days_ago] * RECORDS)
    for name in ("orders", "slow", "young", "compacted", "short", *JOURNALS):
        driver.commit("billing", {(name, 0): RECORDS})
    driver.commit("billing", {("segmented", 0): SEGMENTED})
    driver.commit("search", {("slow", 0): 3})


@pytest.fixture(scope="module")
def seen(own_kafka: OwnKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("first-look")
    with own_kafka() as kafka, closing(RealDriver(kafka)) as driver:
        populate(driver)
        servers = kafka.bootstrap_servers
        arguments = ("--write-config", "retentiond.yaml", "--output", "json")
        done = run_here("plan", "--bootstrap-server", servers, *arguments, cwd=folder)
        yield Seen(servers, driver, folder, done)


def test_every_topic_that_is_not_kafkas_own_is_looked_at(seen: Seen) -> None:
    assert (seen.done.code, seen.done.err) == (0, "")
    plan = seen.done.plan
    assert (plan["complete"], plan["dry_run"]) == (True, True)
    assert plan["consumed_retention_ms"] == DAY_MS
    assert {topic["topic"] for topic in plan["topics"]} == set(TOPICS)
    assert plan["total"]["records"] == RECORDS * (1 + len(JOURNALS)) + 3 + SEGMENTED


Keeper = tuple[str, str | None]


@pytest.mark.parametrize(
    ("topic", "records", "keeper"),
    [
        ("orders", RECORDS, None),
        ("slow", 3, ("not_consumed", "search")),
        ("segmented", SEGMENTED, None),
        ("young", 0, ("too_young", None)),
        ("unread", 0, ("no_group", None)),
        ("compacted", 0, ("not_deletable", None)),
        ("short", 0, ("retention_exceeds_forced", None)),
        (CHANGELOG, 0, ("not_deletable", None)),
        *((journal, RECORDS, None) for journal in JOURNALS),
    ],
)
def test_what_all_groups_have_read_and_is_old_enough_would_go_and_it_says_who_keeps_the_rest(
    seen: Seen, topic: str, records: int, keeper: Keeper | None
) -> None:
    found = seen.topic(topic)
    kept = [(each["reason"], each["binding_group"], each["records"]) for each in found["kept_by"]]
    assert found["records"] == records
    assert kept == ([] if keeper is None else [(*keeper, RECORDS - records)])
    assert topic != CHANGELOG or found["belongs_to"] == "changelog of Streams"


def test_whole_segments_are_freed_and_what_frees_the_most_bytes_comes_first(seen: Seen) -> None:
    assert all(seen.topic(name)["size_bytes"] > 0 for name in TOPICS)
    freed = {name: seen.topic(name)["predicted_bytes"] for name in TOPICS}
    assert 0 < freed.pop("segmented") < seen.topic("segmented")["size_bytes"]
    assert set(freed.values()) == {0}
    total = seen.done.plan["total"]
    assert total["predicted_bytes"] == seen.topic("segmented")["predicted_bytes"]
    assert total["log_bytes"] >= sum(topic["size_bytes"] for topic in seen.done.plan["topics"])
    first, *_ = names = [topic["topic"] for topic in seen.done.plan["topics"]]
    assert first == "segmented"
    assert names.index("orders") < names.index("slow") < names.index("unread")


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("schema-changes.inventory", "schema history of Debezium"),
        ("ledger", "its retention.ms is unlimited"),
    ],
)
def test_a_topic_that_is_read_from_its_beginning_is_not_enabled_and_says_why(
    seen: Seen, topic: str, why: str
) -> None:
    assert why in seen.topic(topic)["not_enabled"]
    written = (seen.folder / "retentiond.yaml").read_text()
    entry = rf"  # ([^\n]*)\n  - name: '?{re.escape(topic)}'?\n[^\n]*enable: false\n"
    (comment,) = re.findall(entry, written)
    assert why in comment


def test_nothing_is_deleted_and_nothing_left_behind_but_what_was_asked_for(seen: Seen) -> None:
    partitions = [TopicPartition(name, 0) for name in TOPICS]
    log_starts = seen.driver.kafka.offsets(partitions, OffsetBound.LOG_START)
    assert set(log_starts.values()) == {0}
    assert [path.name for path in seen.folder.iterdir()] == ["retentiond.yaml"]


def test_the_configuration_that_it_wrote_is_valid_and_enables_what_has_readers(seen: Seen) -> None:
    done = run_here("check", cwd=seen.folder)
    assert (done.code, done.err) == (0, "")
    entries = load(seen.folder / "retentiond.yaml").entries
    assert {each.entry.name for each in entries} == set(TOPICS)
    assert {each.entry.name for each in entries if each.policy.enabled} == {
        *("orders", "slow", "young", "segmented")
    }
    assert all(each.entry.consumed_retention_ms is not None for each in entries)
    # billing has read records of today on another topic, and search only older ones.
    (slow,) = (each.policy for each in entries if each.entry.name == "slow")
    assert slow.required_groups == ("billing",)
    written = (seen.folder / "retentiond.yaml").read_text()
    assert "# Not required, because they may not come back: search." in written
    assert "retentiond deletes nothing (dry_run)" in done.out


def test_a_plan_with_that_configuration_says_the_same_of_the_topics_that_it_enables(
    seen: Seen,
) -> None:
    done = run_here("plan", "--output", "json", cwd=seen.folder)
    assert (done.code, done.err) == (0, "")
    told = {
        row["topic"]: (row["verdict"], row["reason"], row["cutoff"], row["records"])
        for row in done.plan["partitions"]
    }
    assert told == {
        name: tuple(seen.row(name)[key] for key in ("verdict", "reason", "cutoff", "records"))
        for name in ("orders", "slow", "young", "segmented")
    }


# At the topics that no entry of a configuration is about

MANAGED = ("orders", "young", "unread")


@pytest.fixture
def managed(seen: Seen, tmp_path: Path) -> Path:
    """A configuration that is about some of the topics, be it to switch one off."""
    enabled = {"retention.commitoffset.enable": True}
    write(
        tmp_path / "retentiond.yaml",
        {
            "kafka": {"bootstrap.servers": seen.servers},
            "state_dir": str(tmp_path / "state"),
            "spark": SPARK,
            "defaults": {
                "retention.commitoffset.hours": 24,
                "groups": {"exclude": ["sear.*"], "min": 1},
            },
            "topics": [
                {"pattern": "orders|young", **enabled},
                {"name": "unread", "retention.commitoffset.enable": False},
            ],
            "policies": ["policies.d/*.yaml"],
        },
    )
    folder = tmp_path / "policies.d"
    folder.mkdir()
    (folder / "none.yaml").write_text("owner: nobody\ntopics: [{name: of-tomorrow}]\n")
    return tmp_path


def test_what_no_entry_is_about_is_looked_at_the_largest_first(seen: Seen, managed: Path) -> None:
    done = run_here("plan", "--unmanaged", "--output", "json", cwd=managed)
    assert (done.code, done.err) == (0, "")
    topics = done.plan["topics"]
    assert {topic["topic"] for topic in topics} == set(TOPICS) - set(MANAGED)
    sizes = [topic["size_bytes"] for topic in topics]
    assert sizes == sorted(sizes, reverse=True)
    assert topics[0]["topic"] == "segmented"
    assert done.plan["consumed_retention_ms"] == DAY_MS
    slow = next(topic for topic in topics if topic["topic"] == "slow")
    assert slow["records"] == RECORDS, "a group that the defaults exclude keeps nothing"


def test_a_policy_file_of_what_is_unmanaged_is_taken_by_the_configuration(managed: Path) -> None:
    written = ("--write-config", "policies.d/new.yaml", "--owner", "payments")
    done = run_here("plan", "--unmanaged", *written, "--exit-code", cwd=managed)
    assert (done.code, done.err) == (3, "")
    assert done.out.startswith(
        "What a consumed retention of 1 day would free, on topics that no entry of "
        "retentiond.yaml is about:\n\n"
    )
    assert done.out.endswith(
        "policies.d/new.yaml is a policy file of 7 topics, 2 of them enabled, owner payments. "
        "policies in retentiond.yaml leads to it, so the next reload takes it. "
        "Next: retentiond check --config retentiond.yaml\n"
    )

    entries = load(managed / "retentiond.yaml").entries
    new = {each.entry.name: each.policy for each in entries if each.policy.owner == "payments"}
    assert set(new) == set(TOPICS) - set(MANAGED)
    assert {name for name, policy in new.items() if policy.enabled} == {"slow", "segmented"}
    assert new["slow"].required_groups == ("billing",), "and none that the defaults exclude"

    rows = run_here("plan", "--output", "json", cwd=managed).plan["partitions"]
    assert {row["topic"] for row in rows} == {"orders", "young", "slow", "segmented"}
    done = run_here("plan", "--unmanaged", cwd=managed)
    assert (done.code, done.out, done.err) == (
        0,
        "Nothing is unmanaged: every topic of the cluster has an entry in retentiond.yaml.\n",
        "",
    )
    done = run_here("plan", "--unmanaged", "--output", "json", cwd=managed)
    assert (done.code, done.plan["topics"], done.plan["partitions"]) == (0, [], [])
    done = run_here("plan", "--unmanaged", "--write-config", "other.yaml", cwd=managed)
    assert (done.code, done.out) == (2, "")
    assert "so there is nothing to write to other.yaml" in done.err
