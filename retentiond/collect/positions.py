"""External readers: positions that are committed elsewhere than in Kafka.

Invariant: a position that is missing, older than its ``max_age`` or not what it should be is a
`Failure`, and holds the topics whose policy names the reader; it is never taken for "nothing".
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import yaml

from retentiond.config import ExternalReader
from retentiond.config.duration import format_duration
from retentiond.model import Commit, Failure

TIMEOUT_S = 10.0

MOST_BYTES = 64 * 1024 * 1024
"""Of an answer over HTTP; a position of a million partitions is half of that."""

ADDRESSES = ("http://", "https://")


class _Position(NamedTuple):
    """``next_offsets`` as they were read, unchecked; ``written_at`` in epoch seconds."""

    next_offsets: Any
    written_at: float


class _Unusable(Exception):
    """Why there is no position, in a sentence."""


Position: TypeAlias = "tuple[Commit, ...] | Failure"  # next offsets, or why they are unknown


def read_external(reader: ExternalReader, now_ms: int) -> Position:
    """The reader's next offsets as commits."""
    try:
        position = (
            _of_document(str(reader.offsets))
            if reader.spark_checkpoint is None
            else _of_spark(reader.spark_checkpoint)
        )
        _check_age(position, reader, now_ms)
        return _commits(position.next_offsets)
    except _Unusable as error:
        return Failure("EXTERNAL_READER", str(error))
    except OSError as error:
        return Failure("EXTERNAL_READER", f"its position can't be read ({_why(error)})")


def _check_age(position: _Position, reader: ExternalReader, now_ms: int) -> None:
    age_ms = now_ms - int(position.written_at * 1000)
    if age_ms > reader.max_age_ms:
        raise _Unusable(
            f"its position is {age_ms // 1000} s old, older than max_age "
            f"({format_duration(reader.max_age_ms)})"
        )


def _of_spark(checkpoint: Path) -> _Position:
    """The end of the last batch that is committed: the next run starts there.

    ``offsets/N`` holds where batch N ends, and ``commits/N`` says that it is done. Each source
    of the query has a line; those that aren't Kafka's hold something else.
    """
    try:
        done = max(int(file.name) for file in (checkpoint / "commits").iterdir() if _is_batch(file))
    except (FileNotFoundError, ValueError):
        raise _Unusable(f"no batch is committed in {checkpoint}") from None
    lines = (checkpoint / "offsets" / str(done)).read_text().splitlines()
    if not lines or lines[0] != "v1":
        raise _Unusable(f"{checkpoint}/offsets/{done} is of a version that is not known")
    next_offsets: dict[str, Any] = {}
    for line in lines[2:]:  # after the version and the query's own settings
        if (source := _of_kafka(line)) is not None:
            for topic, partitions in source.items():
                if topic in next_offsets:
                    raise _Unusable(f"two sources of {checkpoint} read topic {topic}")
                next_offsets[topic] = partitions
    written_at = (checkpoint / "commits" / str(done)).stat().st_mtime
    return _Position(next_offsets, written_at)


def _is_batch(file: Path) -> bool:
    return file.name.isascii() and file.name.isdigit()


def _of_kafka(line: str) -> dict[str, Any] | None:
    """A source's offsets if they are Kafka's: ``{"topic": {"0": 42}}``."""
    try:
        source = json.loads(line)
    except ValueError:
        return None
    is_kafka = isinstance(source, dict) and all(isinstance(each, dict) for each in source.values())
    return source if is_kafka else None


def _of_document(place: str) -> _Position:
    if place.startswith(ADDRESSES):
        text, written_at = _fetched(place)
    else:
        path = Path(place)
        text, written_at = path.read_text(), path.stat().st_mtime
    try:
        return _Position(yaml.safe_load(text), written_at)  # JSON is YAML
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _Unusable("its position is neither JSON nor YAML") from None


def _fetched(address: str) -> tuple[str, float]:
    """The document, and when it was written; now, where the server doesn't say."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
            body = answer.read(MOST_BYTES + 1)
            modified = answer.headers.get("Last-Modified")
    except (urllib.error.URLError, ValueError) as error:
        raise _Unusable(f"its address can't be read ({_why(error)})") from None
    if len(body) > MOST_BYTES:
        raise _Unusable(f"its address answers with more than {MOST_BYTES} bytes")
    try:
        written_at = parsedate_to_datetime(modified).timestamp() if modified else time.time()
        return body.decode(), written_at
    except ValueError:
        raise _Unusable("its address answers with no text, or with a date of no sense") from None


def _commits(next_offsets: Any) -> tuple[Commit, ...]:
    """Checked: ``{topic: {partition: next offset}}``, the partitions as numbers or texts."""
    if not isinstance(next_offsets, Mapping):
        raise _Unusable("its position is no mapping of topics")
    found = []
    for topic, partitions in next_offsets.items():
        if not isinstance(topic, str) or not isinstance(partitions, Mapping):
            raise _Unusable(f"its position of topic {topic!r} is no mapping of partitions")
        for partition, offset in partitions.items():
            found.append(Commit(topic, _whole(partition, topic), _whole(offset, topic)))
    if len({(commit.topic, commit.partition) for commit in found}) < len(found):
        raise _Unusable("its position names a partition twice")
    return tuple(found)


def _whole(value: Any, topic: str) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole or (isinstance(value, str) and value.isascii() and value.isdigit()):
        number = int(value)
        if 0 <= number < 2**63:
            return number
    raise _Unusable(f"its position of topic {topic!r} holds {value!r} where a number belongs")


def _why(error: Exception) -> str:
    """Without the address: it may hold a password."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
