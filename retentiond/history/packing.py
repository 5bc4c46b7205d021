"""How the history's Parquet files are written, so that they are small and row groups can be
skipped."""

from __future__ import annotations

import pyarrow as pa
from deltalake import ColumnProperties, WriterProperties

from retentiond.history.schema import SCHEMA


def _properties() -> WriterProperties:
    deltas = ColumnProperties(
        encoding="DELTA_BINARY_PACKED", dictionary_enabled=False, statistics_enabled="CHUNK"
    )
    whole = {pa.int64(), pa.int32()}
    return WriterProperties(
        compression="ZSTD",
        max_row_group_size=ROW_GROUP,
        column_properties={field.name: deltas for field in SCHEMA if field.type in whole},
        default_column_properties=ColumnProperties(
            dictionary_enabled=True, statistics_enabled="CHUNK"
        ),
    )


FILE_SCHEMA = SCHEMA.remove(SCHEMA.get_field_index("day"))
"""The columns in a file. The day is in the file's path and in the table's log."""

ROW_GROUP = 128 * 1024
"""Most rows of a row group: few enough that a query skips many, enough for good compression."""

PACKED = {
    "compression": "zstd",
    "use_dictionary": [
        field.name for field in FILE_SCHEMA if field.type == pa.string() or field.name == "at"
    ],
    "column_encoding": {
        field.name: "DELTA_BINARY_PACKED"
        for field in FILE_SCHEMA
        if field.type in (pa.int64(), pa.int32())
    },
    "store_schema": False,
}
"""How a merged day is written. All rows of an entry have the same time, so it has a dictionary."""

WRITER = _properties()
