"""``docs/metrics.md``: every metric, from its definition."""

from __future__ import annotations

from collections.abc import Iterator

from retentiond.observe.definitions import ALL, Definition

HEAD = """# Metrics

`/metrics` shows these to Prometheus, as text or in the OpenMetrics format. Whatever belongs to a
topic, group or partition is made anew from each cycle's report: what is gone leaves no stale
series. A figure that is not known has no series either, and is never 0 in its place.

`deploy/prometheus/` has a scrape configuration, recording rules and alerts ([runbook](runbook.md)),
and `deploy/grafana/` a dashboard.

| metric | type | labels | what it says |
| --- | --- | --- | --- |
"""

FOOT = """
## The margin before Kafka's own retention

`retentiond_forced_retention_margin_seconds` tells how long a group may go on as it is before it
loses records. Kafka deletes a segment when the largest time stamp in it is older than
`retention.ms`, and segments go from the oldest on. So no record goes before the largest time stamp
up to it is that old, and that moment is what the margin counts down to.

- It is found with look-ups by time, which need no right to read records. What was looked up is
  kept, so that most cycles ask little or nothing. The margin shown is never too large, and a
  twentieth, or a second, too small at most; after a start it may take a few cycles until it is.
- Of several partitions the one in the greatest danger is shown.
- A negative margin is loss: Kafka may delete, or has deleted, what the group has not read. Where
  it is gone already, the margin is -1 unless it was seen to come.
- There is no series where the group has read everything, where `retention.ms` is -1 or the topic
  is not deleted from by age, and for a group that has no commit on any partition. A partition
  without a commit of the group is left out; it shows in `retentiond_partitions` as a hold.
- A group that vanished counts with its last known commits.
- `retention.bytes` may delete earlier: no margin knows of that before it has happened.

## What one group keeps

`retentiond_binding_group_lag_records` counts the records that would be free to go if that group
alone were not there. On each partition these lie between the commit of the group that binds it and
the next bound: another group's commit, the consumed retention or the end. So the figures of
several groups can be added up, and a group that keeps nothing by itself shows 0.
"""


def page() -> str:
    return HEAD + "".join(f"| {' | '.join(_cells(each))} |\n" for each in ALL) + FOOT


def _cells(of: Definition) -> Iterator[str]:
    yield f"`{of.name}`"
    yield of.type
    yield ", ".join(f"`{label}`" for label in of.labels)
    yield of.help.replace("|", "\\|")
