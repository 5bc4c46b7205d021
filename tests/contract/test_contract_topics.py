"""Topics and their configuration, as the port shows them."""

from __future__ import annotations

import pytest

from retentiond.kafka.interface import TopicConfig, TopicDescription
from retentiond.model import Failure
from tests.contract.driver import Driver

GIB = 2**30

DELETE_DELAY_MS = 1_000  # which the brokers of the tests are started with

WEEK_MS = 7 * 24 * 3_600_000


def described(driver: Driver, name: str) -> TopicDescription:
    description = driver.kafka.describe_topics([name])[name]
    assert isinstance(description, TopicDescription)
    return description


def test_the_cluster_has_one_id(any_driver: Driver) -> None:
    assert any_driver.kafka.cluster_id()
    assert any_driver.kafka.cluster_id() == any_driver.kafka.cluster_id()


def test_a_topic_is_listed_from_its_creation_to_its_deletion(
    driver: Driver, topic_name: str
) -> None:
    assert topic_name not in driver.kafka.topic_names()
    driver.create_topic(topic_name)
    assert topic_name in driver.kafka.topic_names()
    driver.delete_topic(topic_name)
    assert topic_name not in driver.kafka.topic_names()


def test_a_topic_is_described_with_its_partitions_ascending(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name, partitions=12)
    description = described(any_driver, topic_name)
    assert description.name == topic_name
    assert description.partitions == tuple(range(12))
    assert not description.is_internal


def test_a_topic_keeps_its_id_until_it_is_recreated(any_driver: Driver, topic_name: str) -> None:
    any_driver.create_topic(topic_name)
    first = described(any_driver, topic_name).topic_id
    assert described(any_driver, topic_name).topic_id == first
    any_driver.delete_topic(topic_name)
    any_driver.create_topic(topic_name)
    assert described(any_driver, topic_name).topic_id != first


def test_topic_ids_are_written_as_kafkas_tools_print_them(driver: Driver, topic_name: str) -> None:
    for number in range(20):  # enough ids for the two characters in which alphabets differ
        driver.create_topic(f"{topic_name}-{number}")
    names = [f"{topic_name}-{number}" for number in range(20)]
    for description in driver.kafka.describe_topics(names).values():
        assert isinstance(description, TopicDescription)
        assert description.topic_id is not None
        assert len(description.topic_id) == 22
        assert not set(description.topic_id) & set("+/=")


def test_the_offsets_topic_is_internal_and_compacted(any_driver: Driver) -> None:
    assert described(any_driver, "__consumer_offsets").is_internal
    config = any_driver.kafka.topic_configs(["__consumer_offsets"])["__consumer_offsets"]
    assert isinstance(config, TopicConfig)
    assert config.cleanup_policy == {"compact"}


def test_an_unknown_topic_fails_in_its_place_and_spoils_no_other(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name)
    names = [topic_name, "unknown"]
    descriptions = any_driver.kafka.describe_topics(names)
    configs = any_driver.kafka.topic_configs(names)
    for answers in (descriptions, configs):
        assert set(answers) == set(names)
        assert not isinstance(answers[topic_name], Failure)
        failure = answers["unknown"]
        assert isinstance(failure, Failure)
        assert failure.code == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, TopicConfig(frozenset({"delete"}), WEEK_MS, None, GIB, WEEK_MS)),
        (
            {"retention.ms": "-1"},
            TopicConfig(frozenset({"delete"}), None, None, GIB, WEEK_MS),
        ),
        (
            {"retention.ms": "0"},
            TopicConfig(frozenset({"delete"}), 0, None, GIB, WEEK_MS),
        ),
        (
            {"cleanup.policy": "compact"},
            TopicConfig(frozenset({"compact"}), WEEK_MS, None, GIB, WEEK_MS),
        ),
        (
            {"cleanup.policy": "compact,delete", "retention.ms": "60000"},
            TopicConfig(frozenset({"compact", "delete"}), 60_000, None, GIB, WEEK_MS),
        ),
        (
            {
                "retention.bytes": "4096",
                "segment.bytes": "1048576",
                "segment.ms": "5000",
            },
            TopicConfig(frozenset({"delete"}), WEEK_MS, 4096, 1_048_576, 5000),
        ),
    ],
    ids=["default", "unlimited", "none", "compacted", "both", "segments"],
)
def test_a_topics_configuration_is_read(
    any_driver: Driver, topic_name: str, config: dict[str, str], expected: TopicConfig
) -> None:
    any_driver.create_topic(topic_name, config=config)
    assert any_driver.kafka.topic_configs([topic_name]) == {topic_name: expected}


def test_asked_about_no_topic_it_answers_nothing(any_driver: Driver) -> None:
    assert any_driver.kafka.describe_topics([]) == {}
    assert any_driver.kafka.topic_configs([]) == {}


def test_each_broker_tells_the_settings_that_it_is_asked_for(any_driver: Driver) -> None:
    names = ["log.segment.delete.delay.ms", "no.such.setting"]
    answers = any_driver.kafka.broker_configs(names)
    assert len(answers) == 1
    assert list(answers.values()) == [{"log.segment.delete.delay.ms": str(DELETE_DELAY_MS)}]
