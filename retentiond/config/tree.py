"""What a file holds before its settings are known, and how errors speak of its parts.

A scalar stays as it was written until a setting says what it expects, so nothing is
guessed: ``on`` is no boolean, ``1:30`` is no number, ``0123`` keeps its zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of the file. ``plain``: it may be read as a number, a boolean or null."""

    text: str
    plain: bool = True  # written without quotes, or wholly substituted
    substituted: bool = False  # holds text from outside the file: maybe a secret, never shown

    @property
    def is_null(self) -> bool:
        literal = self.plain and not self.substituted
        return literal and self.text in {"", "~", "null", "Null", "NULL"}


Tree: TypeAlias = "Scalar | list[Tree] | dict[str, Tree]"


_LONGEST_ECHO = 60


def dotted(parts: Iterable[str | int]) -> str:
    """The path of a key as operators write it: ``topics[2].groups.exclude[1]``."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            key = part if part and part.isprintable() else repr(part)
            path += f".{_shortened(key)}" if path else _shortened(key)
    return path


def shown(value: object) -> str:
    """A value as an error message may show it: on one line, short, and without secrets."""
    match value:
        case Scalar(substituted=True):
            words = "the substituted value"
        case Scalar() if value.is_null:
            words = "nothing"
        case Scalar(text=text, plain=True) if text.isprintable():
            words = text
        case Scalar(text=text):
            words = f"the text {text!r}"
        case Mapping():
            words = "a mapping"
        case list() | tuple():
            words = "a list"
        case _:
            words = repr(value)
    return _shortened(words)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_ECHO else f"{text[:_LONGEST_ECHO]}…"


def listed(names: Sequence[str], last: str = "and") -> str:
    """``a, b and c``"""
    *before, final = names
    return f"{', '.join(before)} {last} {final}" if before else final
