"""From what was read to a `Snapshot`.

External readers become groups, each on the topics whose policy names it. Names become positions,
for all commits at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from retentiond.config import ExternalReader, NoPolicy, TopicPolicy
from retentiond.formatting import say_reader
from retentiond.gather.external_positions import Position, UnknownPosition
from retentiond.gather.groups import GroupListing
from retentiond.gather.topics import EnabledTopic
from retentiond.kafka.groups.commit_columns import CommitColumns
from retentiond.kafka.interface import GroupMembers
from retentiond.model import Commit, Failure, GroupKind, TopicPartition
from retentiond.snapshot import (
    ABSENT,
    DENSE,
    EXTERNAL_READER,
    NOWHERE,
    SHARED_NAME,
    GroupReading,
    GroupTopic,
    Integers,
    PartitionReading,
    Snapshot,
    commit_table,
    namesake_id,
)

NO_EXTERNAL: Mapping[ExternalReader, Position] = MappingProxyType({})

NAME_IS_TAKEN = Failure(
    EXTERNAL_READER,
    "a group of the cluster has the same name, so it is unclear which of the two has read what",
)

EXTERNAL_STATE = "External"


def assemble(
    cluster_id: str,
    now_ms: int,
    topics: Sequence[EnabledTopic],
    partitions: Sequence[PartitionReading],
    listing: GroupListing,
    *,
    external: Mapping[ExternalReader, Position] = NO_EXTERNAL,
    required_elsewhere: Set[str] = frozenset(),
) -> Snapshot:
    """What was read, and nothing that is remembered. Commits on topics that aren't enabled are left
    out. ``required_elsewhere``: `required_groups` of other topics, so that two readings of
    different topics give a reader the same id."""
    required = required_groups(topic.reading.policy for topic in topics)
    listing = with_external(listing, topics, external, required | required_elsewhere)
    absent = {group: GroupReading(group, GroupKind.UNKNOWN, ABSENT) for group in required}
    groups = tuple(reading for _, reading in sorted({**absent, **listing.groups}.items()))
    group_ids = {group.group_id: position for position, group in enumerate(groups)}
    topic_ids = {topic.reading.name: position for position, topic in enumerate(topics)}
    by_position = {group_ids[group]: commits for group, commits in listing.commits.items()}
    commits, on_unknown_partitions = commit_rows(by_position, topic_ids, partitions)
    return Snapshot(
        cluster_id=cluster_id,
        taken_at_ms=now_ms,
        topics=tuple(topic.reading for topic in topics),
        partitions=tuple(partitions),
        groups=groups,
        commits=commits,
        readers=on_unknown_partitions.union(
            GroupTopic(group_ids[group], topic_ids[topic])
            for group in listing.members
            for topic in listing.read_by(group, topic_ids.keys())
        ),
        problems=listing.problems,
        hidden=listing.hidden,
        unnamed_readers=unnamed_readers(topics, external),
        negative_commits={
            (group, TopicPartition(topic, partition)): offset
            for group, commits in listing.commits.items()
            if isinstance(commits, CommitColumns)  # as Kafka has them
            for topic, partition, offset in commits.negative()
            if topic in topic_ids
        },
        changelogs=frozenset(
            GroupTopic(group_ids[group], topic_ids[topic])
            for group, members in listing.members.items()
            for topic in members.changelogs & topic_ids.keys()
        ),
    )


def required_groups(policies: Iterable[TopicPolicy | NoPolicy]) -> frozenset[str]:
    """The groups of Kafka that the policies require. No external reader stands for them, whatever
    its name."""
    return frozenset(
        name
        for policy in policies
        for name, is_external in policy.required_readers()
        if not is_external
    )


def external_readers(topics: Sequence[EnabledTopic]) -> frozenset[ExternalReader]:
    return frozenset(reader for topic in topics for reader in _readers_of(topic))


@dataclass
class _Found:
    """What was found of one external reader. ``commits``: by topic and partition. ``any_topic``:
    why it may read any topic."""

    topics: set[str] = field(default_factory=set)
    commits: dict[tuple[str, int], Commit] = field(default_factory=dict)
    problem: Failure | None = None
    any_topic: Failure | None = None

    def add(self, commit: Commit) -> None:
        """Two policies may name one checkpoint, which is read twice then, and a query of a file
        that can't be used may have another reader's name: the lower offset counts, and none is
        lower than any."""
        at = (commit.topic, commit.partition)
        self.commits[at] = min(self.commits.get(at, commit), commit, key=_how_far)


def _how_far(commit: Commit) -> int:
    return NOWHERE if commit.offset is None else commit.offset


def with_external(
    listing: GroupListing,
    topics: Sequence[EnabledTopic],
    external: Mapping[ExternalReader, Position],
    required: Set[str],
) -> GroupListing:
    """The listing with the external readers as groups. ``required``: `required_groups`.

    Each reads the topics that name it, and has commits on them. A Spark query also has commits on
    its sources that do not name it (`_sources_not_named`). The commits are null where the position
    is unknown, or where a group has the reader's name; on the sources also where that of a namesake
    is: which of the two was seen to read them is not known. If a group has the name, or a policy
    requires one of it, the reader goes by `namesake_id`.
    """
    if not external:
        return listing
    positions = {reader: _by_topic(position) for reader, position in external.items()}
    unnamed = _sources_not_named(topics, positions)
    shared = _shared_names(positions)
    unknown = {
        reader.name: position
        for reader, position in positions.items()
        if reader.name in shared and isinstance(position, Failure)
    }
    found: defaultdict[str, _Found] = defaultdict(_Found)
    for topic in topics:
        name = topic.reading.name
        own = _readers_of(topic)
        for reader in (*own, *unnamed.get(name, ())):
            at, position = found[reader.name], positions[reader]
            if reader not in own:
                position = unknown.get(reader.name, position)
            if reader.name in listing.groups:
                position = NAME_IS_TAKEN
            at.topics.add(name)
            if isinstance(position, Failure):
                at.problem = position
            for commit in _commits_on(topic, position, on_every=reader.name in shared):
                at.add(commit)
    for reader, position in positions.items():
        if isinstance(position, Failure) and reader.name not in found:
            found[reader.name].problem = position  # its topics are not here: it may read others
        if isinstance(position, Failure) and _may_read_any(reader, position):
            code = SHARED_NAME if reader.name in shared else position.code
            why = f"{position.message}; which topics it reads is not known, so it may read any"
            found[reader.name].any_topic = Failure(code, why)
    taken = {*listing.groups, *required, *(reader.name for reader in external)}
    groups, commits, members = {**listing.groups}, {**listing.commits}, {**listing.members}
    for name, reader_found in found.items():
        is_namesake = name in listing.groups or name in required
        group_id = namesake_id(name, is_external=True, taken=taken) if is_namesake else name
        groups[group_id] = GroupReading(
            group_id,
            GroupKind.EXTERNAL,
            EXTERNAL_STATE,
            failure=reader_found.any_topic,
            problem=reader_found.problem,
            namesake_of=name if is_namesake else None,
        )
        commits[group_id] = tuple(reader_found.commits.values())
        members[group_id] = GroupMembers(frozenset(reader_found.topics))
    return replace(listing, groups=groups, commits=commits, members=members)


def _shared_names(readers: Iterable[ExternalReader]) -> Set[str]:
    """The names of Spark queries that stand for another reader, too. No configuration has such, but
    that one of the two is of a file that can't be used."""
    kinds = {(reader.name, reader.spark_checkpoint) for reader in readers}
    return {name for name, times in Counter(name for name, _ in kinds).items() if times > 1}


