"""Long lists in pages, so that thousands of rows stay quick and usable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

PAGE_ROWS = 100


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    """``number`` counts from 1; ``found`` rows match of ``total``."""

    rows: Sequence[T]
    number: int
    pages: int
    found: int
    total: int

    @property
    def first(self) -> int:
        """The position of its first row among those found, from 1 on; 0 of none."""
        return (self.number - 1) * PAGE_ROWS + 1 if self.found else 0

    @property
    def last(self) -> int:
        return max(0, self.first + len(self.rows) - 1)


def paged(found: Sequence[T], total: int, wanted: str | None) -> Paged[T]:
    """``wanted``: the page as an address names it; one that isn't there is the nearest."""
    pages = max(1, -(-len(found) // PAGE_ROWS))
    digits = (wanted or "").strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else 1
    number = min(max(1, number), pages)
    start = (number - 1) * PAGE_ROWS
    return Paged(found[start : start + PAGE_ROWS], number, pages, len(found), total)
