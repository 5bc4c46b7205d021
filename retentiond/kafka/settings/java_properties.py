"""A ``.properties`` file as Java reads it, and the login module of ``sasl.jaas.config``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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


LOGIN_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": (
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
    ),
}
"""The SASL mechanisms of each."""

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<quoted>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')
    | (?P<word>[^\s"'=;/]+)
    | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasLogin:
    mechanisms: tuple[str, ...]
    username: str
    password: str = field(repr=False)


def parse_login(text: str) -> JaasLogin:
    """Raises ValueError saying what is wrong, without a word of what may be a secret."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ";":
        raise ValueError('expected MODULE required username="…" password="…";')
    module, flag, *rest = tokens[:-1]
    if module not in LOGIN_MODULES:
        raise ValueError(
            f"the login module {module} is not known here; "
            "PlainLoginModule and ScramLoginModule are"
        )
    if flag.lower() != "required":
        raise ValueError("expected the word required after the login module")
    options = _options(rest)
    for name in ("username", "password"):
        if name not in options:
            raise ValueError(f"the login module needs {name}")
    unknown = sorted(options.keys() - {"username", "password"})
    if unknown:
        raise ValueError(f"the login module's option {unknown[0]} can't be translated; remove it")
    return JaasLogin(LOGIN_MODULES[module], options["username"], options["password"])


def _tokens(text: str) -> list[str]:
    tokens = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError("a quotation mark is not closed, or a character stands out of place")
        at = token.end()
        if token["quoted"]:
            tokens.append(_unquote(token["quoted"]))
        elif token["word"] or token["sign"]:
            tokens.append(token[0])
    return tokens


def _options(tokens: list[str]) -> dict[str, str]:
    if len(tokens) % 3 or any(sign != "=" for sign in tokens[1::3]):
        raise ValueError('expected options as in username="…", and one login module')
    return dict(zip(tokens[::3], tokens[2::3], strict=True))


def _unquote(quoted: str) -> str:
    def meaning(escape: re.Match[str]) -> str:
        if escape[1].isdigit():
            return chr(int(escape[1], 8))
        return _ESCAPES.get(escape[1], escape[1])

    return re.sub(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", meaning, quoted[1:-1], flags=re.DOTALL)
