"""``docs/api.schema.json``: the JSON Schema of the daemon's answers, made from their rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from retentiond.disks.broker_disks import DiskReport
from retentiond.fields import (
    API,
    GROUP,
    GROUP_LIST,
    PLAN,
    FieldType,
    Said,
    Storage,
    figures_of,
)
from retentiond.model import DeletionOutcome, Plan, PlanRow
from retentiond.tell.figures.answers import TopicAnswer
from retentiond.tell.figures.group_answers import GroupAnswer
from retentiond.tell.figures.group_rows import GroupRow
from retentiond.tell.page.overview import HealthFinding

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
TIME: Schema = {"type": "string", "format": "date-time"}
TYPES: dict[Storage, Schema] = {
    Storage.TEXT: TEXT,
    Storage.SENTENCE: TEXT,
    Storage.WORD: TEXT,
    Storage.TIME: TIME,
    Storage.FLAG: FLAG,
    Storage.INT32: INTEGER,
    Storage.INT64: INTEGER,
}


def _values(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _or_null(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]}


def _object(properties: Schema) -> Schema:
    """Later releases may add others."""
    return {"type": "object", "properties": properties, "required": [*properties]}


def _type(kind: FieldType, where: str) -> Schema:
    if kind.row is not None:
        of_row = _object(_figures(kind.row, where))
        return of_row if kind.storage is Storage.ROW else _list(of_row)
    containers = {
        Storage.COUNTS: _values(INTEGER),
        Storage.OFFSETS: _values(_values(INTEGER)),
        Storage.TIMES: _values(_or_null(TIME)),
        Storage.PARTITIONS: _list(INTEGER),
        Storage.TEXTS: _list(TEXT),
    }
    return containers[kind.storage] if kind.storage in containers else TYPES[kind.storage]


def _field(said: Said, where: str, *, is_nullable: bool) -> Schema:
    schema = _type(said.type, where)
    return {"description": said.meaning, **(_or_null(schema) if is_nullable else schema)}


def _figures(row: type[Any], where: str) -> Schema:
    return {
        field.name: _field(field.said, where, is_nullable=field.is_nullable)
        for field in figures_of(row)
        if field.said.is_in(where)
    }


EVIDENCE = _figures(Plan, API)


def _partition() -> Schema:
    size = {"size_bytes": _or_null(INTEGER)}
    return _object(_figures(PlanRow, API) | size | _figures(DeletionOutcome, API))


def documents() -> Iterator[tuple[str, Schema]]:
    """Each answer's properties, by what stands behind ``/api/``."""
    partitions = _list({"$ref": "#/$defs/partition"})
    groups = _or_null(_list(_object(_figures(GroupAnswer, API))))
    yield (
        "plan",
        EVIDENCE
        | {"result": TEXT, "undone": _list(TEXT)}
        | _figures(DiskReport, API)
        | {"topics": _list(_object(_figures(TopicAnswer, PLAN))), "partitions": partitions},
    )
    yield "topics", EVIDENCE | {"topics": _list(_object(_figures(TopicAnswer, API)))}
    of_topic = {"groups": groups, "partitions": partitions}
    yield "topic", EVIDENCE | _figures(TopicAnswer, API) | of_topic
    yield "groups", EVIDENCE | {"groups": _list(_object(_figures(GroupRow, GROUP_LIST)))}
    yield "group", EVIDENCE | _figures(GroupRow, GROUP)
    yield "health", {"findings": _list(_object(_figures(HealthFinding, API)))}
    yield "error", {"error": TEXT}


def schema() -> Schema:
    named: Iterable[tuple[str, Schema]] = documents()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The answers of the daemon's /api/, by their names",
        "$defs": {"partition": _partition(), **{name: _object(answer) for name, answer in named}},
    }


def text() -> str:
    return json.dumps(schema(), indent=2) + "\n"
