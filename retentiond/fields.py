"""How a row says of each of its fields what it is and where it goes, once and beside the field.

A row is a frozen dataclass (`described`) whose fields are made with `said`. Its figures (`figure`,
`FiguresOf`) are worked out when they are asked for. JSON, tables, CSV, Parquet, metrics, the audit
log's table, the history's schema, the JSON Schema and the docs' tables follow from `figures_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cache, cached_property
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, dataclass_transform


class Storage(Enum):
    """How a value is kept; each output has its own types for these."""

    TEXT = "a name or the like"
    SENTENCE = "a sentence"
    PATH = "a path"
    VALUE = "a value of a file"
    WORD = "a word out of a few"
    TIME = "epoch milliseconds, in JSON an RFC 3339 time"
    FLAG = "true or false"
    INT32 = "32-bit integer"
    INT64 = "64-bit integer"
    COUNTS = "integers by name"
    OFFSETS = "offsets by partition, by topic"
    TIMES = "times by topic"
    PARTITIONS = "partition numbers"
    TEXTS = "texts"
    ROW = "a row"
    ROWS = "rows"
    INLINED = "a row whose fields stand in its place"
    FLOAT = "a number, with three digits behind the point"


class FieldType(NamedTuple):
    """What a field holds. ``unit``: of a figure; None where it has none. ``row``: of rows, what
    they are; ``where``: their JSON, if not that of the row they are in."""

    storage: Storage
    unit: str | None = None
    row: type[Any] | None = None
    where: str | None = None


TEXT = FieldType(Storage.TEXT)
SENTENCE = FieldType(Storage.SENTENCE)
PATH = FieldType(Storage.PATH)
VALUE = FieldType(Storage.VALUE)
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
OFFSET_BY_NAME = FieldType(Storage.COUNTS, "offset")
BYTES_BY_NAME = FieldType(Storage.COUNTS, "bytes")
OFFSETS = FieldType(Storage.OFFSETS, "offset")
TIMES = FieldType(Storage.TIMES)
TEXTS = FieldType(Storage.TEXTS)
GIB_DAYS = FieldType(Storage.FLOAT, "GiB·days")


def rows_of(row: type[Any]) -> FieldType:
    return FieldType(Storage.ROWS, row=row)


def row_of(row: type[Any], where: str | None = None) -> FieldType:
    return FieldType(Storage.ROW, row=row, where=where)


API, PLAN, FIRST_LOOK = TOPICS = ("api", "plan", "first look")
"""The JSON that rows of topics stand in: ``/api/topics`` and ``explain``; ``/api/plan`` and
``plan``; the first look. The latter is a table as well."""

GROUP_LIST, GROUP, COMMAND = OF_GROUPS = ("groups", "group", "retentiond groups")
"""The JSON that rows of groups stand in: ``/api/groups``; ``/api/groups/NAME``; and that of the
command, which is a table as well."""

EXPLAINED, PARTITION = ("explain", "partition")
"""What ``explain`` alone says of a topic; and of a partition."""

TOTAL = "total"
"""What ``simulate`` and ``report`` say of all topics together."""

FIRST_LOOK_OF_RECORDS = "first look without bytes"
"""The first look's table where no bytes are known."""

PAGE = "page"
"""The status page's table."""

TABLE = "table"
"""The table of a row with no more than one."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a row says of one of its fields.

    - ``documents``: the JSON that it is in; None: any that the row is in. ``name``: what outputs
      call it, if not by its attribute.
    - ``column``: its heading in the row's tables; ``columns``: by table. ``spare``: tables leave it
      out where there is little room. ``is_dash``: whether they have ``-`` for 0. ``sort``: how an
      address names the order by it.
    - ``metric``: its metric's name.
    - ``audit``: what the audit log's table demands of its column; None: it has none.
      ``is_known_late``: it is worked out once the requests are out, and the audit log learns it
      then. ``in_history``: whether the history's rows of partitions have it.
    - ``many``: how it follows from the figures of the row's parts; None: by its own rule.
    - ``number``: rises in the order in which a row says its fields and figures.
    """

    type: FieldType
    meaning: str
    documents: tuple[str, ...] | None = None
    name: str | None = None
    column: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    spare: bool = False
    is_dash: bool = False
    sort: str | None = None
    metric: str | None = None
    audit: str | None = None
    is_known_late: bool = False
    in_history: bool = False
    many: str | None = None
    number: int = field(default_factory=count().__next__, compare=False)

    @property
    def in_json(self) -> bool:
        return self.documents != ()

    def is_in(self, document: str) -> bool:
        return self.documents is None or document in self.documents

    def heading(self, table: str) -> str | None:
        return self.columns.get(table, self.column)


