"""The stand-in for a hundred brokers answers as a cluster of that layout would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from devkit.bench import stand_in, stand_in_answers
from devkit.bench.layouts import RECORDS, Layout
from retentiond.kafka.cluster import KafkaCluster
from retentiond.model import Failure, TopicPartition
from tests.contract.real import connect
from tests.support.brokers.gathering import commits, partitions, policy, snapshot

pytestmark = pytest.mark.long

SMALL = Layout("S", topics=8, partitions=3, groups=60, topics_each=2, brokers=60)
"""More brokers than coordinate groups, and topics that no broker leads all of."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[stand_in.Running]:
    with stand_in.running(SMALL) as running:
        yield running


@pytest.fixture
def kafka(cluster: stand_in.Running) -> Iterator[KafkaCluster]:
    with closing(connect(cluster.bootstrap_servers)) as connected:
        yield connected


def test_a_reading_finds_every_commit_and_offset(kafka: KafkaCluster) -> None:
    taken = snapshot(kafka, policy(*map(SMALL.topic, range(SMALL.topics))))

    assert (taken.complete, taken.hidden) == (True, ())
    assert commits(taken) == {
        (group, TopicPartition(topic, partition)): offset
        for (group, topic, partition), offset in SMALL.offsets().items()
    }
    assert len(partitions(taken)) == SMALL.topics * SMALL.partitions
    assert {
        (each.log_start_offset, each.high_watermark, each.last_stable_offset, each.retention_offset)
        for each in taken.partitions
    } == {(0, RECORDS, RECORDS, RECORDS)}


def test_every_broker_shows_its_disk(kafka: KafkaCluster) -> None:
    disks = kafka.log_dirs()

    assert disks.brokers.keys() == set(range(SMALL.brokers))
    shown = [
        replica
        for directories in disks.brokers.values()
        if not isinstance(directories, Failure)
        for replica in directories[0].replicas
    ]
    in_topics = [each for each in shown if each.topic.startswith("s.topic-")]
    assert len(in_topics) == stand_in_answers.REPLICAS * SMALL.topics * SMALL.partitions
    assert not any(each.is_orphan for each in shown)


def test_each_group_has_its_coordinator(kafka: KafkaCluster) -> None:
    """They are looked up where no listing has told a moment ago."""
    groups = [SMALL.group(group) for group in range(SMALL.groups)]
    found = {
        (group, each.topic, each.partition): each.offset
        for group, commits in kafka.commits(groups).items()
        if not isinstance(commits, Failure)
        for each in commits
    }
    assert found == SMALL.offsets()


def test_it_counts_what_it_is_asked(cluster: stand_in.Running, kafka: KafkaCluster) -> None:
    kafka.cluster_id()
    cluster.counted()
    kafka.cluster_id()
    assert cluster.counted() == {"DescribeCluster": 1}
