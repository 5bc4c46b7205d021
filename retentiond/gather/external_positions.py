"""External readers: positions that are committed elsewhere than in Kafka.

Invariant: a position that is missing, older than its ``max_age`` or not what it should be is a
`Failure`, and holds the topics whose policy names the reader, and those that a Spark checkpoint
names; it is never taken for "nothing".
"""

from __future__ import annotations

import errno
import http.client
import json
import re
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from retentiond.config import ExternalReader
from retentiond.config.document import plain, read_document
from retentiond.config.external_reader import ConnectOffsets, OffsetsPath
from retentiond.errors import ConfigError
from retentiond.exchange import NoAnswer, exchange, trusting
from retentiond.formatting import format_duration
from retentiond.gather.connect_offsets import NoPosition, connector_commits
from retentiond.kafka.interface import Kafka
from retentiond.model import Commit, Failure
from retentiond.snapshot import EXTERNAL_READER

MOST_SECONDS = 30.0
"""How long a whole exchange may take, from the look-up of the name on: a server that sends a byte
now and then must not hold up the cycle."""

MOST_BYTES = 32 * 1024 * 1024
"""That of a million partitions is smaller."""

MOST_VALUES = 1_000_000
"""JSON takes a hundred times its bytes in memory."""

MOST_YAML_BYTES = 1024 * 1024
"""YAML takes some hundred times as long to read as JSON."""

MOST_SHOWN = 60  # characters of a value that is no number

ADDRESSES = ("http://", "https://")

SPARK_COMMIT_VERSIONS = ("v1", "v2", "v3")
"""The versions that Spark 4.3 writes (its CommitLog)."""


class _Position(NamedTuple):
    """``next_offsets`` as they were read, unchecked; ``written_at`` in epoch seconds."""

    next_offsets: Any
    written_at: float


Position: TypeAlias = "tuple[Commit, ...] | Failure"  # next offsets, or why they are unknown


@dataclass(frozen=True, slots=True)
class UnknownPosition(Failure):
    """Of a Spark query. ``topics``: those that its checkpoint names all the same. None: something
    is there that can't be read, so it may name any."""

    topics: frozenset[str] | None = None


def read_external(reader: ExternalReader, now_ms: int, kafka: Kafka) -> Position:
    """``kafka``: the cluster that the reader reads from."""
    try:
        if reader.connect_offsets is not None:
            return _of_connect(reader.connect_offsets, kafka)
        position = (
            _of_document(reader, now_ms)
            if reader.spark_checkpoint is None
            else _of_spark(reader.spark_checkpoint)
        )
        _check_age(position, reader, now_ms)
        return _commits(position.next_offsets)
    except NoPosition as error:
        why = str(error)
    except Exception as error:  # noqa: BLE001 - whatever it was, the position is unknown
        why = f"its position can't be read ({_why(error)})"
    if reader.spark_checkpoint is None:
        return Failure(EXTERNAL_READER, why)
    return UnknownPosition(EXTERNAL_READER, why, _named_in(reader.spark_checkpoint))


def _named_in(checkpoint: Path) -> frozenset[str] | None:
    """The topics of the newest batches, and of sources that may have begun nothing, however
    damaged the rest is. A word too many holds no more than a topic of that name."""
    try:
        batches = sorted(filter(_is_number, _inside(checkpoint / "offsets")), key=_number)
        firsts = [source / "0" for source in _inside(checkpoint / "sources")]
        return frozenset(
            [
                *chain.from_iterable(_topics_in(offsets, heading=2) for offsets in batches[-2:]),
                *chain.from_iterable(_topics_in(first, heading=0) for first in firsts),
            ]
        )
    except (OSError, NoPosition):
        return None


def _inside(folder: Path) -> list[Path]:
    """Nothing, if there is no such folder."""
    try:
        return [*folder.iterdir()]
    except OSError as error:
        if error.errno in _NOT_THERE:
            return []
        raise


def _topics_in(file: Path, *, heading: int) -> list[str]:
    try:
        lines = _of_file(file)[0].decode(errors="replace").splitlines()
    except OSError as error:
        if error.errno in _NOT_THERE:
            return []
        raise
    return [*chain.from_iterable(map(_NAMED.findall, lines[heading:]))]


_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


_NAMED = re.compile(r'"([a-zA-Z0-9._-]{1,249})"\s*:\s*\{')
"""A topic of a source: ``{"topic": {"0": 42}}``."""


def _check_age(position: _Position, reader: ExternalReader, now_ms: int) -> None:
    """One from the future would stay fresh for as long as it lies ahead."""
    age_ms = now_ms - int(position.written_at * 1000)
    if abs(age_ms) > reader.max_age_ms:
        away = (
            f"{age_ms // 1000} s old, older"
            if age_ms > 0
            else (f"{-age_ms // 1000} s ahead of the clock, more")
        )
        raise NoPosition(
            f"its position is {away} than max_age ({format_duration(reader.max_age_ms)})"
        )


