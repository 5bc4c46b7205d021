"""The text of `/metrics`: the same as the client library's own, and made once for each cycle."""

from __future__ import annotations

import pytest
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from retentiond.tell.metrics import registry as module
from retentiond.tell.metrics.registry import MOST_FORMATS, Exposition, Metrics
from tests.support.builders.reports import outcome, report, row

PLAIN = "text/plain;version=0.0.4"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROMETHEUS = f"{OPENMETRICS},application/openmetrics-text;version=0.0.1;q=0.75,{PLAIN};q=0.5"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry, {"version": "1.2.3"})


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the families whose text was made, in order."""
    names: list[str] = []

    class Noted(module._SingleFamily):
        def __init__(self, family: Metric) -> None:
            names.append(family.name)
            super().__init__(family)

    monkeypatch.setattr(module, "_SingleFamily", Noted)
    return names


def test_the_text_is_what_the_client_library_makes_of_the_whole(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    metrics.observe_cycle(report([row('or"d\\ers'), row("payments", 3)], [outcome("payments", 3)]))
    exposition = Exposition(registry)
    for accept in ("", PLAIN, OPENMETRICS, PROMETHEUS, "image/png"):
        encoder, content_type = choose_encoder(accept)
        for _ in range(2):  # the second time most of it is remembered
            assert exposition.text(accept) == (encoder(registry), content_type)


def test_what_a_cycle_left_is_rendered_once_and_what_counts_on_every_time(
    registry: CollectorRegistry, metrics: Metrics, rendered: list[str]
) -> None:
    exposition = Exposition(registry)
    metrics.observe_cycle(report([row("orders")]))
    exposition.text(PLAIN)
    assert "retentiond_high_watermark" in rendered
    rendered.clear()
    metrics.observe_failure()
    text, _ = exposition.text(PLAIN)
    assert b'retentiond_cycles_total{result="failed"} 1.0' in text
    assert b'retentiond_high_watermark{partition="0",topic="orders"} 200.0' in text
    assert "retentiond_cycles" in rendered
    assert "retentiond_high_watermark" not in rendered


def test_after_a_cycle_the_text_is_the_new_one(
    registry: CollectorRegistry, metrics: Metrics
) -> None:
    exposition = Exposition(registry)
    for topic in ("orders", "payments"):
        metrics.observe_cycle(report([row(topic)]))
        text, _ = exposition.text(OPENMETRICS)
        assert f'retentiond_high_watermark{{partition="0",topic="{topic}"}}'.encode() in text
    assert b"orders" not in text


def test_a_scrape_after_renewal_need_not_render_what_the_cycle_left(
    registry: CollectorRegistry, metrics: Metrics, rendered: list[str]
) -> None:
    exposition = Exposition(registry)
    exposition.text(PLAIN)
    metrics.observe_cycle(report([row("orders")]))
    exposition.renew()
    rendered.clear()
    exposition.text(PLAIN)
    assert "retentiond_high_watermark" not in rendered


def test_formats_that_nobody_knows_do_not_pile_up(
    registry: CollectorRegistry, rendered: list[str]
) -> None:
    exposition = Exposition(registry)
    Metrics(registry, {"version": "1.2.3"})
    for minor in range(100):
        exposition.text(f"application/openmetrics-text;version=1.{minor}.0")
    rendered.clear()
    exposition.renew()
    exposition.renew()
    families = len(set(rendered))
    assert len(rendered) <= 2 * MOST_FORMATS * families
