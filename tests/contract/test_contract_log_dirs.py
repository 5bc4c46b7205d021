"""What the brokers' disks hold."""

from __future__ import annotations

from retentiond.kafka.interface import LogDirs, Replica
from retentiond.model import Failure, TopicPartition
from tests.contract.driver import Driver
from tests.support.waiting import eventually


def replicas(found: LogDirs, topic: str) -> dict[int, list[Replica]]:
    """Of the topic, by partition."""
    by_partition: dict[int, list[Replica]] = {}
    for directories in found.brokers.values():
        assert not isinstance(directories, Failure)
        for directory in directories:
            assert directory.failure is None
            for replica in directory.replicas:
                if replica.topic == topic:
                    by_partition.setdefault(replica.partition, []).append(replica)
    return by_partition


def test_every_partition_is_on_the_disk_of_the_broker_that_is_to_hold_it(
    any_driver: Driver, topic_name: str
) -> None:
    any_driver.create_topic(topic_name, 2)
    found = any_driver.kafka.log_dirs()
    assert found.assigned[TopicPartition(topic_name, 1)] == (1,)
    assert replicas(found, topic_name) == {
        number: [Replica(topic_name, number, 0)] for number in range(2)
    }


def test_sizes_grow_with_what_is_written(any_driver: Driver, topic_name: str) -> None:
    any_driver.create_topic(topic_name)
    any_driver.produce(topic_name, [any_driver.now_ms] * 3)
    (three,) = replicas(any_driver.kafka.log_dirs(), topic_name)[0]
    any_driver.produce(topic_name, [any_driver.now_ms] * 3)
    (six,) = replicas(any_driver.kafka.log_dirs(), topic_name)[0]
    assert 0 < three.size_bytes < six.size_bytes


def test_a_volume_has_room(driver: Driver) -> None:
    for directories in driver.kafka.log_dirs().brokers.values():
        assert not isinstance(directories, Failure)
        for directory in directories:
            assert directory.usable_bytes is not None
            assert directory.total_bytes is not None
            assert 0 < directory.usable_bytes <= directory.total_bytes


def test_a_deleted_topic_leaves_nothing_and_no_orphan(driver: Driver, topic_name: str) -> None:
    driver.create_topic(topic_name)
    driver.produce(topic_name, [driver.now_ms])
    driver.delete_topic(topic_name)
    eventually(lambda: replicas(driver.kafka.log_dirs(), topic_name), lambda found: not found)
    for directories in driver.kafka.log_dirs().brokers.values():
        assert not isinstance(directories, Failure)
        assert [r for each in directories for r in each.replicas if r.is_orphan] == []
