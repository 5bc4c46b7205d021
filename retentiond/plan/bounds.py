"""What bounds a deletion: the consumed part, the age, and the end of what is decided.

    cutoff = min(min committed offset, retention offset, end)

Invariant (KIP-68's "-1"): a bound that is not fully known is null, and so is what follows from
it. `least` of Spark ignores nulls and must not be used alone.
"""

from __future__ import annotations

from pyspark.sql import DataFrame


def with_bounds(partitions: DataFrame) -> DataFrame:
    """The partitions with end?, min_committed_offset? and cutoff?: long.

    ``partitions`` has last_stable_offset?, high_watermark?, retention_offset?, and the columns
    of `groups_by_topic` and `commits_by_partition`. The smallest commit is the bound only where
    each relevant group has a readable one.
    """
    end = _least_of_all("last_stable_offset", "high_watermark")
    min_committed_offset = "IF(readable_commits = groups, min_offset, NULL)"
    cutoff = _least_of_all("min_committed_offset", "retention_offset", "end")
    return partitions.selectExpr(
        "*", f"{end} AS end", f"{min_committed_offset} AS min_committed_offset"
    ).selectExpr("*", f"{cutoff} AS cutoff")


def _least_of_all(*names: str) -> str:
    """The smallest value; null if one of them is."""
    every_one = " AND ".join(f"{name} IS NOT NULL" for name in names)
    return f"IF({every_one}, least({', '.join(names)}), NULL)"