def said(
    kind: FieldType,
    meaning: str,
    documents: tuple[str, ...] | None = None,
    *,
    default: Any = MISSING,
    **where: Any,
) -> Any:
    """A row's field; see `Said`."""
    metadata = {"said": Said(kind, meaning, documents, **where)}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def inlined(row: type[Any]) -> Any:
    """A row's field that is itself a row: what that one shows stands in its place."""
    return said(FieldType(Storage.INLINED, row=row), "")


T = TypeVar("T")
N = TypeVar("N", int, float)


@dataclass_transform(frozen_default=True, field_specifiers=(said, inlined, field))
def described(made: type[T]) -> type[T]:
    """Makes a class a row. It has slots unless it works figures out, which it remembers."""
    remembers = any(isinstance(it, cached_property) for it in vars(made).values())
    return dataclass(frozen=True, slots=not remembers)(made)


class Figure(cached_property[T]):
    """A field that the row works out, once, when it is asked for."""

    def __init__(self, work_out: Callable[[Any], T], said: Said) -> None:
        super().__init__(work_out)
        self.said = said

    if not TYPE_CHECKING:  # it has the types of the base class

        def __get__(self, row: object, owner: type[Any] | None = None) -> object:
            """Without the lock that Python 3.11 takes for each figure: two threads may work out the
            same value."""
            if row is None:
                return self
            return row.__dict__.setdefault(self.attrname, self.func(row))


def figure(
    kind: FieldType, meaning: str, documents: tuple[str, ...] | None = None, **where: Any
) -> Callable[[Callable[[Any], T]], Figure[T]]:
    """Makes a method a figure; see `Said`."""
    return lambda work_out: Figure(work_out, Said(kind, meaning, documents, **where))


