"""From the file to a `Config`: text, tree, substitution, frozen values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from retentiond.config.config import Config, HttpFile, Secured
from retentiond.config.document import read_document
from retentiond.config.phrases import dotted, shown
from retentiond.config.section import Section
from retentiond.config.substitute import substitute
from retentiond.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_File = TypeVar("_File", bound=Section)

_SENTENCES = {  # pydantic's own kinds of error; the settings' types bring their sentence along
    "missing": "this setting is required, but missing",
    "greater_than_equal": "expected {ge} or more",
    "less_than_equal": "expected {le} or less",
    "too_short": "expected at least one entry in this list",
    "tuple_type": "expected a list, not {given}",
    "mapping_type": "expected a mapping of settings, not {given}",
    "dict_type": "expected a mapping of settings, not {given}",
}


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration in the file. Raises ConfigError, which names file and key."""
    try:
        return parse(_read(path, "--config"), environ, path.parent)
    except ConfigError as exc:
        raise ConfigError(exc.message, path=exc.path, file=str(path)) from exc


def load_http(path: Path, environ: Mapping[str, str] = os.environ) -> Secured:
    """The file of ``--http-config``. Raises ConfigError, which names file and key."""
    try:
        text = _read(path, "--http-config")
        return _parsed(HttpFile, text, "the section http", environ, path.parent).http
    except ConfigError as exc:
        raise ConfigError(exc.message, path=exc.path, file=str(path)) from exc


def parse(text: str, environ: Mapping[str, str], base_dir: Path) -> Config:
    """The configuration in a text; ``${file:…}`` is relative to ``base_dir``.

    Raises ConfigError with the path of the first key that is wrong, or the line and column
    where the text is no YAML.
    """
    return _parsed(Config, text, "the sections kafka and topics", environ, base_dir)


def _parsed(
    kind: type[_File], text: str, required: str, environ: Mapping[str, str], base_dir: Path
) -> _File:
    tree = read_document(text)
    if tree is None:
        raise ConfigError(f"the file is empty, expected at least {required}")
    try:
        return kind.model_validate(substitute(tree, environ, base_dir))
    except ValidationError as exc:
        first = exc.errors()[0]
    # Raised out here, not from exc: what it was made from holds every value, secrets too.
    raise ConfigError(_sentence(first), path=_path(first))


def _read(path: Path, option: str) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, ValueError) as exc:
        if isinstance(exc, UnicodeDecodeError):
            line = exc.object.count(b"\n", 0, exc.start) + 1
            raise ConfigError(f"line {line}: expected UTF-8 text; save the file as UTF-8") from exc
        reason = getattr(exc, "strerror", None) or "not a path"
        raise ConfigError(
            f"can't read the configuration ({reason}); give its path with {option}"
        ) from exc


def _sentence(error: ErrorDetails) -> str:
    template = _SENTENCES.get(error["type"], "{msg}")
    return template.format(msg=error["msg"], given=shown(error["input"]), **error.get("ctx", {}))


def _path(error: ErrorDetails) -> str | None:
    below: tuple[str | int, ...] = error.get("ctx", {}).get("below", ())
    return dotted((*error["loc"], *below)) or None
