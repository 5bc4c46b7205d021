"""A Kafka cluster in memory: the port of `retentiond.kafka.port`, and a world to drive it."""

from tests.fakes.broker import BrokerState
from tests.fakes.cluster import FakeCluster
from tests.fakes.deletions import HowDeletionEnds
from tests.fakes.groups import FakeGroup, FakeMember
from tests.fakes.log import FakePartition, Transaction
from tests.fakes.script import Call, Script

__all__ = [
    "BrokerState",
    "Call",
    "FakeCluster",
    "FakeGroup",
    "FakeMember",
    "FakePartition",
    "HowDeletionEnds",
    "Script",
    "Transaction",
]
