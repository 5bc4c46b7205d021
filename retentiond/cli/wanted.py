"""What ``delete-records`` is asked to delete: a file's offsets, or bounds to be worked out."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from retentiond.delete_records.bounds import Bounds, Commits, work_out
from retentiond.delete_records.item import Item
from retentiond.delete_records.lookup import find
from retentiond.delete_records.offsets_file import read_offsets_file
from retentiond.errors import UsageError
from retentiond.kafka.properties import ClientSettings
from retentiond.kafka.records import RecordsClient


@dataclass(frozen=True, slots=True)
class Wanted:
    """``explicit``: the entries of a file; None where the rest says how to work targets out.

    ``before_ms``: only records from before that time, epoch milliseconds. Both bounds together
    mean that both must hold.
    """

    explicit: tuple[Item, ...] | None = None
    topics: tuple[str, ...] = ()
    before_ms: int | None = None
    groups: tuple[str, ...] = ()

    def items(self, client: RecordsClient, settings: ClientSettings) -> list[Item]:
        """One for each partition. Raises `RetentiondError` where nothing can be said of any."""
        if self.explicit is not None:
            return find(client, self.explicit)
        commits: Commits = {}
        if self.groups:
            from retentiond.delete_records.committed import read_commits  # noqa: PLC0415 - slow

            commits = read_commits(settings, self.groups)
        topics = self.topics or sorted({at.topic for each in commits.values() for at in each})
        if not topics:
            raise UsageError(f"no group of {', '.join(map(ascii, self.groups))} has any commit")
        return work_out(client, topics, Bounds(self.before_ms, commits))


def read_wanted(
    *,
    file: Path | None,
    topics: Sequence[str],
    older_than: str | None,
    to_datetime: str | None,
    groups: Sequence[str],
) -> Wanted:
    """Offline. Raises `UsageError`, and `ConfigError` for the file."""
    by_time = [text for text in (older_than, to_datetime) if text is not None]
    if file is not None:
        if topics or by_time or groups:
            raise UsageError("--offset-json-file names every offset: leave the other bounds out")
        read = read_offsets_file(file)
        for warning in read.warnings:
            print(f"retentiond: warning: {file}: {warning}", file=sys.stderr)
        return Wanted(read.items)
    if len(by_time) > 1:
        raise UsageError("choose --older-than or --to-datetime")
    if by_time and not topics and not groups:
        raise UsageError("--older-than and --to-datetime need --topic")
    if not by_time and not groups:
        raise UsageError(
            "nothing says what to delete: --offset-json-file, or --topic with --older-than, "
            "--to-datetime or --to-committed"
        )
    if "" in topics or "" in groups:
        raise UsageError("the name of a topic or group is empty")
    before_ms = _before_ms(older_than, to_datetime)
    return Wanted(None, tuple(topics), before_ms, tuple(dict.fromkeys(groups)))


def _before_ms(older_than: str | None, to_datetime: str | None) -> int | None:
    if older_than is not None:
        from retentiond.config.duration import parse_duration  # noqa: PLC0415 - brings pydantic

        age_ms = parse_duration(older_than)
        now_ms = time.time_ns() // 1_000_000
        if age_ms is None or age_ms > now_ms:
            raise UsageError(f"--older-than {older_than!a}: expected a time as in 7d, 12h or 90m")
        return now_ms - age_ms
    return None if to_datetime is None else _epoch_ms(to_datetime)


def _epoch_ms(text: str) -> int:
    """Of a time in UTC, if it names no zone. Negative ones have a meaning of their own in Kafka."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        at_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--to-datetime {text!a}: expected a time as in 2026-02-01T12:00:00+01:00"
        ) from error
    if at_ms < 0:
        raise UsageError(f"--to-datetime {text!a}: expected a time from 1970 on")
    return at_ms
