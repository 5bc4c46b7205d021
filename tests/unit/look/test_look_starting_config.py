"""The configuration that a first look writes: valid, commented, and without a secret."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentiond.config import Config, parse
from retentiond.look.starting_config import Origin, environment_of, starting_config
from retentiond.look.summary import Disk, look_at
from retentiond.model import PlanRow, Reason, TopicPartition
from tests.unit.look.looks import rest
from tests.unit.observe.reports import row

DAY_MS = 24 * 3_600_000

ORIGIN = Origin(
    "cluster-a", {"bootstrap.servers": "kafka:9092"}, (), DAY_MS, "2026-11-21T12:00:00Z"
)


def text(*rows: PlanRow, origin: Origin = ORIGIN, **readers: list[str]) -> str:
    return starting_config(look_at(rows), readers, origin)


def read(written: str, **environment: str) -> Config:
    return parse(written, environment, Path())


def enabled(written: str) -> dict[str, bool]:
    return {str(entry.name): bool(entry.enable) for entry in read(written).topics}


def test_it_deletes_nothing_and_keeps_the_consumed_retention_that_was_looked_with() -> None:
    config = read(text(rest()))
    assert config.dry_run
    (policy,) = config.policies
    assert (policy.enabled, policy.consumed_retention_ms) == (True, DAY_MS)


@pytest.mark.parametrize("retention_ms", [0, 1, 1_500, 90 * 60_000, 3_600_000, 7 * DAY_MS])
def test_any_consumed_retention_is_written_exactly(retention_ms: int) -> None:
    config = read(text(rest(), origin=replace(ORIGIN, consumed_retention_ms=retention_ms)))
    assert config.policies[0].consumed_retention_ms == retention_ms


@pytest.mark.parametrize(
    "reason", [Reason.CONSUMED, Reason.TOO_YOUNG, Reason.NOT_CONSUMED, Reason.GROUP_WITHOUT_COMMIT]
)
def test_a_topic_with_readers_is_enabled_though_nothing_may_go_now(reason: Reason) -> None:
    assert enabled(text(row("orders", reason=reason))) == {"orders": True}


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (Reason.NO_GROUP, "no group reads it"),
        (Reason.NOT_DELETABLE, "cleanup.policy"),
        (Reason.RETENTION_EXCEEDS_FORCED, "retention.ms is shorter"),
        (Reason.GROUP_LIST_INCOMPLETE, "not every group could be seen"),
        (Reason.OFFSET_UNREADABLE, "could not be read"),
    ],
)
def test_a_topic_with_something_against_it_is_left_disabled_with_the_reason(
    reason: Reason, why: str
) -> None:
    written = text(row("orders", reason=reason))
    assert enabled(written) == {"orders": False}
    assert re.search(rf"# .*{why}.*\n  - name: orders\n", written)


def test_an_empty_topic_that_nobody_reads_is_left_disabled() -> None:
    assert enabled(text(replace(row("orders", reason=Reason.EMPTY), groups=0))) == {"orders": False}


def test_one_good_partition_is_enough_to_enable_a_topic() -> None:
    rows = (rest(), row("orders", 1, Reason.OFFSET_UNREADABLE))
    assert enabled(text(*rows)) == {"orders": True}


def test_a_topic_of_another_system_is_left_disabled_though_it_could_be_deleted_from() -> None:
    written = text(rest(topic="app-store-changelog"))
    assert enabled(written) == {"app-store-changelog": False}
    assert "changelog of Kafka Streams" in written


def test_the_topics_that_free_the_most_come_first_and_the_disabled_ones_last() -> None:
    rows = (row("a", reason=Reason.NO_GROUP), rest(topic="b", cutoff=20), rest(topic="c"))
    assert list(enabled(text(*rows))) == ["c", "b", "a"]


def test_each_entry_says_what_would_go_and_who_reads_the_topic() -> None:
    at = TopicPartition("orders", 0)
    look = look_at([rest()], Disk({at: 2048}, {at: 1024}))
    written = starting_config(look, {"orders": ["search", "billing"]}, ORIGIN)
    assert "  # 90 of 190 records would go now: 1.0 KiB of 2.0 KiB on disk.\n" in written
    assert "  # Read by billing and search.\n  - name: orders\n" in written


def test_many_groups_are_counted_in_words_and_listed_for_use() -> None:
    written = text(rest(), orders=[f"g{number}" for number in range(10)])
    assert "Read by g0, g1, g2, g3, g4, g5, g6, g7 and 2 more.\n" in written
    assert uncommented(written).policies[0].required_groups == tuple(f"g{n}" for n in range(10))


def uncommented(written: str) -> Config:
    return read(re.sub(r"    # (groups:|  required: )", r"    \1", written))


def test_secrets_are_read_from_the_environment_and_not_written() -> None:
    kafka = {
        "bootstrap.servers": "kafka:9092",
        "sasl.username": "me",
        "sasl.password": "hush",
        "ssl.key.password": "whisper",
    }
    written = text(rest(), origin=replace(ORIGIN, kafka=kafka))
    assert "hush" not in written
    assert "whisper" not in written
    names = environment_of(kafka)
    assert names == ("RETENTIOND_SASL_PASSWORD", "RETENTIOND_SSL_KEY_PASSWORD")
    config = read(written, **dict(zip(names, ("hush", "whisper"), strict=True)))
    assert dict(config.kafka) == kafka


def test_properties_that_can_not_stand_in_the_file_are_named() -> None:
    written = text(rest(), origin=replace(ORIGIN, left_out=("retry.backoff.ms",)))
    assert "# Left out, as it can't stand here: retry.backoff.ms\n" in written


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
    look = look_at([rest(topic=topic)])
    written = starting_config(look, {topic: groups}, origin)
    config = read(written)
    assert (config.topics[0].name, dict(config.kafka)) == (topic, kafka)
    if config.topics[0].enable:
        assert uncommented(written).policies[0].required_groups == tuple(sorted(groups))
