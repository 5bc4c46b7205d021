"""Where each relevant group stands: on one partition, and since when.

Relevance is worked out from the snapshot as the plan does it, in plain Python, with the trace
that makes a group count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from retentiond.collect.remembered import GroupOnTopic, Remembered
from retentiond.collect.snapshot import GroupReading, Snapshot
from retentiond.config import TopicPolicy
from retentiond.model import GroupKind

UNREADABLE = "can't be read, so it may read any topic"
REQUIRED = "is required by the policy"
SUBSCRIBED = "is subscribed to the topic"
REMEMBERED = "committed here before"
COMMITTED = "commits on the topic"


@dataclass(frozen=True, slots=True)
class Standing:
    """A group that counts, and its commit on one partition.

    ``trace``: why it counts. ``committed_offset`` is None where there is none or it is unread;
    ``remembered_offset`` is the one that was last seen. ``stands_since_ms``: when the commit was
    first seen where it is, None where that is not known. ``absent_since_ms``: since when it has
    no commit on the topic any more. ``trouble``: why it can't be read.
    """

    group_id: str
    kind: GroupKind
    state: str
    trace: str
    committed_offset: int | None
    remembered_offset: int | None
    stands_since_ms: int | None
    absent_since_ms: int | None
    trouble: str | None


class TopicGroups:
    """The groups of one topic of a snapshot."""

    def __init__(self, snapshot: Snapshot, remembered: Remembered, topic: str) -> None:
        self._snapshot = snapshot
        self._remembered = remembered
        self._topic = snapshot.topics[_position(snapshot, topic)]
        self._partitions = {
            reading.partition: position
            for position, reading in enumerate(snapshot.partitions)
            if snapshot.topics[reading.topic].name == topic
        }
        self._commits = _by_group(snapshot.commits, self._partitions.values())
        self._known = _by_group(snapshot.remembered, self._partitions.values())
        traces = self._traces()
        policy = self._topic.policy
        names = {at: snapshot.groups[at].group_id for at in traces}
        excluded = {
            at: isinstance(policy, TopicPolicy) and policy.excludes(name)
            for at, name in names.items()
        }
        self._relevant = {at: trace for at, trace in traces.items() if not excluded[at]}
        self.excluded = tuple(sorted(names[at] for at in traces if excluded[at]))
        """Those that would count if the policy didn't exclude them."""

    def __len__(self) -> int:
        return len(self._relevant)

    def standings(self, partition: int) -> tuple[Standing, ...]:
        """Of each relevant group, sorted by name."""
        return tuple(self._standing(at, partition) for at in sorted(self._relevant))

    def _traces(self) -> dict[int, str]:
        """By position of the group, the strongest trace."""
        snapshot, topic = self._snapshot, _position(self._snapshot, self._topic.name)
        policy = self._topic.policy
        required = policy.required_groups if isinstance(policy, TopicPolicy) else ()
        traces: dict[int, str] = {}
        for at, group in enumerate(snapshot.groups):
            if group.failure is not None:
                traces[at] = UNREADABLE
            if group.group_id in required:
                traces[at] = REQUIRED
        for reader in snapshot.readers:
            if reader.topic == topic:
                traces[reader.group] = SUBSCRIBED
        return {
            **traces,
            **dict.fromkeys(self._known, REMEMBERED),
            **dict.fromkeys(self._commits, COMMITTED),
        }

    def _standing(self, at: int, partition: int) -> Standing:
        group = self._snapshot.groups[at]
        position = self._partitions[partition]
        committed = self._commits.get(at, {}).get(position)
        last = self._remembered.commits.get(GroupOnTopic(group.group_id, self._topic.name))
        before = self._known.get(at, {}).get(position)
        moved_at_ms = last.moved_at_ms if last else {}
        return Standing(
            group_id=group.group_id,
            kind=group.kind,
            state=group.state,
            trace=self._relevant[at],
            committed_offset=committed,
            remembered_offset=before,
            stands_since_ms=self._since(committed, before, moved_at_ms, partition),
            absent_since_ms=last.absent_since_ms if last and at not in self._commits else None,
            trouble=_trouble(group),
        )

    def _since(
        self,
        committed: int | None,
        before: int | None,
        moved_at_ms: Mapping[int, int],
        partition: int,
    ) -> int | None:
        if before is None or committed not in (None, before):
            # One that moved since the last cycle is seen there for the first time now; one that
            # nobody has seen before may have stood there for long.
            is_seen = before is not None and committed is not None and committed > before
            return self._snapshot.taken_at_ms if is_seen else None
        return moved_at_ms.get(partition)


def _position(snapshot: Snapshot, topic: str) -> int:
    return next(at for at, reading in enumerate(snapshot.topics) if reading.name == topic)


def _trouble(group: GroupReading) -> str | None:
    failure = group.failure or group.trouble
    return None if failure is None else str(failure)


def _by_group(table: pa.Table, positions: Iterable[int]) -> dict[int, dict[int, int | None]]:
    """Commits on those partitions, by the group's and the partition's position."""
    chosen = table.filter(
        pc.is_in(table["partition_id"], value_set=pa.array(list(positions), pa.int32()))
    )
    commits: dict[int, dict[int, int | None]] = {}
    columns = (chosen[name].to_pylist() for name in ("group_id", "partition_id", "offset"))
    for group, position, offset in zip(*columns, strict=True):
        commits.setdefault(group, {})[position] = offset
    return commits
