"""From the star's Arrow tables to DataFrames: in one part each where that is quicker.

A table in parts is counted by several tasks, which then exchange what they have found, and what is
joined to it goes to each of them first, in a job of its own. That pays for many commits only.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from retentiond.plan.star import Star

FEW_COMMITS = 2_000_000
"""Fewer are counted by one task before several have exchanged anything."""


def frames(session: SparkSession, tables: Star[pa.Table]) -> Star[DataFrame]:
    """The tables as DataFrames of the same grain and columns."""
    made = tables.map(session.createDataFrame)
    if tables.commits.num_rows >= FEW_COMMITS:
        return made
    return replace(made.map(lambda table: table.coalesce(1)), in_one_part=True)


def small(table: DataFrame, star: Star[DataFrame]) -> DataFrame:
    """A table of few rows, to be joined to a larger one of the star."""
    return table.hint("shuffle_hash") if star.in_one_part else F.broadcast(table)
