"""The types of single settings: what each accepts, and the sentence that refuses the rest.

Each reads a `Scalar` of the file, or the plain Python value in its place.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from retentiond.config.duration import DAY_MS, DURATION, SECOND_MS, format_duration, parse_duration
from retentiond.config.phrases import shown
from retentiond.config.tree import Scalar

INT64_MAX = 2**63 - 1

_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_BCRYPT_HASH = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


def refused(message: str, *below: str | int) -> PydanticCustomError:
    """An error of the value at hand, or of what lies ``below`` it (keys and indices)."""
    return PydanticCustomError("refused", "{message}", {"message": message, "below": below})


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case Scalar(text=text) if not value.is_null:
            return text
    raise refused(f"expected a text, not {shown(value)}")


def _filled(value: object) -> str:
    if not (text := _text(value)):
        raise refused("expected a text that is not empty")
    return text


def _flag(value: object) -> bool:
    match value:
        case bool():
            return value
        case Scalar(text="true" | "false" as text, plain=True):
            return text == "true"
    raise refused(f"expected true or false, not {shown(value)}")


def _visibility(value: object) -> str:
    match value:
        case "checked" | "assumed":
            return str(value)
        case Scalar(text="checked" | "assumed" as text):
            return text
    raise refused(f"expected checked or assumed, not {shown(value)}")


def whole(value: object) -> int:
    """A whole number without quotes, or text from outside the file that is one."""
    match value:
        case int() if not isinstance(value, bool):
            return value
        case Scalar(text=text, plain=True) if _WHOLE_NUMBER.fullmatch(text):
            return int(text)
    raise refused(f"expected a whole number, not {shown(value)}")


def _whole_or_null(value: object) -> int | None:
    if value is None or (isinstance(value, Scalar) and value.is_null):
        return None
    return whole(value)


def _folder(value: object) -> Path:
    return value if isinstance(value, Path) else Path(_filled(value))


def _bcrypt_hash(value: object) -> str:
    """Its error shows nothing of the value: some will have put a password there."""
    text = _text(value)
    if not _BCRYPT_HASH.fullmatch(text):
        raise refused("expected a bcrypt hash, as `htpasswd -nB USER` prints it after USER and :")
    return text


def _duration_ms(value: object) -> int:
    written = value.text if isinstance(value, Scalar) else value
    ms = parse_duration(written) if isinstance(written, str) else None
    if ms is None or ms > INT64_MAX:
        raise refused(
            "expected a duration with its unit (ms, s, m, h or d), as in 90s or 5m, "
            f"not {shown(value)}"
        )
    return ms


def _interval_ms(value: object) -> int:
    ms = _duration_ms(value)
    if not SECOND_MS <= ms <= 365 * DAY_MS:
        raise refused(f"expected a duration from 1s to 365d, not {shown(value)}")
    return ms


def _topic_name(value: object) -> str:
    name = _text(value)
    if not _TOPIC_NAME.fullmatch(name):
        raise refused(
            "expected a topic name of 1 to 249 letters, digits, dots, underscores and hyphens; "
            "a regular expression belongs under pattern"
        )
    return name


def _regex(value: object) -> re.Pattern[str]:
    if isinstance(value, re.Pattern):
        return value
    text = _filled(value)
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as exc:
        secret = isinstance(value, Scalar) and value.substituted
        detail = "" if secret else f" ({exc})"
        raise refused(f"expected a regular expression{detail}") from None


# What settings may hold. A text is taken as it is written: a group named 123 needs no quotes.
_ANY_TEXT = {"type": ["string", "number", "boolean"]}
_FILLED_TEXT = _ANY_TEXT | {"minLength": 1}


def _text_like(pattern: str) -> dict[str, Any]:
    """JSON Schema of a text that matches, or may do so once it is substituted."""
    return _ANY_TEXT | {"pattern": rf"^({pattern})$|\$\{{"}


AnyText = Annotated[str, BeforeValidator(_text), WithJsonSchema(_ANY_TEXT)]
Text = Annotated[str, BeforeValidator(_filled), WithJsonSchema(_FILLED_TEXT)]
Folder = Annotated[Path, BeforeValidator(_folder), WithJsonSchema(_FILLED_TEXT)]
File = Folder
BcryptHash = Annotated[
    str, BeforeValidator(_bcrypt_hash), WithJsonSchema(_text_like(_BCRYPT_HASH.pattern))
]
Regex = Annotated[
    re.Pattern[str],
    BeforeValidator(_regex),
    PlainSerializer(lambda regex: regex.pattern, return_type=str),
    WithJsonSchema(_FILLED_TEXT),
]
TopicName = Annotated[
    str, BeforeValidator(_topic_name), WithJsonSchema(_text_like(_TOPIC_NAME.pattern))
]
Duration = Annotated[
    int,
    BeforeValidator(_duration_ms),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(_text_like(DURATION.pattern) | {"type": "string"}),
]
Interval = Annotated[
    int,
    BeforeValidator(_interval_ms),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(_text_like(DURATION.pattern) | {"type": "string"}),
]
Flag = Annotated[bool, BeforeValidator(_flag)]
Visibility = Annotated[Literal["checked", "assumed"], BeforeValidator(_visibility)]
Port = Annotated[int, Field(ge=0, le=65_535), BeforeValidator(whole)]
Count = Annotated[int, Field(ge=1, le=INT64_MAX), BeforeValidator(whole)]
CountOrNull = Annotated[
    Annotated[int, Field(ge=1, le=INT64_MAX)] | None, BeforeValidator(_whole_or_null)
]
