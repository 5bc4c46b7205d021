"""``docs/metrics.md``: every metric, from its definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from retentiond.tell.metrics.definition import Definition
from retentiond.tell.metrics.registry import ALL

HEAD = """# Metrics

`/metrics` serves these series in Prometheus' text format or in OpenMetrics. Each cycle that ends
with a report replaces all series of topics, groups and partitions. So a topic, group or partition
that no longer exists leaves no series. A failed cycle has no report: these series then keep the
values of the last cycle that had one, and `retentiond_ready` falls to 0 once no cycle was complete
for three intervals or, if that is longer, for three times what a cycle takes. An unknown figure has
no series; it is never shown as 0.

`deploy/prometheus/` has a scrape configuration, recording rules and alerts ([runbook](runbook.md)),
and `deploy/grafana/` a dashboard. [Several clusters](kubernetes.md#several-clusters) says how rules
and dashboard distinguish daemons and clusters.

The series with the label `partition` are absent with `metrics.partitions: false`.

| metric | type | labels | what it says |
| --- | --- | --- | --- |
"""

FOOT = """
## The margin before Kafka's own retention

`retentiond_forced_retention_margin_seconds` is the time that a group has left before it loses
records, if it goes on lagging as it does. Kafka deletes a segment when the largest timestamp in it
is older than `retention.ms`, the oldest segments first. So a record stays until it and all records
before it are older than `retention.ms`. The margin counts down to that moment.

- retentiond finds it by look-ups of time, which need no right to read records. It keeps the
  answers, so that most cycles send few requests or none. The margin that is shown may be too
  small, by a twentieth or by a second, whichever is more. After a start it takes a few cycles until
  it is that exact.
- The margin is a lower bound, except for a moment after the record it rests on was deleted: until
  a look-up confirms or corrects it, mostly in the same cycle.
- The series shows the smallest margin of all partitions.
- A negative margin is loss: Kafka may delete, or has deleted, what the group has not read. If
  the records are gone already, the margin is -1, unless earlier cycles had seen the loss coming.
- There is no series
    - if the group has no lag, or no commit on any partition;
    - if `retention.ms` is -1, or the topic's `cleanup.policy` lacks `delete`;
    - if the topic is tiered, because a look-up would read remotely.
- A partition without a commit of the group is left out. `retentiond_partitions` shows it as a hold.
- A group that has vanished counts with its last known committed offsets.
- `retention.bytes` may delete records earlier. The margin includes that only once it has happened.

## What one group keeps

`retentiond_binding_group_lag_records` counts the records that could be deleted if this group did
not exist. On each partition that the group binds, these records lie between the group's committed
offset and the next bound: another group's committed offset, the consumed retention or the end. So
you can add up the figures of several groups, and a group that keeps nothing by itself shows 0.
"""


def page() -> str:
    return HEAD + "".join(f"| {' | '.join(_cells(each))} |\n" for each in ALL) + FOOT


def _cells(of: Definition[Any]) -> Iterator[str]:
    yield f"`{of.name}`"
    yield of.type
    yield ", ".join(f"`{label}`" for label in of.labels)
    yield of.help.replace("|", "\\|")
