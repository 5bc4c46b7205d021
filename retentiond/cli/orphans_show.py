"""How a look at a broker's directories is printed: a table for people, one JSON object."""

from __future__ import annotations

import json
from typing import Any, TextIO

from retentiond.cli.options import Output
from retentiond.cli.table import Column, Kind, Row, print_table, printer, say
from retentiond.model import Failure
from retentiond.observe.report import rfc3339
from retentiond.orphans.orphan import Fate, Look, Orphan

DIRECTORIES = (
    Column("LOG DIRECTORY", Kind.NAME),
    Column("ORPHANS", Kind.FIGURE),
    Column("BYTES", Kind.FIGURE),
)

ORPHANS = (
    Column("FOLDER", Kind.NAME),
    Column("BYTES", Kind.FIGURE),
    Column("ORPHAN SINCE", Kind.WORD, spare=True),
    Column("BECAUSE", Kind.NAME),
    Column("FATE", Kind.NAME),
)

STYLES = {Fate.REMOVED: "green", Fate.FAILED: "red", Fate.REMOVABLE: "yellow", Fate.KEPT: ""}


def show(look: Look, output: Output, out: TextIO) -> None:
    if output is Output.JSON:
        json.dump(document(look), out, indent=2)
        out.write("\n")
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


def summary(look: Look) -> str:
    fates = [orphan.fate for orphan in look.orphans]
    return (
        f"broker {look.disks.broker}: {len(fates)} orphans, of which "
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


def document(look: Look) -> dict[str, Any]:
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
        "topic": folder.means.topic,
        "partition": folder.means.partition,
        "kind": folder.means.kind.value,
        "topic_id": folder.topic_id,
        "size_bytes": orphan.contents.segment_bytes,
        "newest_record": None if newest_ms is None else rfc3339(newest_ms),
        "since": rfc3339(orphan.since_ms),
        "why": orphan.why,
        "fate": orphan.fate.value,
        "reason": orphan.reason,
    }
