"""The types of sections and of single settings: what each accepts, and how it refuses the rest.

A type reads a `Scalar` of the file, or the plain Python value in its place.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from retentiond.config.document import Scalar, Unknown, shown
from retentiond.config.pattern import Pattern, ends_blank, has_stray_blank
from retentiond.formatting import (
    DAY_MS,
    DURATION,
    HOST_RULE,
    SECOND_MS,
    SIZE,
    format_bytes,
    format_duration,
    is_host,
    listed,
    parse_bytes,
    parse_duration,
)
from retentiond.model import LEGAL_TOPIC


class Section(BaseModel):
    """A mapping of settings. The docstring below a field is its description in the schema."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,  # a value may be a secret
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, settings: Any) -> Any:
        if not isinstance(settings, Mapping):
            raise refused(f"expected a mapping of settings, not {shown(settings)}")
        keys = [field.alias or name for name, field in cls.model_fields.items()]
        for key in settings:
            if key not in keys:
                raise refused(_unknown(key, keys), key)
        for key, about in zip(keys, cls.model_fields.values(), strict=True):
            if about.is_required() and key not in settings:
                raise refused(missing(about.description), key)
        return settings


GONE = {"price_per_gib_month": "report says bytes, and no longer money: remove the setting"}
"""Settings of earlier builds, and what to do with them."""


def _unknown(key: str, keys: list[str]) -> str:
    if key in GONE:
        return GONE[key]
    group = key.rpartition(".")[0]
    siblings = [name for name in keys if group and name.rpartition(".")[0] == group]
    close = siblings or difflib.get_close_matches(key, keys)
    if close:
        return f"unknown setting, did you mean {listed(close, 'or')}?"
    families = [re.sub(r"^(\w+\.\w+)\..*", r"\1.*", name) for name in keys]
    return f"unknown setting, expected {listed([*dict.fromkeys(families)], 'or')}"


def missing(description: str | None) -> str:
    """The message for a missing setting, with the first words of its description."""
    required = "expected this setting, which is required"
    words = re.split(r"[.:;](?:\s|$)", " ".join((description or "").split()))[0]
    return f"{required}: {words}" if words else required


INT64_MAX = 2**63 - 1

_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,999})")
"""Far more digits than any setting takes: the error of a larger number names the largest value."""

_BCRYPT_HASH = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_LOCAL_PLACE = r"(/|file:(//)?/(?!/)).*"
_ADDRESS = r"https?://.+"
_STORE = r"(s3a?|gs|az|abfss?)://[^/:?#\s]+(/[^?#\s]*)?"
_MASTER = r"local(\[ *([0-9]+|\*) *(, *[0-9]+ *)?\]|-cluster\[[0-9, ]+\])?|yarn|(spark|sc|k8s)://.+"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that steer a terminal, and those that turn the direction of text."""

_TOPIC_NAME = re.compile(rf"(?!\.{{1,2}}$){LEGAL_TOPIC}")


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


def _not_empty(value: object) -> str:
    if not (text := _text(value)):
        raise refused("expected a text that is not empty")
    return text


def filled(value: object) -> str:
    """A text that is shown to people, or names a file."""
    text = _not_empty(value)
    if control := _CONTROL.search(text):
        raise refused(
            f"expected a text on one line, without control characters such as "
            f"U+{ord(control[0]):04X}; {_BLOCK_SCALAR}"
        )
    return text


def can_name_a_reader(name: str) -> bool:
    """Whether a configuration takes this name of a group. Kafka takes any."""
    return bool(name) and not (_CONTROL.search(name) or ends_blank(name))


def not_blank(value: object) -> str:
    if not (text := filled(value)).strip():
        raise refused("expected a text that is not blank")
    return text


def _host(value: object) -> str:
    if not is_host(name := filled(value)):
        raise refused(f"expected a host's name or address: {HOST_RULE}")
    return name


def _name(value: object) -> str:
    """Of a reader. It may have spaces inside."""
    if ends_blank(name := filled(value)):
        raise refused(f"expected a name {_NOT_BLANK_AT_ITS_ENDS}")
    return name


_BLOCK_SCALAR = "remember that YAML ends a text after | with a line break"

_NOT_BLANK_AT_ITS_ENDS = (
    "that neither begins nor ends with white space or a control character, as nothing has such a "
    f"name; {_BLOCK_SCALAR}"
)


def _flag(value: object) -> bool:
    match value:
        case bool():
            return value
        case Scalar(text="true" | "false" as text, plain=True):
            return text == "true"
    raise refused(f"expected true or false, not {shown(value)}")


def _master(value: object) -> str:
    """Its error shows nothing of the value: the parameters of a Spark Connect server may hold a
    token."""
    master = filled(value)
    if not re.fullmatch(_MASTER, master, re.DOTALL):
        raise refused("expected local[N], spark://…, sc://… (Spark Connect) or k8s://…")
    return master


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


def is_null(value: object) -> bool:
    return value is None or (isinstance(value, Scalar) and value.is_null)


def or_null(read: Callable[[object], object]) -> Callable[[object], object]:
    return lambda value: None if is_null(value) else read(value)


def _folder(value: object) -> Path:
    return value if isinstance(value, Path) else Path(filled(value))


def _local_folder(value: object) -> Path:
    """One that this process can read: an object store's address would be a relative folder."""
    if isinstance(value, Path):
        return value
    if (folder := _local(filled(value))) is None:
        raise refused(f"expected a folder of this host, {_FROM_THE_ROOT}, not {shown(value)}")
    return folder


