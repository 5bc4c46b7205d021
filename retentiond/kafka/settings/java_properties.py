"""A ``.properties`` file as Java reads it, and the login module of ``sasl.jaas.config``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

BLANKS = " \t\f"

_LINE_END = re.compile(r"\r\n|\r|\n")

_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)

_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)

_MEANING = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read(path: Path) -> dict[str, str]:
    """A file's properties, as `parse` has them. Raises OSError, too."""
    return parse(path.read_text(encoding="latin-1"))


def parse(text: str) -> dict[str, str]:
    """The last value of a key counts. Raises ValueError naming a key."""
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
        line = natural.lstrip(BLANKS)
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


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The SASL mechanisms that it is for, the options that it needs, and others that it takes."""

    mechanisms: tuple[str, ...]
    needs: tuple[str, ...] = ()
    takes: re.Pattern[str] = re.compile("(?!)")


_USER = ("username", "password")

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

LOGIN_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": LoginModule(("PLAIN",), _USER),
    "org.apache.kafka.common.security.scram.ScramLoginModule": LoginModule(
        ("SCRAM-SHA-256", "SCRAM-SHA-512"), _USER
    ),
    OAUTH_MODULE: LoginModule(
        ("OAUTHBEARER",),
        takes=re.compile(
            r"clientId|clientSecret|scope|extension_[A-Za-z]+|ssl\.truststore\.(type|location)"
        ),
    ),
    "software.amazon.msk.auth.iam.IAMLoginModule": LoginModule(
        ("AWS_MSK_IAM",), takes=re.compile("awsProfileName|awsRoleArn")
    ),
}

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<quoted>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*')
    | (?P<word>[^\s"'=;/]+)
    | (?P<sign>[=;])""",
    re.VERBOSE | re.DOTALL,
)

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


def parse_login(text: str) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The mechanisms of the login module, and its options. Raises ValueError saying what is wrong,
    without a word of what may be a secret."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[-1] != ";":
        raise ValueError('expected MODULE required username="…" password="…";')
    name, flag, *rest = tokens[:-1]
    if name not in LOGIN_MODULES:
        modules = ", ".join(class_name.rpartition(".")[2] for class_name in LOGIN_MODULES)
        raise ValueError(f"the login module {name} is not known here; expected one of {modules}")
    if flag.lower() != "required":
        raise ValueError("expected the word required after the login module")
    if len(rest) % 3 or any(sign != "=" for sign in rest[1::3]):
        raise ValueError('expected options as in username="…", and one login module')
    module, options = LOGIN_MODULES[name], dict(zip(rest[::3], rest[2::3], strict=True))
    for needed in module.needs:
        if needed not in options:
            raise ValueError(f"the login module needs {needed}")
    for option in sorted(options.keys() - set(module.needs)):
        if not module.takes.fullmatch(option):
            raise ValueError(f"the login module's option {option} can't be translated; remove it")
    return module.mechanisms, options


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


def _unquote(quoted: str) -> str:
    def meaning(escape: re.Match[str]) -> str:
        if escape[1].isdigit():
            return chr(int(escape[1], 8))
        return _ESCAPES.get(escape[1], escape[1])

    return re.sub(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", meaning, quoted[1:-1], flags=re.DOTALL)
