"""The offsets file of KIP-107, read strictly: a single wrong entry makes the whole file invalid.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 42}, ...]}

Offset -1 stands for the high watermark. Without ``version`` it is version 1, as with Kafka's own
tool. Unknown fields are a warning: they change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from retentiond.config.document import dotted
from retentiond.errors import OUT_OF_BOUNDS, ConfigError
from retentiond.kafka.interface import INTERNAL_TOPICS, KAFKAS_HIGH_WATERMARK, OffsetBound
from retentiond.model import LARGEST_PARTITION, TopicPartition
from retentiond.tools.delete_records.partitions import Item

LARGEST_OFFSET = 2**63 - 1


def _refused(message: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message})


_SENTENCES = {  # pydantic's own kinds of error
    "missing": "this field is missing",
    "model_type": "expected an object",
    "list_type": "expected a list",
    "string_type": "expected a string",
    "string_too_short": "expected the name of a topic",
    "int_type": "expected a whole number",
    **OUT_OF_BOUNDS,
}


def _of_users(topic: str) -> str:
    if topic in INTERNAL_TOPICS:
        raise _refused(f"{topic} is Kafka's own: its records are never deleted")
    return topic


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    topic: Annotated[str, Field(min_length=1), AfterValidator(_of_users)]
    partition: Annotated[int, Field(ge=0, le=LARGEST_PARTITION)]
    offset: Annotated[int, Field(ge=KAFKAS_HIGH_WATERMARK, le=LARGEST_OFFSET)]

    @property
    def item(self) -> Item:
        if self.offset == KAFKAS_HIGH_WATERMARK:
            return Item(self.topic, self.partition, OffsetBound.HIGH_WATERMARK)
        return Item(self.topic, self.partition, self.offset)


def _each_once(entries: list[_Entry]) -> list[_Entry]:
    first: dict[TopicPartition, int] = {}
    for at, entry in enumerate(entries):
        earlier = first.setdefault(TopicPartition(entry.topic, entry.partition), at)
        if earlier != at:
            raise _refused(f"entry [{at}] is about the same partition as entry [{earlier}]")
    return entries


class _Document(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")
    version: Annotated[int, Field(ge=1, le=1)] = 1
    partitions: Annotated[list[_Entry], AfterValidator(_each_once)]


def read_offsets_file(path: Path) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """The file's partitions in its order, and a warning about each unknown field. Raises
    `ConfigError` naming the file, the entry and the field."""
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
        document = _Document.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        said = _SENTENCES.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
        raise ConfigError(said, path=dotted(first["loc"]) or None, file=str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError("expected JSON in UTF-8", file=str(path)) from error
    except RecursionError as error:
        raise ConfigError("objects or lists are nested too deeply", file=str(path)) from error
    except ValueError as error:
        raise ConfigError(f"not JSON that can be read: {error}", file=str(path)) from error
    except OSError as error:
        raise ConfigError(f"can't be read ({error.strerror})", file=str(path)) from error
    items = tuple(entry.item for entry in document.partitions)
    return items, tuple(_unknown_fields(document))


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"the key {json.dumps(key)} stands twice in one object")
        members[key] = value
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _unknown_fields(document: _Document) -> Iterator[str]:
    unknown: list[tuple[str | int, ...]] = [(key,) for key in document.model_extra or {}]
    for at, entry in enumerate(document.partitions):
        unknown += [("partitions", at, key) for key in entry.model_extra or {}]
    for keys in unknown:
        yield f"{dotted(keys)}: this field is unknown and changes nothing"
