"""What a metric is: its name, type, labels and help, and the function that gives its values.

The tables of all metrics are `retentiond.tell.metrics.daemon` and `retentiond.tell.metrics.cycle`.
docs/metrics.md is generated from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import prometheus_client as prom
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The buckets of every histogram, in seconds."""

COUNTER, GAUGE, HISTOGRAM, INFO = "counter", "gauge", "histogram", "info"

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float | None]]
"""Values by labels. None: the figure is not known, and has no series."""

Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Definition(Generic[Told]):
    """A metric. ``name`` is the name that a query uses: a counter's ends in ``_total``, and an
    info's in ``_info``. Prometheus appends ``_bucket``, ``_sum`` and ``_count`` to a histogram's
    name.

    ``samples`` gives the values; None if the metric is observed event by event."""

    name: str
    help: str
    labels: Labels = ()
    samples: Callable[[Told], Samples] | None = None
    type: str = GAUGE  # or COUNTER, HISTOGRAM, INFO

    def counter(self, registry: CollectorRegistry) -> prom.Counter:
        return prom.Counter(self.name, self.help, self.labels, registry=registry)

    def histogram(self, registry: CollectorRegistry) -> prom.Histogram:
        return prom.Histogram(self.name, self.help, self.labels, registry=registry, buckets=BUCKETS)

    def family(self, source: Told) -> Metric:
        known = () if self.samples is None else self.samples(source)
        samples = [(labels, value) for labels, value in known if value is not None]
        if self.type == INFO:
            info = InfoMetricFamily(self.name.removesuffix("_info"), self.help)
            for labels, _ in samples:
                info.add_metric((), dict(zip(self.labels, labels, strict=True)))
            return info
        family: CounterMetricFamily | GaugeMetricFamily = (
            CounterMetricFamily(self.name, self.help, labels=self.labels)
            if self.type == COUNTER
            else GaugeMetricFamily(self.name, self.help, labels=self.labels)
        )
        for labels, value in samples:
            family.add_metric(labels, value)
        return family


def single(value: Callable[[Told], float | None]) -> Callable[[Told], Samples]:
    """The samples of a metric without labels."""
    return lambda source: [((), value(source))]
