"""How the outcome of ``delete-records`` looks: a line a partition, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from retentiond.cli.options import Output
from retentiond.formatting import printable, say_bytes, say_many, say_stored
from retentiond.model import Outcome
from retentiond.tools.delete_records.partitions import Item
from retentiond.tools.delete_records.request import offset_of


def show(items: Sequence[Item], output: Output, out: TextIO, *, dry_run: bool) -> None:
    """Plain lines and no table: a rich one would take longer than the deletion."""
    if output is Output.JSON:
        json.dump({"dry_run": dry_run, "partitions": [*map(_document, items)]}, out, indent=2)
        out.write("\n")
        return
    out.writelines(f"{line}\n" for line in lines(items))
    out.write(f"{summary(items, dry_run=dry_run)}\n")


def lines(items: Sequence[Item]) -> Iterator[str]:
    """What is known of each: its low watermark, what would be deleted, or why nothing is."""
    names = [printable(str(item.at)) for item in items]
    width = max(map(len, names), default=0)
    for name, item in zip(names, items, strict=True):
        yield f"{name:{width}}  {printable(_said(item))}"


def summary(items: Sequence[Item], *, dry_run: bool) -> str:
    """How many partitions of each kind; in a dry run also how many records."""
    failed = sum(item.has_failed for item in items)
    left_out = sum(item.target is None and not item.has_failed for item in items)
    rest = f"{failed:,} failed, {left_out:,} left out"
    if dry_run:
        asked = [item for item in items if item.is_pending]
        return f"{spanned(asked)}; {rest}; nothing was deleted"
    done = sum(item.outcome is Outcome.DELETED for item in items)
    return f"{say_many(done, 'partition')} done, {rest}"


def spanned(pending: Sequence[Item]) -> str:
    """As in ``13 records from 2 partitions``, after a preview."""
    records = sum(item.records or 0 for item in pending)
    known = [item.predicted_bytes for item in pending if item.predicted_bytes is not None]
    remote = [each for item in pending if (each := item.predicted_remote_bytes) is not None]
    freed = ""
    if len(known) == len(pending) > 0:
        freed = (
            f" (about {_on_disk(sum(known), sum(remote) if len(remote) == len(pending) else None)})"
        )
    return f"{say_many(records, 'record')} from {say_many(len(pending), 'partition')}{freed}"


def _said(item: Item) -> str:
    if item.outcome is Outcome.DELETED:
        return f"low watermark {item.low_watermark}"
    if item.outcome is Outcome.UNKNOWN:
        return f"unknown: {item.error}"
    if item.outcome is Outcome.FAILED:
        return f"error: {item.error}"
    if item.target is None:
        return f"left out: {item.error}"
    if item.records is None:
        return f"up to {item.target}, of which nothing more can be read"
    freed = item.predicted_bytes
    remote = item.predicted_remote_bytes
    on_disk = "" if freed is None else f", about {_on_disk(freed, remote)}"
    records = say_many(item.records, "record")
    return f"from {item.log_start_offset} to {item.cutoff}: {records}{on_disk}"


def _on_disk(local: int, remote: int | None) -> str:
    return f"{say_bytes(local)} on disk" if remote == 0 else say_stored(local, remote)


def _document(item: Item) -> dict[str, Any]:
    return {
        "topic": item.topic,
        "partition": item.partition,
        "offset": offset_of(item),
        "log_start_offset": item.log_start_offset,
        "high_watermark": item.high_watermark,
        "records": item.records,
        "predicted_bytes": item.predicted_bytes,
        "predicted_remote_bytes": item.predicted_remote_bytes,
        "outcome": item.outcome.value,
        "low_watermark": item.low_watermark,
        "error": item.error,
    }
