"""How a look at a broker's directories is printed: a table for people, one JSON object."""

from __future__ import annotations

from typing import Any

from retentiond.cli.options import Output
from retentiond.cli.output.printing import (
    Column,
    ColumnKind,
    Row,
    print_json,
    print_table,
    printer,
    say,
)
from retentiond.formatting import rfc3339, say_many
from retentiond.model import Failure
from retentiond.tools.orphans.orphan import Fate, Orphan, Scan

DIRECTORIES = (
    Column("LOG DIRECTORY", ColumnKind.NAME),
    Column("ORPHANS", ColumnKind.FIGURE),
    Column("BYTES", ColumnKind.FIGURE),
)

ORPHANS = (
    Column("FOLDER", ColumnKind.NAME),
    Column("BYTES", ColumnKind.FIGURE),
    Column("ORPHAN SINCE", ColumnKind.WORD, spare=True),
    Column("BECAUSE", ColumnKind.NAME),
    Column("FATE", ColumnKind.NAME),
)

STYLES = {Fate.REMOVED: "green", Fate.FAILED: "red", Fate.REMOVABLE: "yellow", Fate.KEPT: ""}


def show(look: Scan, output: Output) -> None:
    if output is Output.JSON:
        print_json(document(look))
        return
    console = printer()
    print_table(
        console,
        DIRECTORIES,
        (
            Row([str(log_dir), str(count), str(size_bytes)])
            for log_dir, (count, size_bytes) in look.totals().items()
        ),
    )
    if look.orphans:
        say(console, "")
        print_table(console, ORPHANS, map(_row, look.orphans))
    for stranger in look.unclear:
        say(console, f"left alone: {stranger.log_dir / stranger.name!s}: {stranger.why}")
    for problem in look.problems:
        say(console, f"incomplete: {problem}")
    say(console, summary(look))


def summary(look: Scan) -> str:
    fates = [orphan.fate for orphan in look.orphans]
    return (
        f"broker {look.disks.broker}: {say_many(len(fates), 'orphan')}, of which "
        + ", ".join(f"{fates.count(fate)} {fate}" for fate in Fate)
        + "."
    )


def _row(orphan: Orphan) -> Row:
    return Row(
        [
            str(orphan.folder.path),
            str(orphan.contents.segment_bytes),
            rfc3339(orphan.since_ms),
            orphan.why,
            orphan.fate.value + (f": {orphan.reason}" if orphan.reason else ""),
        ],
        STYLES[orphan.fate],
    )


def document(look: Scan) -> dict[str, Any]:
    retention = look.retention_ms
    return {
        "broker": look.disks.broker,
        "cluster_id": look.disks.cluster_id,
        "at": rfc3339(look.at_ms),
        "complete": not look.problems,
        "problems": list(look.problems),
        "retention_ms": None if isinstance(retention, Failure) else retention,
        "log_dirs": [
            {"log_dir": str(log_dir), "count": count, "size_bytes": size_bytes}
            for log_dir, (count, size_bytes) in look.totals().items()
        ],
        "orphans": [_orphan(orphan) for orphan in look.orphans],
        "left_alone": [
            {"log_dir": str(each.log_dir), "folder": each.name, "why": each.why}
            for each in look.unclear
        ],
    }


def _orphan(orphan: Orphan) -> dict[str, Any]:
    folder, newest_ms = orphan.folder, orphan.contents.newest_ms
    return {
        "log_dir": str(folder.log_dir),
        "folder": folder.name,
        "topic": folder.parsed_name.topic,
        "partition": folder.parsed_name.partition,
        "kind": folder.parsed_name.kind.value,
        "topic_id": folder.topic_id,
        "size_bytes": orphan.contents.segment_bytes,
        "newest_record": None if newest_ms is None else rfc3339(newest_ms),
        "since": rfc3339(orphan.since_ms),
        "why": orphan.why,
        "fate": orphan.fate.value,
        "reason": orphan.reason,
    }
