"""Values become HTML here, escaped, and nowhere else."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from retentiond.model import Verdict
from retentiond.page.assets import Asset
from retentiond.wording.figures import say_bytes, say_count, say_many, say_share
from retentiond.wording.printable import printable
from retentiond.wording.reasons import remedy, short

HERE = Path(__file__).parent

UNKNOWN = "\N{EM DASH}"

_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def environment(assets: Mapping[str, Asset]) -> Environment:
    """Every value that isn't markup already is made printable and escaped."""
    env = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters |= {
        "bytes": say_known_bytes,
        "count": say_known,
        "share": say_share,
        "moment": moment,
        "instant": instant,
        "topic_path": topic_path,
        "with_code": with_code,
    }
    env.globals |= {
        "age": age,
        "assets": assets,
        "query": query,
        "remedy": remedy,
        "say_many": say_many,
        "shell": shlex.quote,
        "short": short,
        "verdicts": tuple(Verdict),
    }
    return env


def _finalize(value: object) -> object:
    """Control characters, and those that turn the direction of text, show as what they are."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def say_known(count: int | None) -> str:
    return UNKNOWN if count is None else say_count(count)


def say_known_bytes(count: int | None) -> str:
    return UNKNOWN if count is None else say_bytes(count)


def moment(epoch_ms: int) -> str:
    """For people."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def instant(epoch_ms: int) -> str:
    """For a machine."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def age(then_ms: int, now_ms: int) -> str:
    """``3 min ago``, ``in 2 min``: the greatest unit that fits."""
    seconds = abs(now_ms - then_ms) // 1000
    said = next(
        (f"{seconds // unit_s} {unit}" for unit_s, unit in _AGES if seconds >= unit_s),
        f"{seconds} s",
    )
    return f"in {said}" if then_ms > now_ms else f"{said} ago"


def with_code(sentences: str) -> Markup:
    """What stands between backticks as code; escaped."""
    parts = [escape(printable(part)) for part in sentences.split("`")]
    code = Markup("<code>{}</code>").format
    return Markup("").join(code(part) if at % 2 else part for at, part in enumerate(parts))


def topic_path(topic: str) -> str:
    """Relative to the site's root, so that it works behind a proxy's prefix too."""
    return f"topics/{quote(topic, safe='', errors='replace')}"


def query(**wanted: object) -> str:
    """``?name=a&page=2``; what is empty is left out."""
    given = {key: str(value) for key, value in wanted.items() if value not in (None, "", 1)}
    return f"?{urlencode(given, errors='replace')}" if given else "?"
