"""A Kafka cluster in memory: `retentiond.kafka.interface`, and a world to drive it."""

from tests.support.fakes.broker import BrokerState
from tests.support.fakes.cluster import FakeCluster
from tests.support.fakes.deletions import HowDeletionEnds
from tests.support.fakes.groups import FakeGroup, FakeMember
from tests.support.fakes.log import FakePartition, Transaction
from tests.support.fakes.script import Call, Script

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
