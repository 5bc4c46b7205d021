"""What the audit log says of cycles."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path

from retentiond.state.audit_file import AUDIT_NAME
from retentiond.state.audit_records import CycleRecord


def read_cycles(state_dir: Path) -> list[CycleRecord]:
    """By the time they were planned."""
    with closing(sqlite3.connect(state_dir / AUDIT_NAME)) as connection:
        connection.row_factory = sqlite3.Row
        names = ", ".join(field.name for field in fields(CycleRecord))
        rows = connection.execute(f"SELECT {names} FROM cycles ORDER BY planned_at_ms, cycle_id")
        return [
            CycleRecord(
                **{**row, "dry_run": bool(row["dry_run"]), "complete": bool(row["complete"])}
            )
            for row in rows
        ]
