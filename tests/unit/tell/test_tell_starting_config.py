"""The files that a first look writes: valid, commented, and without a secret."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.config import Config, load, parse
from retentiond.config.values import can_name_a_reader
from retentiond.disks.broker_disks import DiskReport
from retentiond.disks.log_dirs import LogDirCapacity
from retentiond.model import PlanRow, Reason
from retentiond.tell.first_look import FirstLook
from retentiond.tell.starting_config import (
    Origin,
    policy_file,
    starting_config,
)
from retentiond.tell.unseen_readers import unseen_readers
from tests.support.builders.first_looks import on_disk, rest
from tests.support.builders.reports import report, row

DAY_MS = 24 * 3_600_000

ORIGIN = Origin("cluster-a", {"bootstrap.servers": "kafka:9092"}, (), "2026-11-21T12:00:00Z")


def text(
    *rows: PlanRow, origin: Origin = ORIGIN, retention_ms: int = DAY_MS, **readers: list[str]
) -> str:
    return starting_config(FirstLook(report(rows), retention_ms, readers=readers), origin)


def read(written: str, **environment: str) -> Config:
    return parse(written, environment, Path())


def enabled(written: str) -> dict[str, bool]:
    return {str(entry.name): bool(entry.enable) for entry in read(written).topics}


@pytest.mark.parametrize("retention_ms", [0, 1, 1_500, 90 * 60_000, 3_600_000, 7 * DAY_MS])
def test_any_consumed_retention_is_written_exactly(retention_ms: int) -> None:
    config = read(text(rest(), retention_ms=retention_ms))
    assert config.entries[0].policy.consumed_retention_ms == retention_ms


CHANGELOG = "a changelog of group app"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        # A topic with readers is enabled, though nothing may go now; one good partition is enough.
        ([row("orders", reason=Reason.CONSUMED)], None),
        ([row("orders", reason=Reason.TOO_YOUNG)], None),
        ([row("orders", reason=Reason.NOT_CONSUMED)], None),
        ([row("orders", reason=Reason.GROUP_WITHOUT_COMMIT)], None),
        ([rest(), row("orders", 1, Reason.OFFSET_UNREADABLE)], None),
        ([row("orders", reason=Reason.NO_GROUP)], "no group reads it"),
        ([row("orders", reason=Reason.NOT_DELETABLE)], "cleanup.policy"),
        ([replace(row("orders", reason=Reason.NOT_DELETABLE), detail=CHANGELOG)], CHANGELOG),
        ([row("orders", reason=Reason.RETENTION_EXCEEDS_FORCED)], "retention.ms is shorter"),
        ([row("orders", reason=Reason.GROUP_LIST_INCOMPLETE)], "not every group could be seen"),
        ([row("orders", reason=Reason.OFFSET_UNREADABLE)], "could not be read"),
        ([replace(row("orders", reason=Reason.EMPTY), groups=0)], ""),
        # An empty partition says nothing of the groups of the others.
        ([row("orders", 0, Reason.EMPTY), row("orders", 1, Reason.GROUP_LIST_INCOMPLETE)], ""),
        ([rest(topic="app-store-changelog")], "changelog of Kafka Streams"),
    ],
)
def test_a_topic_with_something_against_it_is_left_disabled_with_the_reason(
    rows: list[PlanRow], why: str | None
) -> None:
    written, topic = text(*rows), rows[0].topic
    assert enabled(written) == {topic: why is None}
    assert why is None or re.search(rf"# .*{why}.*\n  - name: {topic}\n", written)


def test_the_topics_that_free_the_most_come_first_and_the_disabled_ones_last() -> None:
    rows = (row("a", reason=Reason.NO_GROUP), rest(topic="b", cutoff=20), rest(topic="c"))
    assert list(enabled(text(*rows))) == ["c", "b", "a"]


def test_each_entry_says_what_would_go_and_who_reads_the_topic() -> None:
    seen = on_disk([rest()], {"orders": 2048}, {"orders": 1024})
    look = FirstLook(seen, DAY_MS, readers={"orders": ["search", "billing"]})
    written = starting_config(look, ORIGIN)
    assert "  # 90 of 190 records would go now: 1.0 KiB of 2.0 KiB on disk.\n" in written
    assert "  # Read by billing and search.\n  - name: orders\n" in written


@pytest.mark.parametrize(
    ("groups", "comment", "required"),
    [
        (
            [f"g{number}" for number in range(10)],
            "Read by g0, g1, g2, g3, g4, g5, g6, g7 and 2 more.",
            [f"g{number}" for number in range(10)],
        ),
        # An empty group id can't be required; one of 30 kB is short in a comment alone.
        (["", "billing"], 'Read by "" and billing.', ["billing"]),
        ([""], 'Read by "".', []),
        (["a" * 30_000], f"Read by {'a' * 60}…{'a' * 20} (30,000 characters).", ["a" * 30_000]),
    ],
)
def test_who_reads_a_topic_is_said_in_words_and_listed_for_use(
    groups: list[str], comment: str, required: list[str]
) -> None:
    written = text(rest(), orders=groups)
    assert f"  # {comment}\n" in written
    assert read(written).entries[0].policy.required_groups == tuple(required)


def test_what_speaks_for_unseen_readers_leaves_every_topic_disabled_and_filled_in() -> None:
    unseen = unseen_readers(["orders", "mm2-offset-syncs.b.internal"], [])
    look = FirstLook(report([rest()]), DAY_MS, unseen, {"orders": ["billing"]})
    written = starting_config(look, ORIGIN)
    assert enabled(written) == {"orders": False}
    assert read(written).entries[0].policy.required_groups == ("billing",)
    assert (
        "  # Not enabled: somebody may read it unseen: topic mm2-offset-syncs.b.internal is "
        "MirrorMaker 2's, which reads topics without committing.\n  - name: orders\n"
    ) in written


anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
topic_names = st.from_regex(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,20}", fullmatch=True) | st.sampled_from(
    ["null", "true", "123", "1.5", "-", "---", "...", "0x1", "no", "_", "Null"]
)


@given(
    topic=topic_names,
    groups=st.lists(anything, min_size=1, max_size=3, unique=True),
    username=anything,
    cluster=anything,
)
def test_whatever_topics_groups_and_properties_are_called_the_file_says_the_same(
    topic: str, groups: list[str], username: str, cluster: str
) -> None:
    kafka = {"bootstrap.servers": "kafka:9092", "sasl.username": username}
    origin = replace(ORIGIN, kafka=kafka, cluster_id=cluster, left_out=(cluster,))
    look = FirstLook(report([rest(topic=topic)]), DAY_MS, readers={topic: groups})
    written = starting_config(look, origin)
    config = read(written)
    assert (config.topics[0].name, dict(config.kafka)) == (topic, kafka)
    if config.topics[0].enable:
        required = sorted(each for each in groups if can_name_a_reader(each))
        assert read(written).entries[0].policy.required_groups == tuple(required)


# The policy file of a look at topics that no entry of a configuration is about

MAIN = """\
kafka: {bootstrap.servers: kafka:9092}
policies: policies.d/*.yaml
defaults: {groups: {required: [ledger], exclude: [console-.*]}}
"""


def read_policy(folder: Path, written: str) -> Config:
    (folder / "policies.d").mkdir(exist_ok=True)
    (folder / "policies.d" / "new.yaml").write_text(written, encoding="utf-8")
    return parse(MAIN, {}, folder)


def outside(*rows: PlanRow, retention_ms: int = DAY_MS, **readers: list[str]) -> FirstLook:
    return FirstLook(
        report(rows),
        retention_ms,
        readers=readers,
        outside="retentiond.yaml",
        required=frozenset({"ledger"}),
    )


def test_what_the_defaults_of_the_configuration_require_is_still_required(tmp_path: Path) -> None:
    written = policy_file(outside(rest(), orders=["billing"]), "payments", "cluster-a", "now")
    (orders,) = read_policy(tmp_path, written).entries
    assert orders.policy.required_groups == ("billing", "ledger")
    assert "  # Read by billing.\n" in written


def test_the_largest_topics_of_a_policy_file_come_first() -> None:
    rows = [rest(topic="small", cutoff=90), rest(topic="large", cutoff=20)]
    look = FirstLook(on_disk(rows, {"small": 10, "large": 20}, {"small": 9}), DAY_MS, outside="x")
    written = policy_file(look, "payments", "cluster-a", "now")
    assert re.findall("- name: (.*)", written) == ["large", "small"]


@given(
    owner=anything.filter(lambda text: text.strip() and text.isprintable()),
    cluster=anything,
    config=anything,
)
def test_whatever_an_owner_is_called_the_file_says_the_same(
    owner: str, cluster: str, config: str
) -> None:
    look = replace(outside(rest(), orders=["billing"]), outside=config)
    with tempfile.TemporaryDirectory() as folder:
        read_back = read_policy(Path(folder), policy_file(look, owner, cluster, "now"))
    assert read_back.entries[0].policy.owner == owner


@pytest.mark.parametrize(("usable", "is_suggested"), [(31, False), (29, True)])
def test_where_a_disk_is_well_filled_it_suggests_disk_pressure(
    usable: int, is_suggested: bool
) -> None:
    disk = DiskReport(
        space=(LogDirCapacity(1, "/a", 100, 90), LogDirCapacity(2, "/b", 100, usable))
    )
    look = FirstLook(replace(report([rest()]), disk=disk), DAY_MS)
    written = starting_config(look, ORIGIN)
    assert ("# /b of broker 2 is 71% full: with disk_pressure" in written) is is_suggested
    uncommented = written.replace("# disk_pressure: ", "disk_pressure: ")
    assert (read(uncommented).disk_pressure is not None) is is_suggested


def test_idle_groups_and_consoles_are_named_and_not_required() -> None:
    readers = {"orders": ["billing", "old", "console-consumer-1234"]}
    look = FirstLook(report([rest()]), DAY_MS, readers=readers, idle=frozenset({"old"}))
    written = starting_config(look, ORIGIN)
    (entry,) = read(written).entries
    assert (entry.policy.enabled, entry.policy.required_groups) == (True, ("billing",))
    assert (
        "# Not required, because they may not come back: console-consumer-1234 and old." in written
    )

    beside = replace(look, required=frozenset({"old"}), outside="retentiond.yaml")
    assert "required: ['billing', 'old']" in policy_file(beside, "a", "c", "t")


@pytest.mark.parametrize(
    ("forced_ms", "expected_ms"),
    [
        (None, DAY_MS),
        (2 * DAY_MS, DAY_MS),
        (DAY_MS, DAY_MS // 2),
        (3 * 3_600_000, 3_600_000),
        (3_600_000, 1_800_000),
        (60_000, 30_000),
        (0, 0),
    ],
)
@pytest.mark.parametrize("reason", [Reason.CONSUMED, Reason.NO_GROUP])
def test_each_entry_states_a_retention_below_the_topic_s_own(
    forced_ms: int | None, expected_ms: int, reason: Reason
) -> None:
    forced = {} if forced_ms is None else {"orders": forced_ms}
    look = FirstLook(report([row("orders", reason=reason)]), DAY_MS, forced_retention_ms=forced)
    (entry,) = read(starting_config(look, ORIGIN)).entries
    assert entry.entry.consumed_retention_ms == entry.policy.consumed_retention_ms == expected_ms


def test_a_policy_file_is_a_trial_unless_the_daemon_is_dry_and_can_be_read(tmp_path: Path) -> None:
    main = "retention.commitoffset.pressure.hours: 6"
    (tmp_path / "retentiond.yaml").write_text(
        f"kafka: {{bootstrap.servers: a:1}}\ndefaults: {{{main}}}\npolicies: team.yaml\n"
    )
    look = FirstLook(
        report([rest()]),
        DAY_MS,
        outside="retentiond.yaml",
        pressure_ms=6 * 3_600_000,
        forced_retention_ms={"orders": 3_600_000},
    )
    for is_dry in (True, False):
        written = policy_file(replace(look, is_dry=is_dry), "payments", "c", "t")
        (tmp_path / "team.yaml").write_text(written)
        (entry,) = load(tmp_path / "retentiond.yaml").entries
        assert entry.policy.dry_run is not is_dry
        assert entry.policy.pressure_retention_ms == entry.policy.consumed_retention_ms == 1_800_000
