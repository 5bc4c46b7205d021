"""The columns of the history, what a row of each kind says, and how files are written.

The history is a single Delta table, so that an entry becomes visible as a whole. `deltalake`,
DuckDB and pandas can read it. It is partitioned by ``day``. A row fills the columns of its kind;
the others are null. `retentiond.model.ROW_FIELDS` says which fields of a plan's row it has.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa
from deltalake import ColumnProperties, WriterProperties

from retentiond.fields import Storage
from retentiond.model import ROW_FIELDS


class RowKind(StrEnum):
    """What a row says (the grain within an entry is in brackets)."""

    CYCLE = "cycle"
    """The entry itself [one]: ``cycle_id``, ``complete``, ``dry_run``, ``observed_ms`` (monotonic
    time from the previous entry's ``at`` to this one's; null for the first entry of a process),
    ``read_ms`` (how long after ``at`` an offset may have been read), ``is_whole`` (the entry has
    all commits, groups and readers, not only the changed ones)."""

    PARTITION = "partition"
    """A partition of an enabled topic [topic, partition]: its offsets, sizes and decision."""

    COMMIT = "commit"
    """A commit that has moved since the previous entry [group, topic, partition]. ``state`` is a
    `CommitState`, or null if the commit is gone. ``committed_offset`` is null if the commit is gone
    or can't be read."""

    GROUP = "group"
    """A group whose state has changed [group]. ``state`` is live, empty, vanished, unreadable, or
    null if the group counts no longer. ``complete`` is false if the group is unreadable as a whole,
    so that it may read any topic."""

    READER = "reader"
    """A group that was seen to read a topic, without a commit [group, topic]. ``state`` is live,
    or null if the group is no longer known to read it."""

    DELETION = "deletion"
    """A deletion since the previous entry [cycle_id, topic, partition]: ``cutoff``, ``records``,
    ``outcome``."""

    LOG_DIR = "log_dir"
    """A broker's log directory [broker, log_dir]: ``total_bytes`` and ``usable_bytes`` of its
    disk."""


class CommitState(StrEnum):
    """What a commit proves: only `READ` proves anything."""

    READ = "read"
    """The group has read the records below the commit."""

    UNREADABLE = "unreadable"
    """The commit can't be read."""

    REPLACED = "replaced"
    """The commit may be older than the present records."""


ARROW_TYPES = {
    Storage.TEXT: pa.string(),
    Storage.FLAG: pa.bool_(),
    Storage.INT32: pa.int32(),
    Storage.INT64: pa.int64(),
}

PLAN_FIELDS = tuple(field for field in ROW_FIELDS if field.said.in_history)
"""The fields of a plan's row that a partition's row has."""

ENTRY_COLUMNS = ("entry", "at", "cluster_id", "kind")
"""The columns that every row fills in addition to its day."""

COLUMNS: dict[RowKind, tuple[str, ...]] = {
    RowKind.CYCLE: (
        "cycle_id",
        "complete",
        "result",
        "dry_run",
        "observed_ms",
        "read_ms",
        "is_whole",
    ),
    RowKind.PARTITION: (
        *(field.name for field in PLAN_FIELDS),
        "last_stable_offset",
        "size_bytes",
        "log_dirs",
        "forced_retention_ms",
    ),
    RowKind.COMMIT: ("topic", "partition", "group", "committed_offset", "state"),
    RowKind.GROUP: ("group", "group_kind", "state", "complete"),
    RowKind.READER: ("topic", "group", "state"),
    RowKind.DELETION: ("topic", "partition", "cycle_id", "cutoff", "records", "outcome"),
    RowKind.LOG_DIR: ("broker", "log_dir", "total_bytes", "usable_bytes"),
}
"""The other columns that a row of a kind may fill. The rest is null."""

SCHEMA = pa.schema(
    [
        pa.field("day", pa.string(), nullable=False),  # of ``at`` in UTC, YYYY-MM-DD
        pa.field("entry", pa.int64(), nullable=False),  # counts up, even if the clock goes back
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),  # when the cycle began to read
        pa.field("cluster_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # of `RowKind`
        pa.field("cycle_id", pa.string()),
        pa.field("complete", pa.bool_()),  # every group that could bear on a decision was seen
        pa.field("result", pa.string()),  # ok, incomplete or failed: as the cycle's log line says
        pa.field("observed_ms", pa.int64()),
        pa.field("read_ms", pa.int64()),
        pa.field("is_whole", pa.bool_()),
        *(pa.field(field.name, ARROW_TYPES[field.said.type.storage]) for field in PLAN_FIELDS),
        pa.field("last_stable_offset", pa.int64()),
        pa.field("size_bytes", pa.int64()),  # of all replicas' disks
        pa.field("log_dirs", pa.string()),  # of all replicas: a JSON list of BROKER:PATH
        pa.field("forced_retention_ms", pa.int64()),  # null: unlimited, or not known
        pa.field("group", pa.string()),
        pa.field("group_kind", pa.string()),
        pa.field("state", pa.string()),
        pa.field("committed_offset", pa.int64()),
        pa.field("outcome", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("broker", pa.int32()),
        pa.field("log_dir", pa.string()),
        pa.field("total_bytes", pa.int64()),
        pa.field("usable_bytes", pa.int64()),
    ]
)

FILE_SCHEMA = SCHEMA.remove(SCHEMA.get_field_index("day"))
"""The columns in a file. The day is in the file's path and in the table's log."""

ROW_GROUP = 128 * 1024
"""Most rows of a row group: few enough that a query skips many, enough for good compression."""

NUMBERS = [field.name for field in FILE_SCHEMA if field.type in (pa.int64(), pa.int32())]

WRITER = WriterProperties(
    compression="ZSTD",
    max_row_group_size=ROW_GROUP,
    column_properties={
        name: ColumnProperties(
            encoding="DELTA_BINARY_PACKED", dictionary_enabled=False, statistics_enabled="CHUNK"
        )
        for name in NUMBERS
    },
    default_column_properties=ColumnProperties(dictionary_enabled=True, statistics_enabled="CHUNK"),
)
"""How an entry is written."""

PACKED = {
    "compression": "zstd",
    "use_dictionary": [
        field.name for field in FILE_SCHEMA if field.type == pa.string() or field.name == "at"
    ],
    "column_encoding": dict.fromkeys(NUMBERS, "DELTA_BINARY_PACKED"),
    "store_schema": False,
}
"""How a merged day is written. All rows of an entry have the same time, so it has a dictionary."""
