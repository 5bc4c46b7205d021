"""Writes a made-up past as the daemon would have kept it: a file for each day that is over, or, of
one day, an entry at a time."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from devkit.bench.past_world import A_DAY, DISK_BYTES, STEP_MS, PastTopic, usable_bytes
from retentiond.history.schema import FILE_SCHEMA, ROW_GROUP, SCHEMA, RowKind
from retentiond.history.table import HistoryTable

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
CLUSTER = "made-up"

AT_ONCE = 500_000
"""Rows that are written together, about: a row group that ends early costs little."""


def write_days(place: Path, topics: Sequence[PastTopic], days: int) -> int:
    """As many rows as there are then."""
    table, rows = HistoryTable.open_or_create(place), 0
    for day in range(days):
        first, last = day * A_DAY, (day + 1) * A_DAY
        parts = list(_parts(topics, first, last))
        rows += (expected := sum(each.num_rows for each in parts))
        # What the daemon has: a small file, which the day's own takes the place of.
        table.append(CLUSTER, last, _whole(parts[0].slice(0, 1), first))
        (small,) = table.files(CLUSTER, since_day=_day(first), until_day=_day(first))
        old = small._replace(rows=expected, first_entry=first + 1, last_entry=last)
        table.replace(CLUSTER, [old], _in_row_groups(parts))
    return rows


def write_entries(place: Path, topics: Sequence[PastTopic]) -> None:
    """A day, one entry at a time, as the daemon's keeper leaves them."""
    table = HistoryTable.open_or_create(place)
    for entry in range(A_DAY):
        rows = pa.concat_tables(_parts(topics, entry, entry + 1))
        table.append(CLUSTER, entry + 1, _whole(rows, entry))


def _whole(rows: Any, entry: int) -> Any:
    """With the column of the day."""
    return pa.Table.from_arrays(
        [pa.repeat(pa.scalar(_day(entry)), rows.num_rows), *rows.columns], schema=SCHEMA
    )


def _day(entry: int) -> str:
    return f"{BEGIN + timedelta(milliseconds=entry * STEP_MS):%Y-%m-%d}"


def _in_row_groups(parts: Sequence[Any]) -> Iterator[Any]:
    for part in parts:
        for at in range(0, part.num_rows, ROW_GROUP):
            yield part.slice(at, ROW_GROUP)


def _parts(topics: Sequence[PastTopic], first: int, last: int) -> Iterator[Any]:
    """Tables of one kind each, sorted as a day that was put together; rows of entries from the
    first up to the last, excluded."""
    entries = np.arange(first, last)
    yield _cycles(entries)
    for of_topic in (_commits, _deletions):
        held: list[Any] = []
        for topic in topics:
            held.append(of_topic(topic, entries))
            if sum(each.num_rows for each in held) > AT_ONCE:
                yield pa.concat_tables(held)
                held = []
        if held:
            yield pa.concat_tables(held)
    yield _groups(topics, entries)
    yield _log_dirs(entries)
    yield pa.concat_tables([_partitions(each, entries) for each in topics])


def _rows(kind: RowKind, entry: npt.NDArray[np.int64], columns: Mapping[str, Any]) -> Any:
    """``entry``: of each row, counted from 0."""
    count = len(entry)
    began_us = int(BEGIN.timestamp() * 1_000_000)
    given = {
        "entry": entry + 1,
        "at": pa.array(began_us + entry * STEP_MS * 1000, pa.timestamp("us", "UTC")),
        "cluster_id": CLUSTER,
        "kind": kind.value,
        **columns,
    }
    return pa.Table.from_arrays(
        [_column(given.get(field.name), field.type, count) for field in FILE_SCHEMA],
        schema=FILE_SCHEMA,
    )


def _column(value: Any, kind: Any, count: int) -> Any:
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, str | int | bool):
        return pa.repeat(pa.scalar(value, kind), count)
    return value if isinstance(value, pa.Array) else pa.array(value, kind)


def _cycles(entries: npt.NDArray[np.int64]) -> Any:
    every = {"complete": True, "result": "ok", "dry_run": False, "read_ms": 0}
    names = [f"cycle-{entry}" for entry in entries]
    observed = [None if entry == 0 else STEP_MS for entry in entries]
    columns = {"cycle_id": names, "observed_ms": observed, "is_whole": entries % A_DAY == 0}
    return _rows(RowKind.CYCLE, entries, {**every, **columns})


def _partitions(topic: PastTopic, entries: npt.NDArray[np.int64]) -> Any:
    span = slice(entries[0], entries[-1] + 1)
    ends = topic.ends[:, span]

    def flat(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return values[:, span].reshape(-1)

    columns = {
        "topic": topic.name,
        "topic_id": f"id-of-{topic.name}",
        "partition": np.repeat(np.arange(topic.partitions), len(entries)),
        "log_start_offset": flat(topic.real_starts),
        "high_watermark": flat(topic.ends),
        "last_stable_offset": flat(topic.ends),
        "size_bytes": flat(topic.sizes),
        "log_dirs": json.dumps(["1:/kafka"]),
        "verdict": "nothing",
        "reason": "too_young",
        "groups": topic.groups,
        "min_committed_offset": flat(topic.least),
        "binding_group": topic.keeper,
        "consumed_retention_ms": STEP_MS,
    }
    return _rows(RowKind.PARTITION, np.tile(entries, len(ends)), columns)


def _commits(topic: PastTopic, entries: npt.NDArray[np.int64]) -> Any:
    """Those that have moved; all of them in the first entry of a day."""
    # by partition, group and entry
    now, before = (
        np.stack([topic.committed(each, at) for each in range(topic.groups)], axis=1)
        for at in (entries, entries - 1)
    )
    moved = (now != before) | (entries % A_DAY == 0)
    partition, group, at = np.nonzero(moved)
    names = pa.array([topic.group(each) for each in range(topic.groups)])
    columns = {
        "topic": topic.name,
        "partition": partition,
        "group": names.take(pa.array(group)),
        "committed_offset": now[partition, group, at],
        "state": "read",
    }
    return _rows(RowKind.COMMIT, entries[at], columns)


def _deletions(topic: PastTopic, entries: npt.NDArray[np.int64]) -> Any:
    after = np.hstack([topic.real_starts[:, 1:], topic.last_cutoffs[:, np.newaxis]])
    partition, at = np.nonzero((after > topic.real_starts)[:, entries[0] : entries[-1] + 1])
    entry = entries[at]
    cutoff = after[partition, entry]
    columns = {
        "topic": topic.name,
        "partition": partition,
        "cycle_id": "made-up",
        "cutoff": cutoff,
        "records": cutoff - topic.real_starts[partition, entry],
        "outcome": "deleted",
    }
    return _rows(RowKind.DELETION, entry, columns)


def _groups(topics: Sequence[PastTopic], entries: npt.NDArray[np.int64]) -> Any:
    names = [topic.group(each) for topic in topics for each in range(topic.groups)]
    wholes = entries[entries % A_DAY == 0]
    columns = {
        "group": names * len(wholes),
        "group_kind": "consumer",
        "state": "live",
        "complete": True,
    }
    return _rows(RowKind.GROUP, np.repeat(wholes, len(names)), columns)


def _log_dirs(entries: npt.NDArray[np.int64]) -> Any:
    columns = {
        "broker": 1,
        "log_dir": "/kafka",
        "total_bytes": DISK_BYTES,
        "usable_bytes": usable_bytes(int(entries[-1]) + 1)[entries[0] :],
    }
    return _rows(RowKind.LOG_DIR, entries, columns)
