"""How a row says of each of its fields what it is and where it goes, once and beside the field.

A row is a dataclass whose fields are made with ``field(metadata=said(...))``. Its JSON, the audit
log's table, CSV, the export, the history's schema and the docs' tables are worked out from what
`fields_of` finds there, by name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, NamedTuple


class Storage(Enum):
    """How a value is kept; each output has its own types for these."""

    TEXT = "text"
    FLAG = "true or false"
    INT32 = "32-bit integer"
    INT64 = "64-bit integer"


class FieldType(NamedTuple):
    """What a field holds. ``unit``: of a figure; None where it has none."""

    storage: Storage
    unit: str | None = None


TEXT = FieldType(Storage.TEXT)
FLAG = FieldType(Storage.FLAG)
NUMBER = FieldType(Storage.INT32)
GROUPS = FieldType(Storage.INT32, "groups")
OFFSET = FieldType(Storage.INT64, "offset")
RECORDS = FieldType(Storage.INT64, "records")
BYTES = FieldType(Storage.INT64, "bytes")
MILLISECONDS = FieldType(Storage.INT64, "ms")


@dataclass(frozen=True, slots=True)
class Said:
    """What a row says of one of its fields.

    ``in_json``: whether it stands wherever a row is printed or exported (JSON, CSV, Parquet).
    ``audit``: what the audit log's table demands of its column; None: it has none.
    ``is_known_late``: it is worked out once the requests are out, and the audit log learns it then.
    ``in_history``: whether the history's rows of partitions have it.
    """

    type: FieldType
    meaning: str
    in_json: bool = True
    audit: str | None = None
    is_known_late: bool = False
    in_history: bool = False


class Field(NamedTuple):
    """``name``: its attribute, and what every output calls it."""

    name: str
    said: Said


def said(kind: FieldType, meaning: str, **where: Any) -> dict[str, Said]:
    """The metadata of a dataclass's field; see `Said`."""
    return {"said": Said(kind, meaning, **where)}


def fields_of(row: type[Any]) -> tuple[Field, ...]:
    """A row's fields, in their order. Raises KeyError for a field that says nothing of itself."""
    return tuple(Field(each.name, each.metadata["said"]) for each in fields(row))
