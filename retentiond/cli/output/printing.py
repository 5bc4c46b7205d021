"""What commands print: tables and sentences for people, and JSON for programs.

No value is taken for markup, and no figure is cut short.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from textwrap import indent
from typing import IO, Any, Generic, Literal, NamedTuple, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.table import Column as RichColumn
from rich.table import Table

from retentiond.fields import TABLE, Shown, Storage, figures_of
from retentiond.formatting import printable, say_field

T = TypeVar("T")

ANY_WIDTH = 1_000_000

MOST_ROWS = 20
"""How many rows of a long table a terminal shows."""

THE_REST = "See all of them with | less, or with --output json."


class ColumnKind(Enum):
    NAME = "name"  # may be long: folded onto further lines
    TEXT = "text"  # wrapped between its words, where it finds no room
    WORD = "word"
    FIGURE = "figure"


NAME, TEXT, WORD, FIGURE = ColumnKind

LEAST_WIDTHS = {NAME: 12, TEXT: 24}


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """``of``: the cell of a value, which has a row. ``spare``: left out, with all other spare ones,
    where there is no room for every column. ``least``: how narrow a name or a text may become, in
    characters."""

    heading: str
    kind: ColumnKind
    of: Callable[[T], str]
    spare: bool = False
    least: int | None = None


def columns_of(row: type[T], table: str = TABLE) -> tuple[Column[T], ...]:
    """The columns that a row has in the table."""
    return tuple(
        Column(heading, _kind_of(field), partial(say_field, field), field.said.spare)
        for field in figures_of(row)
        if (heading := field.said.heading(table)) is not None
    )


class Look(NamedTuple):
    """How a terminal shows a text: characters a line, and the name of its colours; empty: none."""

    width: int
    colors: str


KINDS = {
    Storage.TEXT: NAME,
    Storage.TEXTS: NAME,
    Storage.PATH: NAME,
    Storage.SENTENCE: TEXT,
    Storage.INT32: FIGURE,
}


def _kind_of(field: Shown) -> ColumnKind:
    storage, unit, *_ = field.said.type
    return FIGURE if unit else KINDS.get(storage, WORD)


class Printer:
    """Prints for people. Group ids may hold brackets, colons and worse: they are shown as they are.
    Only a terminal has a width, unless $COLUMNS says otherwise: in a pipe or a file is room for
    all."""

    def __init__(self, to: TextIO | None = None, look: Look | None = None) -> None:
        """``to``: instead of stdout, for which the text is meant all the same. ``look``: that of
        another process's stdout."""
        if look is not None:
            self.console = _console(to, look)
            return
        self.console = _console()
        if not self.console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
            self.console.width = ANY_WIDTH
        if to is not None:
            width, self.console = self.console.width, _console(to)
            self.console.width = width

    @property
    def look(self) -> Look:
        return Look(self.console.width, self.console.color_system or "")

    @property
    def is_screen(self) -> bool:
        """Whether somebody looks on. A pipe and a file are none, whatever colours they want."""
        return self.console.file.isatty()

    def most(self, rows: Sequence[T]) -> Sequence[T]:
        """The first rows, as many as fit a screen; all of them in a pipe or a file."""
        return rows[:MOST_ROWS] if self.is_screen else rows

    def say(self, sentence: str) -> None:
        """Wrapped between its words where a terminal ends; a pipe gets it whole. A name in it can't
        steer the terminal."""
        text = "\n".join(map(printable, sentence.split("\n")))
        self.console.print(text, overflow="fold", crop=False)

    def table(
        self,
        columns: Sequence[Column[T]],
        values: Iterable[T],
        style: Callable[[T], str] = lambda _value: "",
        note: Callable[[T], str | None] = lambda _value: None,
    ) -> None:
        """All columns where they fit, else those that are not spare and a line about the others.
        ``style`` colours a value's row on a terminal. ``note``: a line of its own below the row."""
        rows = list(values)
        notes = [note(row) for row in rows]
        table = _table(columns, rows, style, notes)
        left_out = [column.heading for column in columns if column.spare]
        if left_out and _full_width(self.console, table) > self.console.width:
            kept = [column for column in columns if not column.spare]
            table = _table(kept, rows, style, notes)
        else:
            left_out = []
        self._print_with_notes(table, notes)
        if left_out:
            self.say(f"Left out for lack of room: {', '.join(left_out)}. See --output json.")

    def _print_with_notes(self, table: Table, notes: Sequence[str | None]) -> None:
        told = [f"  {note}" for note in notes if note is not None]
        if not told:
            _print_whole(self.console, table)
            return
        with self.console.capture() as capture:
            _print_whole(self.console, table)
        for part in capture.get().splitlines(keepends=True):
            if NOTE_MARK in part:
                self.say(told.pop(0))
            else:
                self.console.file.write(part)


