"""From the star's Arrow tables to DataFrames: in one part each where that is quicker.

A table in parts is counted by several tasks, which then exchange what they have found. That pays
for many commits only.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from retentiond.plan.star import Star

FEW_COMMITS = 500_000
"""Fewer are counted by one task before several have exchanged anything."""


def frames(session: SparkSession, tables: Star[pa.Table]) -> Star[DataFrame]:
    """The tables as DataFrames of the same grain and columns."""
    made = tables.map(session.createDataFrame)
    if tables.commits.num_rows >= FEW_COMMITS:
        return made
    return replace(
        made,
        partitions=made.partitions.coalesce(1),
        commits=made.commits.coalesce(1),
        remembered=None if made.remembered is None else made.remembered.coalesce(1),
    )