def _of_spark(checkpoint: Path) -> _Position:
    """The end of the last batch that is committed: the next run starts there.

    ``offsets/N`` holds where batch N ends, and ``commits/N`` says that it is done, unless a crash
    has left it half written: Spark refuses it then, and an operator may have it run batch N again.
    Each source of the query has a line; those that aren't Kafka's hold something else. A source
    that has a dash there has begun nothing, and will begin where ``sources`` says.
    """
    try:
        done = max(
            int(file.name) for file in (checkpoint / "commits").iterdir() if _is_number(file)
        )
    except (FileNotFoundError, ValueError):
        raise NoPosition(f"no batch is committed in {checkpoint}") from None
    offsets = checkpoint / "offsets" / str(done)
    sources, before = _sources(offsets), offsets.with_name(str(done - 1))
    if before.exists() and len(_sources(before)) > len(sources):
        raise NoPosition(f"{offsets} has fewer sources than the batch before: it may be cut off")
    folder = checkpoint / "sources"
    if folder.exists() and any(
        _is_number(path) and int(path.name) >= len(sources) for path in folder.iterdir()
    ):
        raise NoPosition(f"{offsets} has fewer sources than {folder}: it may be cut off")
    next_offsets: dict[str, Any] = {}
    for number, line in enumerate(sources):
        source = (
            _first_offsets(folder / str(number) / "0") if line == "-" else _of_kafka(line, offsets)
        )
        if source is not None:
            for topic, partitions in source.items():
                if topic in next_offsets:
                    raise NoPosition(f"two sources of {checkpoint} read topic {topic}")
                next_offsets[topic] = partitions
    # Last, so that a new checkpoint in the old one's place shows that the batch is not done there.
    return _Position(next_offsets, _committed_at(checkpoint / "commits" / str(done)))


def _sources(offsets: Path) -> list[str]:
    """A line for each source of the query."""
    body, _ = _of_file(offsets)
    text = body.decode()
    _check_values(text)
    lines = text.splitlines()
    if not lines or lines[0] != "v1":
        raise NoPosition(f"{offsets} is of a version that is not known")
    return lines[2:]  # after the version and the query's own settings


def _committed_at(file: Path) -> float:
    """When Spark wrote that commit: a version, and a line of JSON or none."""
    body, written_at = _of_file(file)
    version, *lines = body.decode(errors="replace").splitlines() or [""]
    try:
        is_whole = all(isinstance(json.loads(line), dict) for line in lines)
    except (ValueError, RecursionError):
        is_whole = False
    if version not in SPARK_COMMIT_VERSIONS or not is_whole:
        raise NoPosition(f"{file} is no commit that Spark would start from")
    return written_at


def _is_number(file: Path) -> bool:
    return file.name.isascii() and file.name.isdigit()


def _number(file: Path) -> int:
    return int(file.name)


def _of_kafka(line: str, offsets: Path) -> dict[str, Any] | None:
    """A source's offsets if they are Kafka's: ``{"topic": {"0": 42}}``.

    Every source writes JSON. Anything else is half of a line, and whose line is not known.
    """
    try:
        source = json.loads(line, object_pairs_hook=_unique)
    except ValueError:
        raise NoPosition(f"{offsets} has a source that is no JSON: it may be cut off") from None
    is_kafka = isinstance(source, dict) and all(
        isinstance(value, dict) for value in source.values()
    )
    return source if is_kafka else None


def _first_offsets(file: Path) -> dict[str, Any]:
    """Where a source begins that has no offset yet. Kafka's writes that before its first batch,
    behind a zero byte and a version. Nobody knows which topics any other source reads."""
    first = None
    if file.exists():
        body, _ = _of_file(file)
        text = body.decode().removeprefix("\0").removeprefix("v1\n")
        _check_values(text)
        first = _of_kafka(text, file)
    if not first:
        raise NoPosition(
            f"source {file.parent.name} has no offset yet, and {file} does not say where it begins"
        )
    return first


def _of_connect(wanted: ConnectOffsets, kafka: Kafka) -> tuple[Commit, ...]:
    """The positions as they are now, so that they have no age."""
    records = kafka.last_records(wanted.topic, wanted.kafka)
    if isinstance(records, Failure):
        raise NoPosition(f"topic {wanted.topic} can't be read ({records})")
    return connector_commits(records, wanted, _parsed_json)


