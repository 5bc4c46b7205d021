"""The snapshots that deciding is measured on."""

from __future__ import annotations

from collections import defaultdict

from devkit.bench.decisions import RECORDS, minima_and_cutoffs, snapshot


def test_a_measured_snapshot_is_healthy_and_its_minima_are_known() -> None:
    world = snapshot(partitions=40, groups_each=3)
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for row in world.commits.to_pylist():
        offsets[row["partition_id"]].append(row["offset"])
    assert {len(each) for each in offsets.values()} == {3}
    found = minima_and_cutoffs(world).sort_by("partition_id").to_pylist()
    assert [row["offset_min"] for row in found] == [min(offsets[at]) for at in range(40)]
    assert [row["cutoff"] for row in found] == [min(*offsets[at], RECORDS) for at in range(40)]
