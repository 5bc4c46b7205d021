"""Script, style and icon: routes of their own, so that the page needs nothing inline."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "assets"

TYPES = {
    "icon.svg": "image/svg+xml",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
}

FOR_A_YEAR = "public, max-age=31536000, immutable"
"""For addresses that name the version."""

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
    """By a name that templates can say: `page_css`."""
    return {name.replace(".", "_"): _read(name) for name in TYPES}


def _read(name: str) -> Asset:
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