def _parsed_json(text: bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise NoPosition("its offsets topic has a record that is no JSON") from None


def _of_document(reader: ExternalReader, now_ms: int) -> _Position:
    place = str(reader.offsets)
    if place.startswith(ADDRESSES):
        body, written_at = _fetched(reader, now_ms)
    else:
        body, written_at = _of_file(Path(place))
    document = _parsed(body, json_only=any(path.has_every for path in reader.paths or ()))
    return _Position(_by_paths(reader.paths, document) if reader.paths else document, written_at)


def _by_paths(paths: Sequence[OffsetsPath], document: Any) -> dict[str, dict[int, int]]:
    """Next offsets by topic and partition; where paths lead to several, the smallest."""
    smallest: dict[str, dict[int, int]] = {}
    for path in paths:
        try:
            contents = path.follow(document)
        except LookupError as error:
            raise NoPosition(f"it has {error.args[0]} on the path {_shown(str(path))}") from None
        of_topic = smallest.setdefault(path.topic, {})
        for content in contents:
            offsets = content if path.partition is None else {str(path.partition): content}
            for commit in _commits({path.topic: offsets}):
                if commit.offset is None:
                    raise NoPosition(f"it has no offset on the path {_shown(str(path))}")
                before = of_topic.get(commit.partition, commit.offset)
                of_topic[commit.partition] = min(before, commit.offset)
    return smallest


def _of_file(path: Path) -> tuple[bytes, float]:
    """What is in it, and when it was written. A pipe or a device may never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise NoPosition("its position can't be read (not a regular file)")
    with path.open("rb") as file:
        body = file.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise NoPosition(f"{path} has more than {MOST_BYTES} bytes")
    return body, status.st_mtime


def _parsed(body: bytes, *, json_only: bool) -> Any:
    """JSON is YAML, but its own reader is many times faster. Half of a YAML document may be one,
    too: without the reader that is furthest behind, where a path leads to all that are there."""
    try:
        text = body.decode()
        _check_values(text)
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except ValueError:
            if json_only:
                raise NoPosition("its position is no JSON, which paths with * need") from None
            if len(body) > MOST_YAML_BYTES:
                raise NoPosition(
                    f"its position is no JSON, and has more than {MOST_YAML_BYTES} bytes"
                ) from None
            return plain(read_document(text))
    except (ConfigError, ValueError, RecursionError) as error:
        why = f": {error}" if isinstance(error, ConfigError) else ""
        raise NoPosition(f"its position is neither JSON nor YAML{why}") from None


def _check_values(text: str) -> None:
    """Counts the values before anything is built: JSON has a comma between two, and no name has
    one. How deep they lie within each other is bounded by Python."""
    if text.count(",") >= MOST_VALUES:
        raise NoPosition(f"its position has more than {MOST_VALUES} values")


def _unique(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """Refuses two values of one key: one would be lost silently."""
    if len({key for key, _ in pairs if isinstance(key, str)}) < len(pairs):
        raise NoPosition("its position has a key that is given twice or is no text")
    return dict(pairs)


def _fetched(reader: ExternalReader, now_ms: int) -> tuple[bytes, float]:
    """The document, and when it was written; now, where the server doesn't say."""
    try:
        context = trusting(reader.ca)
    except OSError as error:
        raise NoPosition(f"the certificates of its ca can't be read ({_why(error)})") from None
    try:
        request = urllib.request.Request(str(reader.offsets), headers=dict(reader.headers))
        answer = exchange(
            request, most_bytes=MOST_BYTES, most_seconds=MOST_SECONDS, context=context
        )
    except NoAnswer as error:
        raise NoPosition(f"its address {error}") from None
    except (urllib.error.URLError, http.client.HTTPException, ValueError) as error:
        raise NoPosition(f"its address can't be read ({_why(error)})") from None
    modified = answer.headers.get("Last-Modified")
    try:
        written_at = parsedate_to_datetime(modified).timestamp() if modified else now_ms / 1000
    except (ValueError, TypeError, OverflowError):
        raise NoPosition("its address answers with an invalid date") from None
    return answer.body, written_at


def _commits(next_offsets: Any) -> tuple[Commit, ...]:
    """Checked: ``{topic: {partition: next offset}}``, the partitions as numbers or texts."""
    if not isinstance(next_offsets, Mapping):
        raise NoPosition("its position is no mapping of topics")
    commits = []
    for topic, partitions in next_offsets.items():
        if not isinstance(topic, str) or not isinstance(partitions, Mapping):
            raise NoPosition(f"its position of topic {_shown(topic)} is no mapping of partitions")
        for partition, offset in partitions.items():
            commits.append(Commit(topic, _whole(partition, topic), _whole(offset, topic)))
    if len({(commit.topic, commit.partition) for commit in commits}) < len(commits):
        raise NoPosition("its position names a partition twice")
    return tuple(commits)


def _whole(value: Any, topic: str) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole or (isinstance(value, str) and _WHOLE.fullmatch(value)):
        number = int(value)
        if 0 <= number < 2**63:
            return number
    raise NoPosition(
        f"its position of topic {_shown(topic)} holds {_shown(value)} where a number belongs"
    )


_WHOLE = re.compile(r"0|[1-9][0-9]*")
"""With a zero in front it would be octal for some."""


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=repr)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _why(error: Exception) -> str:
    """The reason without the address, which may hold a password."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