def _folder_or_store(value: object) -> str:
    """A folder, or the URL of an object store; its credentials come from the environment. The error
    shows nothing of the value: some will have put credentials there."""
    place = filled(value)
    if "://" not in place:
        return place
    if not re.fullmatch(_STORE, place):
        raise refused(
            "expected a folder, or an object store's URL (s3://, s3a://, gs://, az:// or abfss://, "
            "a bucket and a path, without credentials)"
        )
    return place


_MISREAD_IN_URLS = re.compile(r"[\x00-\x1f\x7f%\[\\\]^|\ud800-\udfff]")
"""deltalake names its files by URLs, and quotes these characters wrongly or not at all."""


def check_history_folder(place: Path, otherwise: str, *below: str) -> None:
    """Raises an error of what lies ``below`` if the history can't be kept in this folder."""
    if misread := _MISREAD_IN_URLS.search(os.path.realpath(place)):  # deltalake follows links
        raise refused(
            f"its whole path has the character {misread[0]!r}, and the history's table can't be "
            "kept below a folder whose name has %, [, ], ^, |, a backslash or a control character; "
            f"choose another folder, {otherwise}",
            *below,
        )


def _local_file_or_address(value: object) -> str:
    place = filled(value)
    if re.fullmatch(_ADDRESS, place):
        if not is_host(_host_of(place)):
            raise refused(f"expected an address with a host's name or address: {HOST_RULE}")
        return place
    if (file := _local(place)) is None:
        raise refused(
            f"expected an http:// or https:// address, or a file of this host, {_FROM_THE_ROOT}, "
            f"not {shown(value)}"
        )
    return str(file)


