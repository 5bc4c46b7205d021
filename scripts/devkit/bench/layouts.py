"""Clusters whose answers are known in advance, so that speed is never measured without truth.

Every group reads some whole topics, as groups do, and has committed an offset that follows from
its number and the partition's. `Layout.minimum` works the smallest one out by itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

Numbers = TypeVar("Numbers", int, Integers)

RECORDS = 80
"""Records in each partition."""

FIRST = 64
"""No group has committed less."""


@dataclass(frozen=True, slots=True)
class Layout:
    """``groups`` have commits on every partition of ``topics_each`` of the ``topics``.
    ``spark_memory``: the heap of Spark's JVM for a plan of that size."""

    name: str
    topics: int
    partitions: int
    groups: int
    topics_each: int
    brokers: int = 1
    spark_memory: str = "1g"

    @property
    def commits(self) -> int:
        return self.groups * self.topics_each * self.partitions

    def topic(self, number: int) -> str:
        return f"{self.name.lower()}.topic-{number:04d}"

    def group(self, number: int) -> str:
        return f"{self.name.lower()}-group-{number:04d}"

    def topics_of(self, group: int) -> Iterator[int]:
        """Evenly spread: each topic is read by as many groups, give or take one."""
        return ((group * self.topics_each + at) % self.topics for at in range(self.topics_each))

    def committed(self, group: int, topic: int, partition: Numbers) -> Numbers:
        return FIRST + (group * 31 + topic * 17 + partition * 7) % (RECORDS - FIRST)

    def offsets(self) -> dict[tuple[str, str, int], int]:
        """The committed offsets by group, topic and partition."""
        return {
            (self.group(group), self.topic(topic), partition): self.committed(
                group, topic, partition
            )
            for group in range(self.groups)
            for topic in self.topics_of(group)
            for partition in range(self.partitions)
        }

    def minima(self) -> dict[tuple[str, int], int]:
        """The smallest committed offset of every partition that a group reads."""
        partitions = np.arange(self.partitions)
        none = np.iinfo(np.int64).max
        found = np.full((self.topics, self.partitions), none)
        for group in range(self.groups):
            for topic in self.topics_of(group):
                found[topic] = np.minimum(found[topic], self.committed(group, topic, partitions))
        return {
            (self.topic(topic), partition): int(found[topic, partition])
            for topic in range(self.topics)
            for partition in partitions.tolist()
            if found[topic, partition] < none
        }


S = Layout("S", topics=10, partitions=4, groups=10, topics_each=5)
"""It measures nothing; it shows within a minute that a part runs."""

L = Layout("L", topics=200, partitions=20, groups=300, topics_each=10)
XL = Layout("XL", topics=1_000, partitions=20, groups=1_000, topics_each=25, brokers=2)
"""Two brokers: one keeps a file of each partition open, and many machines allow 20,000."""

XXL = Layout(
    "XXL",
    topics=1_000,
    partitions=20,
    groups=1_000,
    topics_each=500,
    brokers=2,
    spark_memory="2g",
)
"""Ten million commits: each partition has five hundred groups."""

LAYOUTS = {layout.name: layout for layout in (S, L, XL, XXL)}
