"""Figures and names in sentences: bytes, counts, durations, and text from elsewhere made safe.

A duration is ``90s`` in a file or an option, ``1 minute 30 seconds`` in a sentence, and
milliseconds inside.

A group id may be empty, 32 kB long, and hold any character, a terminal's control sequences too.
JSON has each as it is.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from retentiond.fields import BYTES, GIB_DAYS, MILLISECONDS, OFFSET, Shown, Storage, rfc3339
from retentiond.model import GroupKind

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

MIB = 1 << 20
GIB = 1 << 30

_DURATION_UNITS_MS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": SECOND_MS, "ms": 1}
_DURATION_WORDS = {"d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond"}
DURATION = re.compile(r"(0|[1-9][0-9]{0,17})(ms|s|m|h|d)")


def say_bytes(count: int) -> str:
    """``12.4 GiB``: at least two digits that count, and never more than four."""
    scaled, unit = float(count), 0
    while round(scaled) >= 1024 and unit < len(UNITS) - 1:
        scaled /= 1024
        unit += 1
    digits = 1 if unit and scaled < 99.95 else 0
    return f"{scaled:.{digits}f} {UNITS[unit]}"


SIZE = re.compile(rf"(0|[1-9][0-9]{{0,17}}) ?({'|'.join(UNITS)})")


def parse_bytes(text: str) -> int | None:
    """Bytes of ``500B``, ``16KiB`` or ``1MiB``; None for anything else."""
    written = SIZE.fullmatch(text)
    return int(written[1]) << 10 * UNITS.index(written[2]) if written else None


def format_bytes(count: int) -> str:
    """The shortest text that `parse_bytes` reads back as ``count`` (1 or more)."""
    power = min(((count & -count).bit_length() - 1) // 10, len(UNITS) - 1)
    return f"{count >> 10 * power}{UNITS[power]}"


def say_figure(value: int | None, unknown: str = "?") -> str:
    """The digits, without separators."""
    return unknown if value is None else str(value)


def say_amount(records: int, size_bytes: int | None) -> str:
    """What records take, or how many there are where that is not known."""
    return say_many(records, "record") if size_bytes is None else say_bytes(size_bytes)


def say_count(count: int) -> str:
    """``1,204,331``"""
    return f"{count:,}"


def say_gib_days(gib_days: float) -> str:
    """``2.4``, ``1,200``"""
    return f"{gib_days:,.1f}" if gib_days < 10 else say_count(round(gib_days))


def say_share(part: int, whole: int) -> str:
    """``19%``. Some is never shown as none, nor as all."""
    if not whole or not part:
        return "0%"
    percent = 100 * part / whole
    if percent < 1:
        return "<1%"
    return "99%" if part < whole and percent > 99 else f"{percent:.0f}%"


def say_many(count: int, one: str, several: str | None = None) -> str:
    """``1 topic``, ``2,000 topics``"""
    return f"{say_count(count)} {one if count == 1 else several or one + 's'}"


def say_verb(count: int, one: str, several: str) -> str:
    """What goes with `say_many`: ``1 topic is``, ``2 topics are``."""
    return one if count == 1 else several


def say_foreign(count: int) -> str:
    """What goes behind ``at least 2 must``: external readers that only other policies name."""
    readers = say_many(count, "external reader")
    stand = say_verb(count, "stands", "stand")
    return f"; {readers} of another policy {stand} for none of them" if count else ""


def parse_time(text: str) -> int:
    """A time of ISO 8601 or RFC 3339 in epoch milliseconds; without a zone it is UTC. Raises
    ValueError and OverflowError."""
    moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows t and z, Python only t
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


def parse_duration(text: str) -> int | None:
    """Milliseconds of ``500ms``, ``1s``, ``5m``, ``6h`` or ``7d``; None for anything else."""
    written = DURATION.fullmatch(text)
    return int(written[1]) * _DURATION_UNITS_MS[written[2]] if written else None


def format_duration(ms: int) -> str:
    """The shortest text that `parse_duration` reads back as ``ms`` (0 or more)."""
    unit = next(unit for unit, unit_ms in _DURATION_UNITS_MS.items() if ms % unit_ms == 0)
    return f"{ms // _DURATION_UNITS_MS[unit]}{unit}"


def say_duration(ms: int) -> str:
    """``ms`` (1 or more) in words, the largest units first: ``1 day 12 hours``."""
    words = []
    for unit, unit_ms in _DURATION_UNITS_MS.items():
        count, ms = divmod(ms, unit_ms)
        if count:
            words.append(f"{count} {_DURATION_WORDS[unit]}{'s' if count > 1 else ''}")
    return " ".join(words)


def say_about(ms: int) -> str:
    """A duration by its largest unit, rounded down: ``3 days``, ``12 minutes``, ``0 seconds``."""
    for unit_ms, unit in ((DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute")):
        if ms >= unit_ms:
            return say_many(ms // unit_ms, unit)
    return say_many(ms // SECOND_MS, "second")


EMPTY_NAME = '""'

LONGEST_NAME = 250
"""The longest name that is shown whole, in characters; no topic's is longer."""