def _host_of(address: str) -> str:
    """Empty where it has none that can be read."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


_FROM_THE_ROOT = "by its absolute path (/… or file:/…; mount any other storage first)"


def _local(place: str) -> Path | None:
    """None: it names no file from the root of this host on. A file: URI is taken literally, as
    Spark does."""
    if not re.fullmatch(_LOCAL_PLACE, place, re.DOTALL):
        return None
    return Path(place.removeprefix("file:").removeprefix("//"))


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


def _keep_ms(value: object) -> int:
    ms = _duration_ms(value)
    if ms < SECOND_MS:
        raise refused(f"expected a duration of 1s or more, or null, not {shown(value)}")
    return ms


def _size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        count: int | None = value
    else:
        count = parse_bytes(_text(value))
    if count is None or not 1 <= count <= INT64_MAX:
        raise refused(
            "expected a size with its unit (B, KiB, MiB, GiB or TiB), as in 1MiB, "
            f"not {shown(value)}"
        )
    return count


def is_topic_name(name: str) -> bool:
    return _TOPIC_NAME.fullmatch(name) is not None


def _topic_name(value: object) -> str:
    name = _text(value)
    if not is_topic_name(name):
        raise refused(
            "expected a topic name of 1 to 249 letters, digits, dots, underscores and hyphens; "
            "a regular expression belongs under pattern"
        )
    return name


def _regex(value: object, *, any_dot: bool = False, of_topics: bool = False) -> Pattern:
    if isinstance(value, Pattern):
        return value
    text = _not_empty(value)
    try:
        pattern = Pattern(text, any_dot)
    except ValueError as exc:
        secret = isinstance(value, Scalar) and value.substituted
        detail = "" if secret else f" ({exc})"
        raise refused(f"expected a regular expression of RE2's syntax{detail}") from None
    if has_stray_blank(text, anywhere=of_topics):
        raise refused(
            "expected a pattern without white space and control characters, as no topic's name has "
            f"any; {_BLOCK_SCALAR}"
            if of_topics
            else f"expected a pattern of names {_NOT_BLANK_AT_ITS_ENDS}"
        )
    return pattern


def _patterns(value: object) -> object:
    """An empty list would mean nobody, or everybody: who wants either says so."""
    if isinstance(value, list | tuple) and not value:
        raise refused(
            "expected one pattern or more: without any, no group would count; leave the setting "
            "out, or write '.*', to let every group count"
        )
    return value


def is_unknown(value: object) -> bool:
    """Whether the value, or one in it, is not known."""
    match value:
        case Section():
            return any(is_unknown(below) for _, below in value)
        case Mapping():
            return any(map(is_unknown, value.values()))
        case tuple():
            return any(map(is_unknown, value))
        case _:
            return isinstance(value, Unknown)


def reads(read: Callable[[object], object]) -> BeforeValidator:
    """How a value is read that is no text: it must be known."""

    def known(value: object) -> object:
        if isinstance(value, Scalar) and value.unknown:
            written = shown(replace(value, substituted=False))
            raise refused(
                f"without secrets only a text may be a reference such as {written}; write this "
                "value out, or check the file where its variables and secret files are"
            )
        return read(value)

    return BeforeValidator(known)


def reads_text(read: Callable[[object], object]) -> WrapValidator:
    """How a text is read. One that is not known stays as it is written."""

    def validate(value: object, check: ValidatorFunctionWrapHandler) -> object:
        if isinstance(value, Scalar) and value.unknown:
            return Unknown(value.text)
        return check(read(value))

    return WrapValidator(validate)


def writes(write: Callable[[Any], str]) -> PlainSerializer:
    return PlainSerializer(write, return_type=str)


# What settings may hold. A text is taken as it is written: a group named 123 needs no quotes.
_ANY_TEXT = {"type": ["string", "number", "boolean"]}
_FILLED_TEXT = _ANY_TEXT | {"minLength": 1}


def _text_like(pattern: str) -> dict[str, Any]:
    """JSON Schema of a text that matches, or may do so once it is substituted."""
    return _ANY_TEXT | {"pattern": rf"^({pattern})$|\$\{{"}


AnyText = Annotated[str, reads_text(_text), WithJsonSchema(_ANY_TEXT)]
Text = Annotated[str, reads_text(filled), WithJsonSchema(_FILLED_TEXT)]
Host = Annotated[str, reads_text(_host), WithJsonSchema(_FILLED_TEXT)]
Name = Annotated[str, reads_text(_name), WithJsonSchema(_FILLED_TEXT)]
NotBlank = Annotated[str, reads_text(not_blank)]
TextOrNull = Annotated[
    Annotated[str, WithJsonSchema(_FILLED_TEXT)] | None,
    reads_text(or_null(filled)),
]
Folder = Annotated[Path, reads_text(_folder), WithJsonSchema(_FILLED_TEXT)]
LocalFolder = Annotated[Path, reads_text(_local_folder), WithJsonSchema(_text_like(_LOCAL_PLACE))]
SparkMaster = Annotated[str, reads_text(_master), WithJsonSchema(_text_like(_MASTER))]
LocalFileOrAddress = Annotated[
    str,
    reads_text(_local_file_or_address),
    WithJsonSchema(_text_like(f"{_LOCAL_PLACE}|{_ADDRESS}")),
]
FolderOrStore = Annotated[
    Annotated[str, WithJsonSchema(_FILLED_TEXT)] | None,
    reads_text(or_null(_folder_or_store)),
]
File = Folder
BcryptHash = Annotated[
    str, reads_text(_bcrypt_hash), WithJsonSchema(_text_like(_BCRYPT_HASH.pattern))
]
_WrittenRegex = Annotated[
    Pattern, writes(lambda regex: regex.pattern), WithJsonSchema(_FILLED_TEXT)
]
TopicRegex = Annotated[_WrittenRegex, reads(lambda value: _regex(value, of_topics=True))]
GroupRegex = Annotated[_WrittenRegex, reads(_regex)]
_CountingRegex = Annotated[_WrittenRegex, reads(lambda value: _regex(value, any_dot=True))]
CountingPatterns = Annotated[
    tuple[_CountingRegex, ...], BeforeValidator(_patterns), Field(json_schema_extra={"minItems": 1})
]
TopicName = Annotated[str, reads_text(_topic_name), WithJsonSchema(_text_like(_TOPIC_NAME.pattern))]
_WrittenDuration = Annotated[
    int,
    writes(format_duration),
    WithJsonSchema(_text_like(DURATION.pattern) | {"type": "string"}),
]
Duration = Annotated[_WrittenDuration, reads(_duration_ms)]
Interval = Annotated[_WrittenDuration, reads(_interval_ms)]
DurationOrNull = Annotated[_WrittenDuration | None, reads(or_null(_keep_ms))]
Size = Annotated[
    int,
    writes(format_bytes),
    WithJsonSchema(_text_like(SIZE.pattern) | {"type": "string"}),
    reads(_size),
]
Flag = Annotated[bool, reads(_flag)]
Visibility = Annotated[Literal["checked", "assumed"], reads(_visibility)]
Port = Annotated[int, Field(ge=0, le=65_535), reads(whole)]
Count = Annotated[int, Field(ge=1, le=INT64_MAX), reads(whole)]
CountOrNull = Annotated[Annotated[int, Field(ge=1, le=INT64_MAX)] | None, reads(or_null(whole))]


def default_duration(alias: str, text: str) -> Any:
    """A setting's default, as a file writes it."""
    return Field(default=parse_duration(text), alias=alias, json_schema_extra={"default": text})
