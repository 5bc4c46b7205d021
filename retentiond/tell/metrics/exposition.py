"""The text of `/metrics`.

With thousands of partitions, rendering the last cycle's metrics takes longer than the rest of a
scrape, and their text stays the same until the next cycle. So the text of a family is kept as long
as the family is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

OPENMETRICS_END = b"# EOF\n"
"""Ends a text in the OpenMetrics format. It comes once, after all families."""

MOST_FORMATS = 4
"""How many formats are remembered: more than a Prometheus of any version requests."""

Encoder = Callable[[Collector], bytes]


class _Rendered(NamedTuple):
    family: Metric
    text: bytes


class _SingleFamily(Collector):
    """A registry with a single family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return [self._family]


class Exposition:
    """Renders all metrics. It is thread-safe: remembered texts are replaced as a whole, and an old
    one does no harm."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._rendered: dict[str, dict[int, _Rendered]] = {}  # by format, then by the object's id
        self._encoders: dict[str, Encoder] = {}

    def text(self, accept: str) -> tuple[bytes, str]:
        """All registered metrics in the format of an Accept header, and its content type."""
        encoder, content_type = choose_encoder(accept)
        if content_type not in self._encoders and len(self._encoders) >= MOST_FORMATS:
            self._encoders, self._rendered = {}, {}
        self._encoders[content_type] = encoder
        return self._text(encoder, content_type), content_type

    def renew(self) -> None:
        """Renders the families that have changed, so that the next scrape need not wait for it."""
        for content_type, encoder in list(self._encoders.items()):
            self._text(encoder, content_type)

    def _text(self, encoder: Encoder, content_type: str) -> bytes:
        before = self._rendered.get(content_type, {})
        now: dict[int, _Rendered] = {}
        for family in self._registry.collect():
            last = before.get(id(family))
            if last is None or last.family is not family:
                text = encoder(_SingleFamily(family)).removesuffix(OPENMETRICS_END)
                last = _Rendered(family, text)
            now[id(family)] = last
        self._rendered[content_type] = now
        end = OPENMETRICS_END if content_type.startswith("application/openmetrics-text") else b""
        return b"".join(each.text for each in now.values()) + end
