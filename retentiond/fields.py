"""How a row says of each of its fields what it is and where it goes, once and beside the field.

A row is a dataclass whose fields are made with ``field(metadata=said(...))``. Its JSON, the audit
log's table, CSV, the export, the history's schema and the docs' tables are worked out from what
`fields_of` finds there, by name.

What is shown of a topic or a group is a row too. Its figures (`Figure`) are worked out when they
are asked for, and `figures_of` finds them: JSON, tables, metrics, the JSON Schema and the docs'
tables follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache, cached_property
from itertools import count
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar


class Storage(Enum):
    """How a value is kept; each output has its own types for these."""

    TEXT = "text"
    WORD = "a word out of a few"
    TIME = "RFC 3339 time"
    FLAG = "true or false"
    INT32 = "32-bit integer"
    INT64 = "64-bit integer"
    COUNTS = "integers by name"
    OFFSETS = "offsets by partition, by topic"
    TIMES = "RFC 3339 times by topic"
    PARTITIONS = "partition numbers"
    ROWS = "rows"


class FieldType(NamedTuple):
    """What a field holds. ``unit``: of a figure; None where it has none. ``row``: of `ROWS`, what
    they are."""

    storage: Storage
    unit: str | None = None
    row: type[Any] | None = None


TEXT = FieldType(Storage.TEXT)
WORD = FieldType(Storage.WORD)
TIME = FieldType(Storage.TIME)
FLAG = FieldType(Storage.FLAG)
NUMBER = FieldType(Storage.INT32)
TOPIC_COUNT = FieldType(Storage.INT32, "topics")
GROUPS = FieldType(Storage.INT32, "groups")
PARTITIONS = FieldType(Storage.INT32, "partitions")
NUMBERS = FieldType(Storage.PARTITIONS)
OFFSET = FieldType(Storage.INT64, "offset")
RECORDS = FieldType(Storage.INT64, "records")
BYTES = FieldType(Storage.INT64, "bytes")
MILLISECONDS = FieldType(Storage.INT64, "ms")
COUNTS = FieldType(Storage.COUNTS, "partitions")
OFFSETS = FieldType(Storage.OFFSETS, "offset")
TIMES = FieldType(Storage.TIMES)


def rows_of(row: type[Any]) -> FieldType:
    return FieldType(Storage.ROWS, row=row)


API, PLAN, FIRST_LOOK = TOPICS = ("api", "plan", "first look")
"""The JSON that rows of topics stand in: ``/api/topics`` and ``explain``; ``/api/plan`` and
``plan``; the first look. The latter is a table as well."""

GROUP_LIST, GROUP, COMMAND = OF_GROUPS = ("groups", "group", "retentiond groups")
"""The JSON that rows of groups stand in: ``/api/groups``; ``/api/groups/NAME``; and that of the
command, which is a table as well."""

EXPLAINED, PARTITION = ("explain", "partition")
"""What ``explain`` alone says of a topic; and of a partition."""

FIRST_LOOK_OF_RECORDS = "first look without bytes"
"""The first look's table where no bytes are known."""

PAGE = "page"
"""The status page's table."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a row says of one of its fields.

    ``in_json``: whether it stands wherever a row is printed or exported (JSON, CSV, Parquet).
    ``audit``: what the audit log's table demands of its column; None: it has none.
    ``is_known_late``: it is worked out once the requests are out, and the audit log learns it then.
    ``in_history``: whether the history's rows of partitions have it.

    Of a figure (see `Figure`): ``name``: what outputs call it, if not by its attribute.
    ``documents``: the JSON that it is in. ``metric``: its metric's name. ``columns``: its heading,
    by table. ``is_dash``: whether a table has ``-`` for 0. ``sort``: how an address names the order
    by it. ``many``: how it follows from the figures of the row's parts; None: by its own rule.
    ``number``: rises in the order in which a row says its fields and figures.
    """

    type: FieldType
    meaning: str
    in_json: bool = True
    audit: str | None = None
    is_known_late: bool = False
    in_history: bool = False
    name: str | None = None
    documents: tuple[str, ...] = (API,)
    metric: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    is_dash: bool = False
    sort: str | None = None
    many: str | None = None
    number: int = field(default_factory=count().__next__, compare=False)


