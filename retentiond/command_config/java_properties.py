"""A ``.properties`` file as Java reads it (java.util.Properties.load): Latin-1 and its escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator

ENCODING = "latin-1"

BLANK = " \t\f"

_LINE_END = re.compile(r"\r\n|\r|\n")

_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)

_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)

_MEANING = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Of a key that is there twice the last value counts. Raises ValueError naming a key."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        end = key.end() if key else 0
        name = _unescape(line[:end], line[:end])
        separator = _SEPARATOR.match(line, end)
        value = line[separator.end() if separator else end :]
        properties[name] = _unescape(value, name)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and blank lines; a line that ends with an odd backslash goes on."""
    begun = ""
    for natural in _LINE_END.split(text):
        line = natural.lstrip(BLANK)
        if not begun and (not line or line[0] in "#!"):
            continue
        line = begun + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = line[:-1]
        else:
            yield line
            begun = ""
    if begun:
        yield begun


def _unescape(text: str, name: str) -> str:
    def meaning(escape: re.Match[str]) -> str:
        what = escape[1]
        if len(what) == 5:
            return chr(int(what[1:], 16))
        if what == "u":
            raise ValueError(f"{name}: expected four hexadecimal digits after \\u")
        return _MEANING.get(what, what)

    unescaped = _ESCAPE.sub(meaning, text)
    # Java's text is UTF-16: two escapes make one character there
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
