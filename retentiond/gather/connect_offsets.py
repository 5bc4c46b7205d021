"""Where a source connector of Kafka Connect stands that reads from Kafka: MirrorMaker 2.

A worker keeps the position of each source partition as JSON, under the key ``[connector,
partition]``. MirrorSourceConnector's source partition is ``{"cluster": alias, "partition": 0,
"topic": "orders"}`` and its position ``{"offset": N}``, the offset of the last record that has
arrived at the other side: it goes on at N + 1. A record without a value, or an offset below zero,
means that it has none and begins where it is configured to.

Invariant: of several keys of one source partition (written in another order, or before the topic
had more partitions) nobody knows which one Connect takes. The smallest position counts, and none
where one of them has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from retentiond.config.external_reader import ConnectOffsets
from retentiond.formatting import say_names
from retentiond.kafka.interface import KeyedRecord
from retentiond.model import Commit

MOST_NAMED = 3


class NoPosition(Exception):
    """Why none can be told, in a sentence."""


class SourcePartition(NamedTuple):
    cluster: str
    topic: str
    partition: int


def connector_commits(
    records: Iterable[KeyedRecord], wanted: ConnectOffsets, parsed: Callable[[bytes], Any]
) -> tuple[Commit, ...]:
    """What the connector reads next. ``records``: the last of each key of the topic; ``parsed``
    reads JSON. Raises `NoPosition`, and whatever ``parsed`` raises."""
    positions: dict[SourcePartition, int | None] = {}
    for record in records:
        key = None if record.key is None else parsed(record.key)
        if not isinstance(key, list) or len(key) != 2 or not isinstance(key[0], str):
            raise NoPosition(f"topic {wanted.topic} has a key that is none of Kafka Connect's")
        if key[0] != wanted.connector:
            continue
        source = _source(key[1], wanted)
        if wanted.cluster not in (None, source.cluster):
            continue
        position = None if record.value is None else _next_offset(parsed(record.value), wanted)
        before = positions.get(source, position)
        positions[source] = None if position is None or before is None else min(before, position)
    clusters = sorted({source.cluster for source in positions})
    if not clusters:
        of_cluster = "" if wanted.cluster is None else f" in cluster {wanted.cluster}"
        raise NoPosition(
            f"topic {wanted.topic} has no position of connector {wanted.connector}{of_cluster}"
        )
    if len(clusters) > 1:
        raise NoPosition(
            f"topic {wanted.topic} has positions of connector {wanted.connector} in several "
            f"clusters ({say_names(clusters, MOST_NAMED)}): name this one's alias as "
            "connect_offsets.cluster"
        )
    return tuple(
        Commit(source.topic, source.partition, position)
        for source, position in sorted(positions.items())
        if position is not None
    )


def _source(partition: Any, wanted: ConnectOffsets) -> SourcePartition:
    match partition:
        case {"cluster": str(cluster), "topic": str(topic), "partition": int(number)} if (
            len(partition) == 3 and not isinstance(number, bool) and 0 <= number < 2**31
        ):
            return SourcePartition(cluster, topic, number)
    raise NoPosition(
        f"the positions of connector {wanted.connector} in topic {wanted.topic} are none of "
        "MirrorSourceConnector's"
    )


def _next_offset(value: Any, wanted: ConnectOffsets) -> int | None:
    match value:
        case None:
            return None
        case {"offset": int(offset)} if not isinstance(offset, bool) and offset < 2**63 - 1:
            return offset + 1 if offset >= 0 else None
    raise NoPosition(
        f"a position of connector {wanted.connector} in topic {wanted.topic} is no offset"
    )
