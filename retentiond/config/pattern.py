"""Regular expressions are RE2's, as in Kafka's own coordinator: without look-ahead, look-behind and
back-references, which can't be had in linear time."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Any

import re2

MOST_BYTES = 256 * 1024
"""How large a compiled pattern may be: a larger one would be linear, and slow all the same."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression. Raises ValueError, with RE2's own words, for one that RE2 refuses.

    ``any_dot``: whether a dot stands for a line break, too, which a group's id may have. It does
    in patterns of groups to wait for, and not in patterns of groups to leave out: so ``.*`` never
    leaves out more readers than it plainly names.
    """

    pattern: str
    any_dot: bool = False
    _compiled: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        options = re2.Options()
        options.log_errors = False  # stderr is for JSON lines
        options.never_capture = True
        options.max_mem = MOST_BYTES
        options.dot_nl = self.any_dot
        try:
            # As bytes: half the time of a match is spent on counting characters.
            compiled = re2.compile(self.pattern.encode(), options=options)
        except re2.error as error:
            told = error.args[0] if error.args else ""
            words = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
            raise ValueError(words) from None
        object.__setattr__(self, "_compiled", compiled)

    def fullmatch(self, text: str) -> bool:
        return self._compiled.fullmatch(text.encode(errors="surrogatepass")) is not None


def ends_blank(name: str) -> bool:
    """Whether it begins or ends with white space, or with a character that nobody sees: no topic,
    group or client does."""
    return any(char.isspace() or _is_unseen(char) for char in (name[:1], name[-1:]) if char)


def has_stray_blank(pattern: str, *, anywhere: bool) -> bool:
    """Whether a pattern has, as it is written, what an editor's or YAML's line break makes of it: a
    blank end, a character that nobody sees, or, if ``anywhere``, any white space at all. What it
    writes with a backslash was meant."""
    return (
        ends_blank(pattern)
        or any(map(_is_unseen, pattern))
        or (anywhere and any(map(str.isspace, pattern)))
    )


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf"}
