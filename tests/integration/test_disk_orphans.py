"""Folders on a real broker's disk that its cluster does not know, as the daemon sees them."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

from retentiond.disks.log_dirs import disk_reading
from retentiond.model import Failure
from tests.contract.real import RealDriver
from tests.support.tiers import OwnKafka
from tests.support.waiting import eventually

pytestmark = pytest.mark.broker


def test_what_kafka_itself_has_set_aside_is_not_shown_from_afar(
    own_kafka: OwnKafka, topic_name: str
) -> None:
    """A folder of a topic that the cluster does not know is found at start, and becomes a stray;
    one of a deleted topic waits to be removed."""
    with own_kafka(config={"file.delete.delay.ms": "3600000"}) as kafka:
        kafka.create_topic(topic_name)
        (node,) = kafka.nodes
        (log_dir,) = node.log_dirs
        node.stop()
        shutil.copytree(log_dir / f"{topic_name}-0", log_dir / "ghost-0")
        metadata = log_dir / "ghost-0" / "partition.metadata"
        version, topic_id = metadata.read_text().splitlines()
        # Not its last character, of whose bits most don't count.
        key, _, own = topic_id.rpartition(" ")
        metadata.write_text(f"{version}\n{key} {'B' if own[0] == 'A' else 'A'}{own[1:]}\n")
        node.start()
        kafka.create_topic("doomed")
        with closing(RealDriver(kafka)) as driver:
            driver.delete_topic("doomed")
            eventually(lambda: [*log_dir.glob("doomed-0.*-delete")])
            assert [*log_dir.glob("ghost-0.*-stray")]
            found = driver.kafka.log_dirs()
        (directories,) = found.brokers.values()
        assert not isinstance(directories, Failure)
        shown = {each.topic for directory in directories for each in directory.replicas}
        assert topic_name in shown
        assert not {"ghost", "doomed"} & shown
        assert [each.partitions for each in disk_reading(found, []).orphans] == [0]
