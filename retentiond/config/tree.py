"""What a configuration file is before its settings are known: mappings, lists, scalars.

A scalar stays as it was written until a setting says what it expects, so nothing is
guessed: ``on`` is no boolean, ``1:30`` is no number, ``0123`` keeps its zero.
"""

from __future__ import annotations

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
