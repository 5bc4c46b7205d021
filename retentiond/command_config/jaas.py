"""The one login module of ``sasl.jaas.config``: who logs in, and by which module."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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

_MEANING = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Login:
    mechanisms: tuple[str, ...]
    username: str
    password: str = field(repr=False)


def parse_login(text: str) -> Login:
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
    return Login(LOGIN_MODULES[module], options["username"], options["password"])


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
        return _MEANING.get(escape[1], escape[1])

    return re.sub(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", meaning, quoted[1:-1], flags=re.DOTALL)
