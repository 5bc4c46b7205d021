"""Deletions of the audit log as a file: Parquet or CSV, with the names of ``audit --output json``.

Invariant: the file is there as a whole or not at all, and none that was there is replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from retentiond.cli.output.audit import document, write_csv
from retentiond.errors import UsageError
from retentiond.state.audit_records import DeletionRecord
from retentiond.state.state_dir import sync

GROUP_ROWS = 5_000
"""So many rows are in memory at a time."""

_TEXT, _FIGURE, _TIME = pa.string(), pa.int64(), pa.timestamp("ms", "UTC")

SCHEMA = pa.schema(
    [
        ("cycle_id", _TEXT),
        ("cluster_id", _TEXT),
        ("topic", _TEXT),
        ("partition", _FIGURE),
        ("topic_id", _TEXT),
        ("log_start_offset", _FIGURE),
        ("high_watermark", _FIGURE),
        ("min_committed_offset", _FIGURE),
        ("binding_group", _TEXT),
        ("binding_committed_offset", _FIGURE),
        ("retention_offset", _FIGURE),
        ("cutoff", _FIGURE),
        ("verdict", _TEXT),
        ("reason", _TEXT),
        ("groups", _FIGURE),
        ("records", _FIGURE),
        ("predicted_bytes", _FIGURE),
        ("predicted_remote_bytes", _FIGURE),
        ("consumed_retention_ms", _FIGURE),
        ("only_groups", _TEXT),
        ("detail", _TEXT),
        ("freed_bytes", _FIGURE),
        ("evidence_at", _TIME),
        ("requested_at", _TIME),
        ("outcome", _TEXT),
        ("low_watermark", _FIGURE),
        ("error", _TEXT),
        ("evidence", pa.map_(_TEXT, _FIGURE)),  # by group, its committed offset
    ]
)
"""One row for each deletion."""


def refuse_unfit(path: Path) -> None:
    """Raises `UsageError` for a file that can't be made, before anything is read."""
    if path.suffix not in {".parquet", ".csv"}:
        raise UsageError(f"--export {path}: give a name that ends with .parquet or .csv")
    if path.exists() or path.is_symlink():
        raise _exists(path)
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for {path.name}; make it first")


def export_deletions(
    deletions: Iterable[DeletionRecord], path: Path, *, with_evidence: bool
) -> int:
    """How many there were. ``with_evidence``: CSV has a line for each group then."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        try:
            if path.suffix == ".csv":
                with unfinished.open("w", encoding="utf-8", newline="") as file:
                    count = write_csv(deletions, file, with_evidence=with_evidence)
            else:
                count = _write_parquet(deletions, unfinished)
            _put_in_place(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{path} can't be written ({why}); choose another") from error
    return count


def _write_parquet(deletions: Iterable[DeletionRecord], path: Path) -> int:
    rows, count = map(_row, deletions), 0
    with parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(islice(rows, GROUP_ROWS)):
            writer.write_table(pa.Table.from_pylist(group, SCHEMA))
            count += len(group)
    return count


def _row(deletion: DeletionRecord) -> dict[str, Any]:
    return document(deletion) | {
        "evidence_at": _time(deletion.evidence_at_ms),
        "requested_at": _time(deletion.requested_at_ms),
        "evidence": [(group.group_id, group.committed_offset) for group in deletion.evidence],
    }


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def _put_in_place(unfinished: Path, path: Path) -> None:
    """On disk, under its name."""
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(unfinished, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise _exists(path) from None
        unfinished.rename(path)
    sync(path.parent)


def _exists(path: Path) -> UsageError:
    return UsageError(f"{path} exists and is not overwritten; give --export another name")
