"""The text of `/metrics`, in whichever format is asked for.

With thousands of partitions the text of the last cycle's metrics takes longer than everything
else in a scrape, and it stays the same until the next cycle. So a family that is the same object
as at the last scrape keeps its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

END = b"# EOF\n"
"""Ends a text of the OpenMetrics format, and only the whole of it."""

FORMATS = 4
"""How many formats are remembered: more than a Prometheus of any version asks for."""

Encoder = Callable[[Collector], bytes]


class _Rendered(NamedTuple):
    family: Metric
    text: bytes


class _One(Collector):
    """A registry with a single family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


class Exposition:
    """Thread-safe: what is remembered is replaced as a whole, and any of it will do."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._rendered: dict[str, dict[int, _Rendered]] = {}  # by format, then by the object's id
        self._encoders: dict[str, Encoder] = {}

    def text(self, accept: str) -> tuple[bytes, str]:
        """Everything that is registered, as an Accept header wants it, and its content type."""
        encoder, content_type = choose_encoder(accept)
        if content_type not in self._encoders and len(self._encoders) >= FORMATS:
            self._encoders, self._rendered = {}, {}
        self._encoders[content_type] = encoder
        return self._text(encoder, content_type), content_type

    def renew(self) -> None:
        """Renders what has changed since, so that the next scrape need not wait for it."""
        for content_type, encoder in list(self._encoders.items()):
            self._text(encoder, content_type)

    def _text(self, encoder: Encoder, content_type: str) -> bytes:
        before = self._rendered.get(content_type, {})
        now: dict[int, _Rendered] = {}
        for family in self._registry.collect():
            last = before.get(id(family))
            if last is None or last.family is not family:
                last = _Rendered(family, encoder(_One(family)).removesuffix(END))
            now[id(family)] = last
        self._rendered[content_type] = now
        end = END if content_type.startswith("application/openmetrics-text") else b""
        return b"".join(each.text for each in now.values()) + end
