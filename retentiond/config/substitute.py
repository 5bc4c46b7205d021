"""``${NAME}`` from the environment and ``${file:PATH}`` from a file, in values.

What comes from outside is text, never YAML, and is not searched again: a password may hold
any character. It is never shown. ``$${`` is a plain ``${``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from retentiond.config.phrases import dotted
from retentiond.config.tree import Scalar, Tree
from retentiond.errors import ConfigError

_REFERENCE = re.compile(
    r"""
    (?P<escaped> \$\$\{ )
    | \$\{ (?: file: (?P<file> [^}]+ ) | (?P<name> [A-Za-z_][A-Za-z0-9_]* ) ) \}
    | (?P<malformed> \$\{ )
    """,
    re.VERBOSE,
)

_MOST_BYTES = 1 << 20  # of one file: a key or a certificate, never a device without an end


def substitute(
    tree: Tree, environ: Mapping[str, str], base_dir: Path, at: tuple[str | int, ...] = ()
) -> Tree:
    """The tree with every reference replaced; files are relative to ``base_dir``.

    Raises ConfigError with the path of the value whose variable is unset or whose file
    can't be read.
    """
    match tree:
        case dict():
            return {k: substitute(v, environ, base_dir, (*at, k)) for k, v in tree.items()}
        case list():
            return [substitute(v, environ, base_dir, (*at, i)) for i, v in enumerate(tree)]
        case Scalar(text=text) if "${" in text:
            try:
                return _substituted(tree, environ, base_dir)
            except ConfigError as exc:
                raise ConfigError(exc.message, path=dotted(at)) from exc
        case _:
            return tree


def _substituted(scalar: Scalar, environ: Mapping[str, str], base_dir: Path) -> Scalar:
    def replacement(reference: re.Match[str]) -> str:
        if reference["escaped"]:
            return "${"
        if reference["malformed"]:
            raise ConfigError("expected ${NAME} or ${file:PATH}; a plain ${ is written $${")
        if reference["file"]:
            return _content(base_dir / reference["file"])
        return _variable(reference["name"], environ)

    references = list(_REFERENCE.finditer(scalar.text))
    outside = [reference for reference in references if not reference["escaped"]]
    whole = len(outside) == 1 and outside[0].group() == scalar.text
    return Scalar(
        _REFERENCE.sub(replacement, scalar.text),
        plain=whole or (scalar.plain and not outside),
        substituted=bool(outside),
    )


def _variable(name: str, environ: Mapping[str, str]) -> str:
    try:
        return environ[name]
    except KeyError:
        raise ConfigError(f"expected the environment variable {name} to be set") from None


def _content(path: Path) -> str:
    """The file's text less its last line break."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as exc:  # ValueError: a NUL character in the path
        reason = getattr(exc, "strerror", None) or "not a path"
        raise ConfigError(f"can't read the file {str(path)!r} ({reason})") from exc
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"expected at most {_MOST_BYTES:,} bytes in the file {str(path)!r}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:  # its text would show the content
        raise ConfigError(f"expected UTF-8 text in the file {str(path)!r}") from None
    return text.removesuffix("\n").removesuffix("\r")