class Shown(NamedTuple):
    """A field or a figure of a row. ``path``: its attribute, behind those of the rows that it is
    within. ``row``: the one that says it. ``of``: its value."""

    path: str
    said: Said
    row: type[Any]
    of: Callable[[Any], Any]

    @property
    def attribute(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def name(self) -> str:
        """What every output calls it. A time's unit goes with its number."""
        is_time = self.said.type.storage is Storage.TIME
        return self.said.name or self.attribute.removesuffix("_ms" if is_time else "")

    @property
    def is_nullable(self) -> bool:
        """As its annotation says it; a figure that follows from the row's parts has none."""
        made = getattr(self.row, self.attribute, None)
        if not isinstance(made, Figure):
            return "None" in self.row.__dataclass_fields__[self.attribute].type
        annotation = made.func.__annotations__["return"]
        return "null" in self.said.meaning if annotation == "T" else "None" in annotation


class FiguresOf:
    """The figures that follow from those of a row's parts. ``parts``: the attribute with the parts,
    at least one. A figure has the same attribute in the row and in its parts, unless ``of`` names
    another one."""

    def __init__(self, parts: str) -> None:
        self._parts = parts

    def sum(self, *what: Any, of: str | None = None, **where: Any) -> Figure[int]:
        return self._figure(sum, of, Said(*what, **where), "sum")

    def known(self, *what: Any, of: str | None = None, **where: Any) -> Figure[int | None]:
        return self._figure(known_total, of, Said(*what, **where), "sum of what is known")

    def total(self, *what: Any, of: str | None = None, **where: Any) -> Figure[int | None]:
        return self._figure(total, of, Said(*what, **where), "sum; null if one is not known")

    def first(self, *what: Any, of: str | None = None, **where: Any) -> Figure[Any]:
        return self._figure(next, of, Said(*what, **where), "the same in all")

    def _figure(
        self, fold: Callable[[Iterator[Any]], T], of: str | None, said: Said, many: str
    ) -> Figure[T]:
        def work_out(row: object) -> T:
            value_of = _getter(of or made.attrname or "")
            return fold(map(value_of, getattr(row, self._parts)))

        made = Figure(work_out, replace(said, many=many))
        return made


_getter: Callable[[str], Callable[[Any], Any]] = cache(attrgetter)


def total(figures: Iterable[N | None]) -> N | None:
    """The sum; None if one of the figures is not known."""
    summands = list(figures)
    known = [figure for figure in summands if figure is not None]
    return None if len(known) < len(summands) else sum(known)


def known_total(figures: Iterable[N | None]) -> N | None:
    """The sum of the figures that are known; None if none is."""
    summands = [figure for figure in figures if figure is not None]
    return sum(summands) if summands else None


def figures_of(row: Any) -> tuple[Shown, ...]:
    """What a row shows, in its order: of its fields those that say what they are, its figures, and
    what the rows within it show."""
    own = {field.name: field.metadata["said"] for field in fields(row) if field.metadata}
    own |= {name: it.said for name, it in vars(row).items() if isinstance(it, Figure)}
    in_order = sorted(own.items(), key=lambda field: field[1].number)
    return tuple(shown for name, said in in_order for shown in _shown(row, name, said))


def _shown(row: type[Any], name: str, said: Said) -> Iterator[Shown]:
    if said.type.storage is not Storage.INLINED:
        yield Shown(name, said, row, attrgetter(name))
        return
    for shown in figures_of(said.type.row):
        path = f"{name}.{shown.path}"
        yield shown._replace(path=path, of=attrgetter(path))


def document_of(row: Any, where: str = API) -> dict[str, Any]:
    """The row in JSON's terms, with the figures that are in this document."""
    return {
        name: of(row) if write is None else write(of(row), within)
        for name, of, write, within in _written(type(row), where)
    }


def _written_of(row: type[Any], where: str) -> tuple[tuple[str, Any, Any, str], ...]:
    """The name of each field of the document, its value in a row, how JSON has that where it is not
    the value itself, and the document of a row in it."""
    return tuple(
        (
            shown.name,
            shown.of,
            WRITTEN.get(shown.said.type.storage),
            shown.said.type.where or where,
        )
        for shown in figures_of(row)
        if shown.said.is_in(where)
    )


_written: Callable[..., tuple[tuple[str, Any, Any, str], ...]] = cache(_written_of)


def rfc3339(epoch_ms: int) -> str:
    at = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339_or_none(epoch_ms: int | None) -> str | None:
    return None if epoch_ms is None else rfc3339(epoch_ms)


def _by_text(topics: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    """JSON has no other names."""
    return {topic: {str(at): of_topic[at] for at in of_topic} for topic, of_topic in topics.items()}


WRITTEN: Mapping[Storage, Callable[[Any, str], Any]] = {
    Storage.PATH: lambda path, _where: str(path),
    Storage.TIME: lambda at_ms, _where: rfc3339_or_none(at_ms),
    Storage.TIMES: lambda times, _where: times and {at: rfc3339_or_none(times[at]) for at in times},
    Storage.COUNTS: lambda counts, _where: dict(counts),
    Storage.OFFSETS: lambda topics, _where: topics and _by_text(topics),
    Storage.PARTITIONS: lambda numbers, _where: [*numbers],
    Storage.TEXTS: lambda texts, _where: [*texts],
    Storage.FLOAT: lambda number, _where: None if number is None else round(number, 3),
    Storage.ROW: lambda row, where: None if row is None else document_of(row, where),
    Storage.ROWS: lambda rows, where: [document_of(row, where) for row in rows],
}
