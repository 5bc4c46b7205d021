"""How the outcome of ``delete-records`` looks: a line a partition, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from retentiond.cli.options import Output
from retentiond.delete_records.item import Item
from retentiond.delete_records.journal import offset_of
from retentiond.model import Outcome
from retentiond.wording.figures import say_bytes
from retentiond.wording.printable import printable


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
    return f"{_count(done, 'partition')} done, {rest}"


def spanned(pending: Sequence[Item]) -> str:
    """As in ``13 records from 2 partitions``, after a preview."""
    records = sum(item.records or 0 for item in pending)
    known = [item.predicted_bytes for item in pending if item.predicted_bytes is not None]
    freed = f" (about {say_bytes(sum(known))} on disk)" if len(known) == len(pending) > 0 else ""
    return f"{_count(records, 'record')} from {_count(len(pending), 'partition')}{freed}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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
    on_disk = "" if freed is None else f", about {say_bytes(freed)} on disk"
    return (
        f"from {item.log_start_offset} to {item.cutoff}: {_count(item.records, 'record')}{on_disk}"
    )


def _document(item: Item) -> dict[str, Any]:
    return {
        "topic": item.topic,
        "partition": item.partition,
        "offset": offset_of(item),
        "log_start_offset": item.log_start_offset,
        "high_watermark": item.high_watermark,
        "records": item.records,
        "predicted_bytes": item.predicted_bytes,
        "outcome": item.outcome.value,
        "low_watermark": item.low_watermark,
        "error": item.error,
    }