def _console(to: TextIO | None = None, look: Look | None = None) -> Console:
    terminal: dict[str, Any] = {}
    if look is not None:
        terminal["width"], terminal["color_system"] = look.width, look.colors or None
        terminal["force_terminal"] = bool(look.colors)
    return Console(file=to, markup=False, emoji=False, highlight=False, **terminal)


def next_cycle(dry_run: bool | None) -> str:
    """What it does once nothing holds it up any more. ``dry_run``: None if it is not known."""
    if dry_run is None:
        return "The next cycle deletes again, unless its configuration's dry_run is true."
    if dry_run:
        return (
            "Nothing is deleted yet, because dry_run is true: the next cycle only plans. A daemon "
            "with another configuration on the same state_dir may delete."
        )
    return "The next cycle deletes again."


def print_json(document: object, to: IO[str] | None = None) -> None:
    to = to or sys.stdout
    json.dump(document, to, indent=2)
    to.write("\n")


def print_json_list(documents: Iterable[object]) -> None:
    """As `print_json` of a list, one element at a time."""
    before = "[\n"
    for document in documents:
        sys.stdout.write(before + indent(json.dumps(document, indent=2), "  "))
        before = ",\n"
    sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


FORMULA_SIGNS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""A spreadsheet may take a text that begins with one of them, wide ones too, for a formula."""


def csv_cell(value: object) -> object:
    """The value for CSV. Texts that would be formulas get an apostrophe, and so do those that begin
    with one: who takes the first one away has the text. Figures stay figures."""
    is_text = isinstance(value, str) and value.startswith((*FORMULA_SIGNS, "'"))
    return f"'{value}" if is_text else value


def _print_whole(console: Console, table: Table) -> None:
    """Rich lets names and figures vanish where there is no room; a terminal breaks the lines."""
    console.width = max(console.width, _least_width(table))
    # Rich shrinks the widest columns to one width, widens them again up to their least width, and
    # cuts off what is too much then. So names leave the texts that room, and texts what is left.
    for column in table.columns:
        if column.no_wrap:
            column.min_width = _longest(column)
    folded = [column for column in table.columns if not column.no_wrap]
    names = [column for column in folded if column.min_width == LEAST_WIDTHS[NAME]]
    spare = console.width - _least_width(table)
    for columns in (names, [column for column in folded if column not in names]):
        if columns and _rendered_width(console, table) > console.width:
            for column in columns:
                least = column.min_width or 1
                column.max_width = least + spare // len(columns)
            spare = 0
    console.print(table)


def _rendered_width(console: Console, table: Table) -> int:
    """Characters of the longest line as rich lays it out, before it is cut off, without the spaces
    at its end."""
    lines = Segment.split_lines(console.render(table, console.options))
    return max(cell_len("".join(segment.text for segment in line).rstrip()) for line in lines)


def _least_width(table: Table) -> int:
    """What its figures and words need, and the least of names and texts, with a space between."""
    needed = (
        _longest(column) if column.no_wrap else column.min_width or 1 for column in table.columns
    )
    return sum(needed) + len(table.columns) - 1


def _longest(column: RichColumn) -> int:
    """Characters of its longest cell or of its heading."""
    return max(cell_len(str(cell)) for cell in (column.header, *column.cells))


def _full_width(console: Console, table: Table) -> int:
    """Characters of the table's longest line if there is any room it wants."""
    return console.measure(table, options=console.options.update(width=ANY_WIDTH)).maximum


NOTE_MARK = "\ufdd0"
"""A character of no text, in place of a note: `printable` lets none through."""


def _table(
    columns: Sequence[Column[T]],
    values: Sequence[T],
    style: Callable[[T], str],
    notes: Sequence[str | None],
) -> Table:
    table = Table(
        box=None, pad_edge=False, header_style="bold", collapse_padding=True, padding=(0, 1)
    )
    for column in columns:
        if column.kind in LEAST_WIDTHS:
            least = column.least or LEAST_WIDTHS[column.kind]
            table.add_column(column.heading, overflow="fold", min_width=least)
        else:
            side: Literal["left", "right"] = "right" if column.kind is FIGURE else "left"
            table.add_column(column.heading, justify=side, no_wrap=True)
    for value, note in zip(values, notes, strict=True):
        cells = (printable(column.of(value)) for column in columns)
        table.add_row(*cells, style=style(value))
        if note is not None:
            table.add_row(NOTE_MARK)
    return table


@contextmanager
def progress(what: str) -> Iterator[None]:
    """A spinner on stderr while something takes long; nothing where that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    letters = "dots" if console.encoding.startswith("utf") else "line"
    with console.status(f"{what} …", spinner=letters):
        yield


def while_read(values: Iterable[T]) -> Iterator[T]:
    """The values for as long as somebody reads them: a long list ends with its reader."""
    for value in values:
        if getattr(sys.stdout, "reader_is_gone", False):
            return
        yield value
