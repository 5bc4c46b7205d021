"""Regular expressions are RE2's, as in Kafka's own coordinator: without look-ahead, look-behind and
back-references, which can't be had in linear time."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import product
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


def is_blank(char: str) -> bool:
    """Whether it is white space, a control character, or a format character that nobody sees."""
    return char.isspace() or unicodedata.category(char) in {"Cc", "Cf"}


def ends_blank(name: str) -> bool:
    """Whether it begins or ends with such a character: no topic, group or client does."""
    return bool(name) and (is_blank(name[0]) or is_blank(name[-1]))


def matches_only_blank(pattern: str, *, anywhere: bool) -> bool:
    """Whether a pattern that RE2 takes, or one of its alternatives, can match nothing but texts
    that begin or end blank; ``anywhere``: or that have a blank character at all, as no topic's name
    has. It is what an editor's or YAML's line break at the end makes of a pattern."""
    tokens = ((found.lastgroup or "", found[0]) for found in _TOKEN.finditer(pattern))
    return any(
        "NN" not in shapes and shapes != _EMPTY for shapes in _alternatives(tokens, anywhere)
    )


_TOKEN = re.compile(
    r"""
    (?P<quoted> \\Q .*? (?: \\E | \Z ) )
  | (?P<place> [\^$] | \\[AzbB] | \(\?[a-zA-Z-]+\) )
  | (?P<open> \( (?: \? (?: P?<\w+> | [a-zA-Z-]*: ) )? )
  | (?P<close> \) )
  | (?P<either> \| )
  | (?P<repeat> (?: [*+?] | \{ [0-9]+ (?: , [0-9]* )? \} ) \?? )
  | (?P<one> \[ \^? \]? (?: \[:\^?\w+:\] | \\. | [^\]\\] )* \]
      | \\x\{[0-9A-Fa-f]+\} | \\x[0-9A-Fa-f]{2} | \\[0-7]{1,3} | \\[pP] (?: \{[^}]*\} | . )
      | \\. | . )
    """,
    re.VERBOSE | re.DOTALL,
)
"""What RE2's syntax consists of. ``place``: takes no character. ``one``: takes one."""

_Shapes = frozenset[str]
"""The texts that a pattern matches, by their ends: ``NB`` for those whose first character is not
blank and whose last one is; the empty string for the empty text."""

_EMPTY: _Shapes = frozenset({""})


def _alternatives(tokens: Iterator[tuple[str, str]], anywhere: bool) -> frozenset[_Shapes]:
    """The shapes of each alternative, up to the end of the group or the pattern."""
    every: set[_Shapes] = set()
    parts: list[frozenset[_Shapes]] = []  # of the alternative at hand
    for kind, text in tokens:
        match kind:
            case "close":
                break
            case "open":
                parts.append(_alternatives(tokens, anywhere))
            case "either":
                every |= _sequence(parts, anywhere)
                parts = []
            case "repeat":
                parts[-1] = _repeated(parts[-1], text, anywhere)
            case "place":
                parts.append(frozenset({_EMPTY}))
            case "quoted":
                literal = text[2:].removesuffix("\\E")
                parts += [frozenset({_shapes(is_blank(char))}) for char in literal]
            case "one":
                parts.append(frozenset({_shapes(_takes_blank_only(text))}))
    return frozenset(every | _sequence(parts, anywhere))


def _shapes(blank: bool) -> _Shapes:
    return frozenset({"BB" if blank else "NN"})


def _sequence(parts: Iterable[frozenset[_Shapes]], anywhere: bool) -> frozenset[_Shapes]:
    return reduce(
        lambda before, part: frozenset(_joined(*pair, anywhere) for pair in product(before, part)),
        parts,
        frozenset({_EMPTY}),
    )


def _joined(before: _Shapes, after: _Shapes, anywhere: bool) -> _Shapes:
    texts = {one + other for one, other in product(before, after)}
    if anywhere:
        return frozenset("BB" if "B" in text else text[:2] for text in texts)
    return frozenset(text and text[0] + text[-1] for text in texts)


def _repeated(part: frozenset[_Shapes], times: str, anywhere: bool) -> frozenset[_Shapes]:
    optional = times[0] in "*?" or times.startswith("{0")
    if times[0] != "?":  # each time another alternative may match
        union = frozenset[str]().union(*part)
        part = frozenset({union | _joined(union, union, anywhere)})
    return frozenset(shapes | _EMPTY if optional else shapes for shapes in part)


def _takes_blank_only(atom: str) -> bool:
    if len(atom) == 1:
        return atom != "." and is_blank(atom)
    options = re2.Options()
    options.log_errors = False
    compiled = re2.compile(atom.encode(), options=options)
    return not (compiled.search(_VISIBLE_ASCII) or compiled.search(_visible()))


_VISIBLE_ASCII = bytes(range(ord("!"), ord("~") + 1))


@cache
def _visible() -> bytes:
    """All characters that are not blank, surrogates apart."""
    every = map(chr, range(sys.maxunicode + 1))
    seen = (each for each in every if not (is_blank(each) or "\ud800" <= each <= "\udfff"))
    return "".join(seen).encode()
