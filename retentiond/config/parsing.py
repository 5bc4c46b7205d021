"""One file's text to its section, and what is wrong with it in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from retentiond.config.document import Outside, dotted, read_document, shown, substitute
from retentiond.config.fences import KINDS_OF_POLICY_FILES
from retentiond.config.files import ConfigFiles
from retentiond.config.values import Section
from retentiond.errors import OUT_OF_BOUNDS, ConfigError, together

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SectionOfFile = TypeVar("SectionOfFile", bound=Section)

_SENTENCES = {  # pydantic's own kinds of error; the settings' types bring their sentence along
    **OUT_OF_BOUNDS,
    "too_short": "expected at least one entry in this list",
    "tuple_type": "expected a list, not {given}",
    "mapping_type": "expected a mapping of settings, not {given}",
    "dict_type": "expected a mapping of settings, not {given}",
}


def parsed(
    kind: type[SectionOfFile],
    text: str,
    required: str,
    outside: Outside,
    *,
    most_values: int | None = None,
) -> SectionOfFile:
    tree = read_document(text, most_values)
    if tree is None:
        raise ConfigError(f"the file is empty, expected at least {required}")
    tree = substitute(tree, outside)
    try:
        return kind.model_validate(tree)
    except ValidationError as exc:
        errors = exc.errors()
    places = [error["loc"] for error in errors]
    errors = [
        error
        for error, place in zip(errors, places, strict=True)
        # Pydantic counts the good entries of a list alone.
        if error["type"] != "too_short"
        or not any(other[:-1][: len(place)] == place for other in places)
    ]
    # Raised out here, not from exc: what it was made from holds every value, secrets too.
    raise together([ConfigError(sentence_of(error), path=path_of(error)) for error in errors])


def read_text(path: Path, option: str, files: ConfigFiles, most_bytes: int) -> str:
    try:
        content = files.read(path, most_bytes + 1)
        if len(content) > most_bytes:
            raise ConfigError(f"expected a file of at most {most_bytes:,} bytes")
        return content.decode("utf-8")
    except (OSError, ValueError) as exc:
        if isinstance(exc, UnicodeDecodeError):
            line = exc.object.count(b"\n", 0, exc.start) + 1
            raise ConfigError(f"line {line}: expected UTF-8 text; save the file as UTF-8") from exc
        reason = getattr(exc, "strerror", None) or "not a path"
        is_denied = isinstance(exc, PermissionError)
        remedy = "let this user read it" if is_denied else f"give the path of a file with {option}"
        raise ConfigError(f"can't read the configuration ({reason}); {remedy}") from exc


def sentence_of(error: ErrorDetails) -> str:
    template = _SENTENCES.get(error["type"], "{msg}")
    return template.format(msg=error["msg"], given=shown(error["input"]), **error.get("ctx", {}))


def path_of(error: ErrorDetails) -> str | None:
    below: tuple[str | int, ...] = error.get("ctx", {}).get("below", ())
    keys = (part for part in error["loc"] if part not in KINDS_OF_POLICY_FILES)
    return dotted((*keys, *below)) or None
