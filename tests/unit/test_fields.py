"""A field of a plan's row is defined once, and every output follows."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import get_args, get_type_hints

import pytest

from retentiond.fields import (
    NUMBERS,
    TEXT,
    TIME,
    Shown,
    Storage,
    described,
    document_of,
    figure,
    figures_of,
    inlined,
    rows_of,
    said,
)
from retentiond.history.schema import COLUMNS, SCHEMA, RowKind
from retentiond.model import ROW_FIELDS, PlanRow
from retentiond.state.audit_file import SCHEMA as AUDIT_SCHEMA
from retentiond.tell.report import row_document
from tests.support.builders.reports import row

ANNOTATIONS = get_type_hints(PlanRow)


@pytest.mark.parametrize("field", ROW_FIELDS, ids=lambda field: field.name)
def test_what_is_said_of_a_field_is_what_it_holds(field: Shown) -> None:
    annotated = ANNOTATIONS[field.name]
    choices = get_args(annotated) if isinstance(annotated, UnionType) else (annotated,)
    (kind,) = set(choices) - {NoneType}
    storage = field.said.type.storage
    assert issubclass(kind, {Storage.TEXT: str, Storage.FLAG: bool}.get(storage, int))
    assert (storage is Storage.FLAG) == (kind is bool)


@pytest.mark.parametrize("field", ROW_FIELDS, ids=lambda field: field.name)
def test_a_field_stands_where_it_is_said_to(field: Shown) -> None:
    name, said = field.name, field.said
    assert (name in row_document(row("orders"))) == said.in_json
    _, _, deletions = AUDIT_SCHEMA.partition("CREATE TABLE deletions")
    assert (f"\n    {name} " in deletions) == (said.audit is not None)
    of_a_partition = COLUMNS[RowKind.PARTITION]
    assert (name in of_a_partition) == said.in_history
    assert set(of_a_partition) <= set(SCHEMA.names)


def test_a_row_is_printed_in_the_order_of_its_fields() -> None:
    assert list(row_document(row("orders"))) == [
        field.name for field in ROW_FIELDS if field.said.in_json
    ]


@described
class Disk:
    path: str = said(TEXT, "its path")
    full_at_ms: int | None = said(TIME, "when it is full", default=None)
    owner: str = said(TEXT, "its owner", (), default="")


@described
class Host:
    disk: Disk = inlined(Disk)
    others: tuple[Disk, ...] = said(rows_of(Disk), "its other disks")

    @figure(NUMBERS, "their numbers")
    def numbers(self) -> tuple[int, ...]:
        return tuple(range(len(self.others)))


def test_a_row_within_a_row_stands_in_its_place() -> None:
    host = Host(Disk("/a", 0), (Disk("/b"),))
    assert document_of(host) == {
        "path": "/a",
        "full_at": "1970-01-01T00:00:00.000Z",
        "others": [{"path": "/b", "full_at": None}],
        "numbers": [0],
    }
    assert [(shown.name, shown.row) for shown in figures_of(Host)][:2] == [
        ("path", Disk),
        ("full_at", Disk),
    ]
