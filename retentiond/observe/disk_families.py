"""The metrics that show the brokers' disks, made from a cycle's report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from retentiond.observe import definitions
from retentiond.observe.report import CycleReport, topic_figures


def disk_families(report: CycleReport) -> Iterator[Metric]:
    """What is not known has no series."""
    size, predicted = (
        definitions.LOG_SIZE.gauge_family(),
        definitions.PREDICTED_BYTES.gauge_family(),
    )
    for each in topic_figures(report):
        if each.size_bytes is not None:
            size.add_metric([each.topic], each.size_bytes)
        if each.predicted_bytes is not None:
            predicted.add_metric([each.topic], each.predicted_bytes)
    yield size
    yield predicted
    stuck = definitions.STUCK_RETENTION.gauge_family()
    counts = Counter((each.at.topic, each.cause.value) for each in report.disk.stuck)
    for labels, count in sorted(counts.items()):
        stuck.add_metric(list(labels), count)
    yield stuck
    number, size = definitions.ORPHAN_COUNT.gauge_family(), definitions.ORPHAN_BYTES.gauge_family()
    for orphans in report.disk.orphans:
        number.add_metric([str(orphans.broker), orphans.log_dir], orphans.partitions)
        size.add_metric([str(orphans.broker), orphans.log_dir], orphans.size_bytes)
    yield number
    yield size