class Field(NamedTuple):
    """``name``: its attribute, and what every output calls it."""

    name: str
    said: Said


class Shown(NamedTuple):
    """A field or a figure of a row, by its attribute."""

    attribute: str
    said: Said

    @property
    def name(self) -> str:
        """What every output calls it."""
        return self.said.name or self.attribute

    def of(self, row: object) -> Any:
        return getattr(row, self.attribute)


T = TypeVar("T")


class Figure(cached_property[T]):
    """A field that the row works out, once, when it is asked for."""

    def __init__(self, work_out: Callable[[Any], T], said: Said) -> None:
        super().__init__(work_out)
        self.said = said


def figure(
    kind: FieldType, meaning: str, **where: Any
) -> Callable[[Callable[[Any], T]], Figure[T]]:
    """Makes a method a figure; see `Said`."""
    return lambda work_out: Figure(work_out, Said(kind, meaning, **where))


class FiguresOf:
    """The figures that follow from those of a row's parts. ``parts``: the attribute with the parts,
    at least one. A figure has the same attribute in the row and in its parts, unless ``of`` names
    another one."""

    def __init__(self, parts: str) -> None:
        self._parts = parts

    def sum(self, kind: FieldType, meaning: str, **where: Any) -> Figure[int]:
        return self._figure(sum, "sum", kind, meaning, **where)

    def known(self, kind: FieldType, meaning: str, **where: Any) -> Figure[int | None]:
        return self._figure(known_total, "sum of what is known", kind, meaning, **where)

    def total(self, kind: FieldType, meaning: str, **where: Any) -> Figure[int | None]:
        return self._figure(total, "sum; null if one is not known", kind, meaning, **where)

    def first(self, kind: FieldType, meaning: str, **where: Any) -> Figure[Any]:
        return self._figure(next, "the same in all", kind, meaning, **where)

    def _figure(
        self,
        fold: Callable[[Iterator[Any]], T],
        many: str,
        kind: FieldType,
        meaning: str,
        of: str | None = None,
        **where: Any,
    ) -> Figure[T]:
        def work_out(row: object) -> T:
            value = attrgetter(of or made.attrname or "")
            return fold(map(value, getattr(row, self._parts)))

        made = Figure(work_out, Said(kind, meaning, many=many, **where))
        return made


def total(figures: Iterable[int | None]) -> int | None:
    """The sum; None if one of the figures is not known."""
    summands = list(figures)
    return None if None in summands else sum(figure for figure in summands if figure is not None)


def known_total(figures: Iterable[int | None]) -> int | None:
    """The sum of the figures that are known; None if none is."""
    summands = [figure for figure in figures if figure is not None]
    return sum(summands) if summands else None


def said(kind: FieldType, meaning: str, **where: Any) -> dict[str, Said]:
    """The metadata of a dataclass's field; see `Said`."""
    return {"said": Said(kind, meaning, **where)}


def fields_of(row: type[Any]) -> tuple[Field, ...]:
    """A row's fields, in their order. Raises KeyError for a field that says nothing of itself."""
    return tuple(Field(field.name, field.metadata["said"]) for field in fields(row))


def figures_of(row: type[Any]) -> tuple[Shown, ...]:
    """What a row shows, in its order: of its dataclass's fields those that say what they are, and
    its figures."""
    of_dataclass = (
        Shown(field.name, field.metadata["said"])
        for field in fields(row)
        if "said" in field.metadata
    )
    made = (Shown(name, it.said) for name, it in vars(row).items() if isinstance(it, Figure))
    return tuple(sorted((*of_dataclass, *made), key=lambda field: field.said.number))


_figures_of: Callable[[Any], tuple[Shown, ...]] = cache(figures_of)


def document_of(row: Any, where: str = API) -> dict[str, Any]:
    """The row in JSON's terms, with the figures that are in this document."""
    return {
        field.name: _plain(field.of(row), where)
        for field in _figures_of(type(row))
        if where in field.said.documents
    }


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part, where) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part, where) for part in value]
    return document_of(value, where) if is_dataclass(value) else value
