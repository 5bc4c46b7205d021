"""All metrics: what the daemon tells of itself and of its last cycle, and the text of `/metrics`.

With thousands of partitions, rendering the last cycle's metrics takes longer than the rest of a
scrape, and their text stays the same until the next cycle. So the text of a family is kept as long
as the family is the same object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from retentiond.config import Config
from retentiond.kafka.interface import LOOK_TO_REQUEST, THROTTLED
from retentiond.state.state import Held, LastComplete
from retentiond.tell.figures.standing import HeldSince
from retentiond.tell.metrics import daemon as daemon_metrics
from retentiond.tell.metrics.cycle import CYCLE_METRICS, CycleFigures, Totals
from retentiond.tell.metrics.daemon import DAEMON_METRICS, OBSERVED, DaemonFigures
from retentiond.tell.metrics.definition import Definition
from retentiond.tell.report import CycleReport

ALL: tuple[Definition[Any], ...] = (*OBSERVED, *DAEMON_METRICS, *CYCLE_METRICS)
"""All metrics, in the order of the documentation."""


class Metrics(Collector):
    """Everything that `/metrics` shows. The cycle alone writes; scrapes read on other threads."""

    def __init__(
        self,
        registry: CollectorRegistry,
        build: Mapping[str, str],
        started_at_s: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``started_at_s``: in epoch seconds. ``clock``: monotonic seconds."""
        self._clock = clock
        self.daemon = DaemonFigures(build, started_at_s)
        self._held_since = HeldSince()
        self._totals = Totals()
        self.cycles = daemon_metrics.CYCLES.counter(registry)
        for result in ("ok", "incomplete", "failed"):
            self.cycles.labels(result)
        self._cycle_seconds = daemon_metrics.CYCLE_SECONDS.histogram(registry)
        self._evidence_age = daemon_metrics.EVIDENCE_AGE_SECONDS.histogram(registry)
        self._request_seconds = daemon_metrics.REQUEST_SECONDS.histogram(registry)
        self._measured_apart = {
            LOOK_TO_REQUEST: daemon_metrics.LOOK_TO_REQUEST_SECONDS.histogram(registry),
            THROTTLED: daemon_metrics.THROTTLED_SECONDS.histogram(registry),
        }
        self._by_partition = True
        self._of_last_cycle: tuple[Metric, ...] = ()  # replaced as a whole
        registry.register(self)

    def observe_request(self, api: str, result: str, seconds: float) -> None:
        """Records how long a request took. Times that are not Kafka's (see `LOOK_TO_REQUEST` and
        `THROTTLED`) have a metric of their own."""
        histogram = self._measured_apart.get(api)
        (histogram or self._request_seconds.labels(api, result)).observe(seconds)

    def restore(self, last: LastComplete | None) -> None:
        """Shows the last complete cycle of an earlier process; None if there was none."""
        self.daemon.cluster_id = last.cluster_id if last else ""
        self.daemon.last_complete_s = last.planned_at_ms / 1000 if last else 0

    def observe_config(self, config: Config) -> None:
        """Shows the configuration that is in force from the next cycle on."""
        self.daemon.interval_s = config.schedule.interval_ms / 1000
        self.daemon.cluster_name = config.metrics.cluster or ""
        self.daemon.unreadable = config.unreadable
        keep_ms = config.audit.keep_ms
        self.daemon.audit_keep_s = None if keep_ms is None else keep_ms / 1000
        self.daemon.audit_max_bytes = config.audit.max_bytes
        self._by_partition = config.metrics.partitions
        if not self._of_last_cycle:
            self.daemon.dry_run = config.dry_run

    def restore_held(self, held: Iterable[Held]) -> None:
        """Goes on from the holds that an earlier process has observed."""
        self._held_since.restore(held, self._clock())

    def held(self) -> tuple[Held, ...]:
        return self._held_since.held(self._clock())

    def observe_failure(self) -> None:
        """Counts a cycle that failed before it had a plan. The last plan's metrics stay."""
        self.cycles.labels("failed").inc()

    def observe_cycle(self, report: CycleReport) -> None:
        self.cycles.labels(report.result).inc()
        for step, seconds in report.seconds.items():
            self._cycle_seconds.labels(step).observe(seconds)
        self._cycle_seconds.labels("all").observe(sum(report.seconds.values()))
        for seconds in report.evidence_ages_s:
            self._evidence_age.observe(seconds)
        plan = report.plan
        if plan.cluster_id != self.daemon.cluster_id:
            self.restore(LastComplete(plan.cluster_id, 0))
        if report.result == "ok":
            self.daemon.last_complete_s = plan.planned_at_ms / 1000
        self.daemon.dry_run = plan.dry_run
        self.daemon.paused = plan.paused is not None
        self._totals.add(report)
        now_s = self._clock()
        self._held_since.add(plan, now_s)
        figures = CycleFigures(
            report,
            self._totals,
            self._held_since.longest_by_topic(now_s),
            self._held_since.longest_by_group(now_s),
        )
        self._of_last_cycle = tuple(
            metric.family(figures)
            for metric in CYCLE_METRICS
            if self._by_partition or "partition" not in metric.labels
        )

    def collect(self) -> Iterator[Metric]:
        """The families of the last report are the same objects until the next cycle, so that their
        text is rendered once."""
        yield from (metric.family(self.daemon) for metric in DAEMON_METRICS)
        yield from self._of_last_cycle


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
        return b"".join(rendered.text for rendered in now.values()) + end