def _may_read_any(reader: ExternalReader, position: Failure) -> bool:
    """Whether nothing tells which topics a Spark query reads."""
    is_query = reader.spark_checkpoint is not None
    return is_query and not (isinstance(position, UnknownPosition) and position.topics is not None)


_ByTopic: TypeAlias = "Mapping[str, Sequence[Commit]] | Failure"


def _by_topic(position: Position) -> _ByTopic:
    if isinstance(position, Failure):
        return position
    commits: defaultdict[str, list[Commit]] = defaultdict(list)
    for commit in position:
        commits[commit.topic].append(commit)
    return commits


def _topics_of_position(position: _ByTopic) -> Set[str]:
    if isinstance(position, Failure):
        topics = position.topics if isinstance(position, UnknownPosition) else None
        return topics or frozenset()
    return position.keys()


def _commits_on(topic: EnabledTopic, position: _ByTopic, *, on_every: bool) -> Sequence[Commit]:
    """``on_every``: with null ones on the partitions that the position lacks, where a namesake may
    have read on."""
    name = topic.reading.name
    commits = () if isinstance(position, Failure) else position.get(name, ())
    if not (on_every or isinstance(position, Failure)):
        return commits
    told = {commit.partition for commit in commits}
    unknown = [partition for partition in topic.partitions if partition not in told]
    return [*commits, *(Commit(name, partition, None) for partition in unknown)]


def _sources_not_named(
    topics: Sequence[EnabledTopic], positions: Mapping[ExternalReader, _ByTopic]
) -> Mapping[str, Sequence[ExternalReader]]:
    """By topic, the Spark queries whose checkpoint names it, and whose name its policy does not.

    A checkpoint names what its query reads, and nothing else. Any other document may be about more
    than one reader, or about topics that are no longer read.
    """
    named = {
        topic.reading.name: {(named.name, named.spark_checkpoint) for named in _readers_of(topic)}
        for topic in topics
    }
    unnamed: defaultdict[str, list[ExternalReader]] = defaultdict(list)
    for reader, position in positions.items():
        if reader.spark_checkpoint is None:
            continue
        for name in _topics_of_position(position) & named.keys():
            if (reader.name, reader.spark_checkpoint) not in named[name]:
                unnamed[name].append(reader)
    return unnamed


