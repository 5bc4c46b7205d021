"""Turns values into escaped HTML, and records that go and stay into bars, as plain geometry for
inline SVG; serves the page's script, style and icon."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from retentiond.decide.kept_records import (
    KEPT_BY_AGE,
    KEPT_UNTIL_WORTHWHILE,
    KeptBecause,
    cause,
)
from retentiond.formatting import (
    label,
    printable,
    say_about,
    say_amount,
    say_bytes,
    say_count,
    say_field,
    say_many,
    say_name,
    say_share,
    shell_argument,
    shell_word,
)
from retentiond.model import PlanRow, Reason, Verdict
from retentiond.tell.figures.answers import PartitionAnswer, TopicAnswer, caveats, say_trials
from retentiond.tell.reasons import UNSEEN_READERS_NOTE, remedy, short

HERE = Path(__file__).parent

UNKNOWN = "\N{EM DASH}"

_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def environment() -> Environment:
    """The templates' environment. A value that isn't markup is made printable and escaped."""
    env = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters |= {
        "about": say_about,
        "cell": partial(say_field, unknown=UNKNOWN),
        "bytes": _or_unknown(say_bytes),
        "count": _or_unknown(say_count),
        "share": say_share,
        "moment": moment,
        "instant": instant,
        "group_path": group_path,
        "topic_path": topic_path,
        "with_code": with_code,
    }
    env.globals |= {
        "age": age,
        "amount": say_amount,
        "assets": asset_paths(),
        "cause": cause,
        "caveats": caveats,
        "query": query,
        "remedy": remedy,
        "say_many": say_many,
        "say_name": say_name,
        "say_trials": say_trials,
        "shell": shell_argument,
        "short": short,
        "unseen": UNSEEN_READERS_NOTE,
        "word": shell_word,
        "verdicts": tuple(Verdict),
    }
    return env


def _printable_value(value: object) -> object:
    """Makes control characters visible, and those that change the direction of text."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _or_unknown(say: Callable[[int], str]) -> Callable[[int | None], str]:
    return lambda figure: UNKNOWN if figure is None else say(figure)


def moment(epoch_ms: int) -> str:
    """The time for people."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def instant(epoch_ms: int) -> str:
    """The time for a machine."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def age(then_ms: int, now_ms: int) -> str:
    """``3 min ago``, ``in 2 min``: in the greatest unit that fits."""
    seconds = abs(now_ms - then_ms) // 1000
    text = next(
        (f"{seconds // unit_s} {unit}" for unit_s, unit in _AGES if seconds >= unit_s),
        f"{seconds} s",
    )
    return f"in {text}" if then_ms > now_ms else f"{text} ago"


def with_code(sentences: str) -> Markup:
    """The escaped sentences, with text between backticks as code."""
    parts = [escape(printable(part)) for part in sentences.split("`")]
    code = Markup("<code>{}</code>").format
    return Markup("").join(code(part) if at % 2 else part for at, part in enumerate(parts))


def topic_path(topic: str) -> str:
    """The path of a topic's page, relative to the site's root, so that it works behind a proxy's
    prefix."""
    return f"topics/{quote(topic, safe='', errors='replace')}"


def address(group_id: str) -> str:
    """The group's name in an address: shortened, and without characters that an address can't
    have."""
    return label(group_id).encode(errors="replace").decode()


def group_path(group_id: str) -> str:
    """The path of a group's page, relative to the site's root. A browser takes ``.`` and ``..`` for
    folders, so such a name becomes a parameter."""
    name = address(group_id)
    if name in ("", ".", ".."):
        return f"groups/?{urlencode({'name': name})}"
    return f"groups/{quote(name, safe='')}"


def query(**wanted: object) -> str:
    """``?name=a&page=2``, without empty values and the first page."""
    given = {key: str(value) for key, value in wanted.items() if value not in (None, "", 1)}
    return f"?{urlencode(given, errors='replace')}" if given else "?"


ASSETS = HERE / "assets"

CACHE_FOR_A_YEAR = "public, max-age=31536000, immutable"
"""The cache control of an address that names the version."""


def asset_paths() -> dict[str, str]:
    """Addresses of the files that the page loads, relative to the site's root, by names that
    templates can use, such as `page_css`. They change with the contents."""
    versions = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in ASSETS.iterdir()
    }
    return {
        name.replace(".", "_"): f"assets/{name}?v={version}" for name, version in versions.items()
    }


class Assets(StaticFiles):
    """Serves these files. An address that names another version is that of another release, whose
    daemon may stand behind the same name: what this one answers is not kept under it."""

    def __init__(self) -> None:
        super().__init__(directory=ASSETS)
        self._versioned = frozenset(asset_paths().values())

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        file, _, scope, *_ = args
        address = f"assets/{Path(file).name}?{scope['query_string'].decode('latin-1')}"
        is_versioned = address in self._versioned
        response.headers["cache-control"] = CACHE_FOR_A_YEAR if is_versioned else "no-cache"
        response.headers["x-content-type-options"] = "nosniff"
        return response


GO, UNREAD, HELD, YOUNG = "go", "unread", "held", "young"
"""Kinds of records, in the order of a log: records that go, records that a group has yet to read,
records that another hold keeps, and records that are too young."""

RECORD_KINDS = (GO, UNREAD, HELD, YOUNG)

LEAST_WIDTH = 0.75
"""The least width of a segment, in the picture's units, so that a tiny part can still be seen."""


class BarSegment(NamedTuple):
    """A segment of a bar, from ``x`` on, in the picture's units."""

    kind: str
    x: float
    width: float
    records: int


def kind_of(keeper: KeptBecause) -> str:
    if keeper == KEPT_BY_AGE:
        return YOUNG
    if keeper == KEPT_UNTIL_WORTHWHILE:
        return GO
    return UNREAD if keeper.reason is Reason.NOT_CONSUMED else HELD


def records_by_kind(answer: PartitionAnswer | TopicAnswer) -> Counter[str]:
    """Log records by kind; empty if the offsets are unreadable."""
    counts = Counter({GO: answer.records})
    for kept in answer.kept:
        counts[kind_of(kept.keeper)] += kept.records
    return counts


def bar(
    counts: Mapping[str, int], width: float, whole: int | None = None
) -> tuple[BarSegment, ...]:
    """The segments of a bar, in the order of `RECORD_KINDS`. ``whole``: how many records fill the
    width; by default, those in ``counts``."""
    total = max(1, whole if whole is not None else sum(counts.values()))
    shown = [(kind, counts[kind]) for kind in RECORD_KINDS if counts.get(kind, 0)]
    widths = [max(LEAST_WIDTH, records / total * width) for _, records in shown]
    fit = min(1.0, width / sum(widths)) if widths else 1.0
    segments: list[BarSegment] = []
    x = 0.0
    for (kind, records), segment_width in zip(shown, widths, strict=True):
        segments.append(BarSegment(kind, round(x, 2), round(segment_width * fit, 2), records))
        x += segment_width * fit
    return tuple(segments)


def mark(row: PlanRow, offset: int | None, width: float, whole: int) -> float | None:
    """The position of an offset in the row's bar; None if it is outside, or not known."""
    start, end = row.log_start_offset, row.high_watermark
    if offset is None or start is None or end is None or not start <= offset <= end:
        return None
    return round(min(width, (offset - start) / max(1, whole) * width), 2)
