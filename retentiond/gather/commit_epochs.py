"""Whether commits belong to the logs that are there: what the leaders say of their epochs.

An unclean election cuts a log off below what groups have read, and other records take the place of
theirs. As soon as the new log has grown past an old commit, only the leader epoch that was
committed with it tells (KIP-320). It is asked about after the ends were read, so by the leaders
whose ends they are.

A topic that is recreated begins again at the same epoch. What tells there is the memory of earlier
readings (`retentiond.memory.recall`), and it tells of clients that commit no epoch, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from retentiond.kafka.interface import EpochEnd, Kafka, PartitionEpoch
from retentiond.model import Failure
from retentiond.snapshot import EPOCH_SCHEMA, PartitionReading, Snapshot, partitions_of

NOT_ANSWERED = Failure("NOT_ANSWERED", "the leader left a leader epoch out of its answer")


def with_epochs(snapshot: Snapshot, kafka: Kafka) -> Snapshot:
    """The snapshot with `Snapshot.epochs`; a partition whose leader does not tell is unread."""
    rows = _deletable(snapshot)
    if not rows.num_rows:
        return snapshot
    partitions = rows["partition_id"].to_numpy()
    epochs = rows["leader_epoch"].to_numpy()
    pairs, which = np.unique(np.stack([partitions, epochs]), axis=1, return_inverse=True)
    names = partitions_of(snapshot)
    asked = [PartitionEpoch(names[at], epoch) for at, epoch in pairs.T.tolist()]
    told = kafka.epoch_ends(asked)
    answers = [told.get(each, NOT_ANSWERED) for each in asked]
    unread = {
        at: answer
        for at, answer in zip(pairs[0].tolist(), answers, strict=True)
        if isinstance(answer, Failure)
    }
    ends = [each if isinstance(each, EpochEnd) else None for each in answers]
    is_past = np.array([end is not None for end in ends])[which.ravel()]
    past = rows.filter(pa.array(is_past))
    if not past.num_rows and not unread:
        return snapshot
    of_rows = [ends[pair] or EpochEnd(None, None) for pair in which.ravel()[is_past].tolist()]
    columns = [past[name] for name in ("group_id", "partition_id", "offset", "leader_epoch")]
    columns += [
        pa.array([end.known_epoch for end in of_rows], EPOCH_SCHEMA.field("known_epoch").type),
        pa.array([end.end_offset for end in of_rows], EPOCH_SCHEMA.field("end_offset").type),
    ]
    return replace(
        snapshot,
        epochs=pa.Table.from_arrays(columns, schema=EPOCH_SCHEMA),
        partitions=tuple(
            replace(each, failure=each.failure or unread[at]) if at in unread else each
            for at, each in enumerate(snapshot.partitions)
        ),
    )


def _deletable(snapshot: Snapshot) -> pa.Table:
    """The commits with an epoch between the log start and the high watermark: one at or below the
    log start frees nothing, and one beyond the end holds as it is."""
    commits = snapshot.commits
    # An epoch stands only beside an offset that could be read.
    rows = commits.filter(pc.is_valid(commits["leader_epoch"]))
    partitions, offsets = rows["partition_id"].to_numpy(), rows["offset"].to_numpy()
    starts, ends = _bounds(snapshot.partitions)
    return rows.filter(pa.array((starts[partitions] < offsets) & (offsets <= ends[partitions])))


def _bounds(
    partitions: Sequence[PartitionReading],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Log starts and high watermarks; where one is unread, no offset lies between them."""
    none = np.iinfo(np.int64)
    starts = [
        none.max if each.log_start_offset is None else each.log_start_offset for each in partitions
    ]
    ends = [none.min if each.high_watermark is None else each.high_watermark for each in partitions]
    return np.array(starts, np.int64), np.array(ends, np.int64)