def unnamed_readers(
    topics: Sequence[EnabledTopic], external: Mapping[ExternalReader, Position]
) -> tuple[str, ...]:
    """Sentences: which external reader's position names an enabled topic whose policy does not name
    the reader, and what follows."""
    names: set[str] = set()
    positions = [(reader, _by_topic(position)) for reader, position in external.items()]
    for topic in topics:
        policy, name = topic.reading.policy, topic.reading.name
        if not isinstance(policy, TopicPolicy):
            continue
        named = {reader.name for reader in policy.external_readers}
        for reader, position in positions:
            if reader.name in named or name not in _topics_of_position(position):
                continue
            is_query = reader.spark_checkpoint is not None
            if not is_query and policy.excludes(reader.name):
                continue
            follows = (
                "it counts there all the same"
                if is_query
                else "what it has not read there can be deleted"
            )
            names.add(
                f"the position of {say_reader(reader.name, GroupKind.EXTERNAL)} names topic "
                f"{name}, whose groups.external does not name the reader: {follows}"
            )
    return tuple(sorted(names))


def _readers_of(topic: EnabledTopic) -> tuple[ExternalReader, ...]:
    policy = topic.reading.policy
    return policy.external_readers if isinstance(policy, TopicPolicy) else ()


def commit_rows(
    commits: Mapping[int, Sequence[Commit]],
    topic_ids: Mapping[str, int],
    partitions: Sequence[PartitionReading],
) -> tuple[pa.Table, frozenset[GroupTopic]]:
    """`COMMIT_SCHEMA`, and the groups with commits on partitions that the metadata lacks.

    ``commits``: by the group's position; those on topics without a position in ``topic_ids`` are
    left out. ``partitions``: sorted by topic and partition.
    """
    columns = [CommitColumns.of(part) for part in commits.values()]
    groups = np.repeat(np.array([*commits], np.int64), [len(part) for part in columns])
    on = _topics_of(columns, topic_ids)
    numbers, offsets = (
        np.concatenate([np.empty(0, np.int64), *found])
        for found in ([part.partitions for part in columns], [part.offsets for part in columns])
    )
    unreadable = np.concatenate([np.empty(0, np.bool_), *(part.unreadable for part in columns)])
    epochs = np.concatenate([np.empty(0, np.int64), *(part.leader_epochs for part in columns)])
    at = np.full(len(on), NOWHERE)
    at[on != NOWHERE] = positions_of(on[on != NOWHERE], numbers[on != NOWHERE], partitions)
    is_there = at != NOWHERE
    is_unknown = (on != NOWHERE) & ~is_there
    is_unreadable = unreadable[is_there]
    is_told = ~is_unreadable & (epochs[is_there] >= 0)
    rows = commit_table(
        group_id=pa.array(groups[is_there], pa.int32()),
        partition_id=pa.array(at[is_there], pa.int32()),
        is_committed=pa.array(np.ones(len(is_unreadable), np.bool_)),
        offset=pa.array(offsets[is_there], mask=is_unreadable),
        leader_epoch=pa.array(epochs[is_there].astype(np.int32), mask=~is_told),
    )
    unknown = zip(groups[is_unknown].tolist(), on[is_unknown].tolist(), strict=True)
    return rows, frozenset(GroupTopic(*pair) for pair in unknown)


def _topics_of(columns: Sequence[CommitColumns], topic_ids: Mapping[str, int]) -> Integers:
    blocks = [block for part in columns for block in part.topics]
    return np.repeat(
        np.array([topic_ids.get(name, NOWHERE) for name, _ in blocks], np.int64),
        np.array([count for _, count in blocks], np.int64),
    )


def positions_of(
    topics: Integers, numbers: Integers, partitions: Sequence[PartitionReading]
) -> Integers:
    """Where the numbered partitions of those topics stand among ``partitions``.

    Both are one ascending key. It is looked up in a table, or searched for if the table would be
    far larger than what is asked for: if one topic has many more partitions than the others.
    """
    if not partitions:
        return np.full(len(topics), NOWHERE)
    width = 1 + max(partition.partition for partition in partitions)
    keys = np.array(
        [partition.topic * width + partition.partition for partition in partitions], np.int64
    )
    is_known = (topics != NOWHERE) & (numbers >= 0) & (numbers < width)
    asked = np.where(is_known, topics * width + numbers, NOWHERE)
    places = int(keys[-1]) + 1
    if places > DENSE * max(len(asked), len(keys)):
        nearest = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where(keys[nearest] == asked, nearest, NOWHERE)
    position_at = np.full(places + 1, NOWHERE)  # what is not there is looked up at the end
    position_at[keys] = np.arange(len(keys))
    return position_at[np.where(asked < places, asked, NOWHERE)]
