"""The offsets file of KIP-107, read strictly: a single wrong entry makes the whole file invalid.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 42}, ...]}

Offset -1 stands for the high watermark. Without ``version`` it is version 1, as with Kafka's own
tool. Unknown fields are a warning: they change nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retentiond.errors import ConfigError
from retentiond.kafka.interface import INTERNAL_TOPICS, KAFKAS_HIGH_WATERMARK, OffsetBound
from retentiond.model import TopicPartition
from retentiond.tools.delete_records.partitions import Item

VERSION = 1

LARGEST_PARTITION = 2**31 - 1

LARGEST_OFFSET = 2**63 - 1

FIELDS = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """A file's partitions in its order, and a warning about each unknown field."""

    items: tuple[Item, ...]
    warnings: tuple[str, ...]


class _Invalid(Exception):
    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class _Object(dict[str, Any]):
    """A JSON object that remembers if a key comes twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = next((key for key, count in counts.items() if count > 1), None)


def read_offsets_file(path: Path) -> OffsetsFile:
    """Raises `ConfigError` naming the file, the entry and the field."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except _Invalid as error:
        raise ConfigError(str(error), path=error.path or None, file=str(path)) from error
    except RecursionError as error:
        raise ConfigError("objects or lists are nested too deeply", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("expected JSON in UTF-8", file=str(path)) from error
    except OSError as error:
        raise ConfigError(f"can't be read ({error.strerror})", file=str(path)) from error


def parse(text: str) -> OffsetsFile:
    document = _decode(text)
    _refuse_repeated(document, "")
    if not isinstance(document, dict):
        raise _Invalid("", f"expected a JSON object with partitions, not {_say(document)}")
    _check_version(document)
    if "partitions" not in document:
        raise _Invalid("partitions", "missing; expected a list of topic, partition and offset")
    entries = document["partitions"]
    if not isinstance(entries, list):
        raise _Invalid("partitions", f"expected a list, not {_say(entries)}")
    items = tuple(_item(entry, f"partitions[{at}]") for at, entry in enumerate(entries))
    _refuse_same_partition(items)
    return OffsetsFile(items, tuple(_unknown_fields(document, entries)))


def _decode(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        if error.msg.startswith("Extra data"):
            raise _Invalid("", f"text after the end of the JSON ({where})") from error
        raise _Invalid("", f"not JSON: {error.msg} ({where})") from error
    except ValueError as error:  # NaN, or a number with thousands of digits
        raise _Invalid("", f"not JSON that can be read: {error}") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _refuse_repeated(value: Any, path: str) -> None:
    if isinstance(value, _Object):
        if value.repeated is not None:
            raise _Invalid(_join(path, value.repeated), "this key stands there twice")
        for key, inner in value.items():
            _refuse_repeated(inner, _join(path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            _refuse_repeated(inner, f"{path}[{at}]")


def _check_version(document: Mapping[str, Any]) -> None:
    version = document.get("version", VERSION)
    if not _is_number(version):
        raise _Invalid("version", f"expected {VERSION}, not {_say(version)}")
    if version != VERSION:
        raise _Invalid("version", f"version {version} is not supported; expected {VERSION}")


def _item(entry: Any, path: str) -> Item:
    if not isinstance(entry, dict):
        raise _Invalid(path, f"expected an object with {', '.join(FIELDS)}, not {_say(entry)}")
    for field in FIELDS:
        if field not in entry:
            raise _Invalid(f"{path}.{field}", "missing")
    topic = _topic(entry["topic"], f"{path}.topic")
    partition = _number(entry["partition"], f"{path}.partition", 0, LARGEST_PARTITION)
    offset = _number(entry["offset"], f"{path}.offset", KAFKAS_HIGH_WATERMARK, LARGEST_OFFSET)
    if offset == KAFKAS_HIGH_WATERMARK:
        return Item(topic, partition, OffsetBound.HIGH_WATERMARK)
    return Item(topic, partition, offset)


def _topic(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _Invalid(path, f"expected a topic's name, not {_say(value)}")
    if not value:
        raise _Invalid(path, "expected a topic's name, not an empty one")
    if value in INTERNAL_TOPICS:
        raise _Invalid(path, f"{value} is Kafka's own: its records are never deleted")
    return value


def _number(value: Any, path: str, least: int, most: int) -> int:
    if not _is_number(value):
        raise _Invalid(path, f"expected a whole number, not {_say(value)}")
    number: int = value
    if not least <= number <= most:
        meaning = " (-1 is the high watermark)" if least < 0 else ""
        raise _Invalid(path, f"expected {least} to {most}{meaning}, not {number}")
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _refuse_same_partition(items: tuple[Item, ...]) -> None:
    first: dict[TopicPartition, int] = {}
    for position, item in enumerate(items):
        earlier = first.setdefault(item.at, position)
        if earlier != position:
            raise _Invalid(
                f"partitions[{position}]", f"the same partition as partitions[{earlier}]"
            )


def _unknown_fields(document: Mapping[str, Any], entries: list[Any]) -> Iterator[str]:
    for name in sorted(document.keys() - {"version", "partitions"}):
        yield f"{name}: this field is unknown and changes nothing"
    for at, entry in enumerate(entries):
        for name in [key for key in entry if key not in FIELDS]:
            yield f"{_join(f'partitions[{at}]', name)}: this field is unknown and changes nothing"


def _join(path: str, key: str) -> str:
    key = key if key.isidentifier() else json.dumps(key)
    return f"{path}.{key}" if path else key


def _say(value: Any) -> str:
    """A value as in the file, shortened if it is long."""
    written = json.dumps(value)
    return written if len(written) <= 40 else f"{written[:40]}…"