HEAD, TAIL = 60, 20  # characters of a longer one that are shown

FIRST_PRINTABLE, LAST_PRINTABLE = 0x20, 0x7E


def printable(text: str) -> str:
    """Control characters, and those that turn the direction of text, show as what they are."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def without_parameters(master: str) -> str:
    """The address of a Spark Connect server without its parameters, which may hold a token; any
    other as it is."""
    return master.partition(";")[0]


HOST_RULE = "each part between two dots has 1 to 63 letters, and the whole has 253 at most"


def is_host(name: str) -> bool:
    """Whether a resolver can be asked about the name or address. Python encodes it before that, and
    raises an error that is none of the network's."""
    try:
        return name.isprintable() and 0 < len(name.encode("idna").removesuffix(b".")) <= 253
    except UnicodeError:
        return False


def say_name(name: str) -> str:
    """A group's or a reader's name for people: printable, ``""`` where it is empty, and where it is
    long its two ends and its length."""
    if len(name) > LONGEST_NAME:
        return f"{printable(name[:HEAD])}…{printable(name[-TAIL:])} ({len(name):,} characters)"
    return printable(name) or EMPTY_NAME


def say_any(name: str | None) -> str:
    """A name as a cell of a table; ``-`` if there is none."""
    return "-" if name is None else say_name(name)


def say_names(names: Iterable[str], most: int) -> str:
    """``a, b, c and 8 more``"""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{', '.join(map(say_name, every[:most]))}{more}"


MOST_TOLD = 5


def few(told: Sequence[str], most: int = MOST_TOLD) -> list[str]:
    """The first ones, and how many more there are."""
    left = len(told) - most
    return [*told[:most], *([f"and {left} more"] if left > 0 else [])]


def listed(names: Sequence[str], last: str = "and") -> str:
    """``a, b and c``; nothing of no names"""
    *before, final = names or [""]
    return f"{', '.join(before)} {last} {final}" if before else final


def say_ranges(numbers: Iterable[int]) -> str:
    """``0-3, 7``, of ascending numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def label(name: str) -> str:
    """A name as a metric's label, unique for each name, even a shortened one: a shortened one is
    longer than every one that is not."""
    if len(name) <= LONGEST_NAME:
        return name
    return (
        f"{name[: LONGEST_NAME - HEAD]}…{hashlib.sha256(name.encode(errors='replace')).hexdigest()}"
    )


def shell_word(text: str) -> str | None:
    """The text as one word for a shell, to be pasted; None where none can be: a NUL can't be an
    argument, and one that is too long to be shown can't be copied."""
    if "\0" in text or len(text) > LONGEST_NAME:
        return None
    if text.isprintable() and "`" not in text:  # which marks commands within a sentence
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text.encode(errors='replace')))}'"


def shell_argument(text: str) -> str | None:
    """A shell's word that stands alone, and must not be taken for an option."""
    word = shell_word(text)
    return f"-- {word}" if word is not None and text.startswith("-") else word


def _escaped(byte: int) -> str:
    """Within ``$'…'``, which bash, zsh, ksh and POSIX's newest sh read alike."""
    if FIRST_PRINTABLE <= byte <= LAST_PRINTABLE and chr(byte) not in "\\'`":
        return chr(byte)
    return f"\\{byte:03o}"


NEGATIVE_COMMIT = "a negative offset, which says nothing of what it has read"
"""Ends the sentence about a row that a commit below zero holds, so that its remedy is known."""


def say_negative_commit(who: str, committed: int) -> str:
    return f"{who} has committed {committed}, {NEGATIVE_COMMIT}"


def say_reader(name: str, kind: GroupKind | None) -> str:
    """``group billing``, ``external reader etl``"""
    what = "external reader" if kind is GroupKind.EXTERNAL else "group"
    return f"{what} {say_name(name)}"


def say_retention(ms: int) -> str:
    """``6h``; ``at once``: as soon as consumed."""
    return format_duration(ms) if ms else "at once"


NONE_IS_DASH = (Storage.TIME, Storage.TEXT, Storage.SENTENCE, MILLISECONDS.unit)

SAY_OF: Mapping[Storage | str | None, Callable[[Any], str]] = {
    BYTES.unit: say_bytes,
    MILLISECONDS.unit: say_retention,
    GIB_DAYS.unit: say_gib_days,
    OFFSET.unit: str,
    Storage.TIME: rfc3339,
    Storage.FLAG: lambda is_so: "yes" if is_so else "no",
    Storage.TEXT: say_name,
    Storage.TEXTS: lambda names: say_names(names, 3),
}
"""How a cell says a value of this unit or, without one, of this storage."""


def say_field(field: Shown, row: object, unknown: str = "?") -> str:
    """A field of a row as a cell of a table."""
    value, (storage, unit, *_) = field.of(row), field.said.type
    if value is None or (value == "" and storage is Storage.SENTENCE):
        return "-" if (unit or storage) in NONE_IS_DASH else unknown
    if value == 0 and field.said.is_dash:
        return "-"
    return SAY_OF.get(unit or storage, say_count if unit else str)(value)
