"""Values become HTML here, escaped, and nowhere else; script, style and icon beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retentiond.formatting import (
    printable,
    say_about,
    say_amount,
    say_bytes,
    say_count,
    say_many,
    say_name,
    say_share,
    say_stored,
    shell_argument,
    shell_word,
)
from retentiond.model import Verdict
from retentiond.tell.answers import cause
from retentiond.tell.page.details import address
from retentiond.tell.reasons import UNSEEN_READERS_NOTE, remedy, say_groups_only, short

HERE = Path(__file__).parent

UNKNOWN = "\N{EM DASH}"

_AGES = ((86_400, "d"), (3_600, "h"), (60, "min"))


def environment(assets: Mapping[str, Asset]) -> Environment:
    """Every value that isn't markup already is made printable and escaped."""
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
        "bytes": say_known_bytes,
        "count": say_known,
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
        "assets": assets,
        "cause": cause,
        "query": query,
        "remedy": remedy,
        "say_many": say_many,
        "say_name": say_name,
        "say_groups_only": say_groups_only,
        "shell": shell_argument,
        "short": short,
        "stored": say_known_stored,
        "unseen": UNSEEN_READERS_NOTE,
        "word": shell_word,
        "verdicts": tuple(Verdict),
    }
    return env


def _printable_value(value: object) -> object:
    """Control characters, and those that turn the direction of text, show as what they are."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def say_known(count: int | None) -> str:
    return UNKNOWN if count is None else say_count(count)


def say_known_bytes(count: int | None) -> str:
    return UNKNOWN if count is None else say_bytes(count)


def say_known_stored(local: int | None, remote: int | None) -> str:
    return UNKNOWN if local is None else say_stored(local, remote)


def moment(epoch_ms: int) -> str:
    """The time for people."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def instant(epoch_ms: int) -> str:
    """The time for a machine."""
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


def group_path(group_id: str) -> str:
    """Relative, too. A browser takes dots for a folder, so such a name is no part of the path."""
    name = address(group_id)
    if name in ("", ".", ".."):
        return f"groups/?{urlencode({'name': name})}"
    return f"groups/{quote(name, safe='')}"


def query(**wanted: object) -> str:
    """``?name=a&page=2``; what is empty is left out."""
    given = {key: str(value) for key, value in wanted.items() if value not in (None, "", 1)}
    return f"?{urlencode(given, errors='replace')}" if given else "?"


FOLDER = Path(__file__).parent / "assets"

TYPES = {
    "icon.svg": "image/svg+xml",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}

FOR_A_YEAR = "public, max-age=31536000, immutable"
"""The cache control of addresses that name the version."""

ASK_AGAIN = "no-cache"


@dataclass(frozen=True, slots=True)
class Asset:
    """``path`` is relative to the site's root, and another one when its contents are."""

    name: str
    contents: bytes
    version: str

    @property
    def path(self) -> str:
        return f"assets/{self.name}?v={self.version}"


def load_assets() -> dict[str, Asset]:
    """The assets by names that templates can use: `page_css`."""
    return {name.replace(".", "_"): _asset_from_file(name) for name in TYPES}


def _asset_from_file(name: str) -> Asset:
    contents = (FOLDER / name).read_bytes()
    return Asset(name, contents, hashlib.sha256(contents).hexdigest()[:16])


def route(asset: Asset) -> Route:
    etag = f'"{asset.version}"'

    def serve(request: Request) -> Response:
        is_versioned = request.query_params.get("v") == asset.version
        headers = {
            "etag": etag,
            "cache-control": FOR_A_YEAR if is_versioned else ASK_AGAIN,
            "x-content-type-options": "nosniff",
        }
        known = request.headers.get("if-none-match", "")
        if etag in (each.strip().removeprefix("W/") for each in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(asset.contents, headers=headers | {"content-type": TYPES[asset.name]})

    return Route(f"/assets/{asset.name}", serve)
