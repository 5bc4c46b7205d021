"""How Spark reads the past, and the Spark session of a question.

If Spark and the table's folder are on the same host, Spark itself reads the table's files. If not,
its workers read them with pyarrow, so that neither Hadoop's jars nor their credentials are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from retentiond.config import Spark
from retentiond.errors import HistoryUnavailable
from retentiond.history.ask.past import EntrySelection, Past
from retentiond.history.place import AS_NAMED, shown, store_options
from retentiond.history.schema import SCHEMA, RowKind
from retentiond.history.table import HistoryFile
from retentiond.spark.session import CONNECT_SCHEME, SPARK_FAILURES, SparkSessions
from retentiond.spark.tuning import LARGE_PLANS, show_pandas

QUESTION_TIMEOUT_S = 24 * 3600.0
"""Practically no limit: the operator who asks can end the command."""

JVM_END_S = 10.0
"""How long the JVM may take to remove its files on disk, which are larger than a plan's."""

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

LARGE_JOBS = {
    SHUFFLE_PARTITIONS: "32",
    # So many moments of a log stay in memory. With Spark's default, they would go to disk.
    "spark.sql.windowExec.buffer.in.memory.threshold": "50000",
    "spark.sql.files.maxPartitionBytes": "16m",
    # Rows that are partitioned by topic are joined without a shuffle, also by finer keys.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}

ROWS_PER_PARTITION = 4_000_000
"""Rows of all kinds for each of Spark's partitions. Spark sorts only the rows of kind partition,
and so many of them fit into memory."""

FEWEST_PARTITIONS = 4

SPARK_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", "UTC"): "timestamp",
}

UNREADABLE_PREFIX = "the history can't be read here: "
"""Marks a worker's own message within Spark's error."""


def sessions_for(spark: Spark) -> SparkSessions:
    conf = {**LARGE_JOBS, **spark.conf}
    return SparkSessions(
        spark.master, conf, driver=LARGE_PLANS, exit_s=JVM_END_S, timeout_s=QUESTION_TIMEOUT_S
    )


def divide(session: SparkSession, spark: Spark, rows: int) -> None:
    """Sets the number of Spark's shuffle partitions by the number of rows, unless the settings do:
    even an empty partition takes time, and one that is too large spills to disk."""
    if SHUFFLE_PARTITIONS not in spark.conf:
        session.conf.set(
            SHUFFLE_PARTITIONS, str(max(FEWEST_PARTITIONS, -(-rows // ROWS_PER_PARTITION)))
        )


class Tasks(NamedTuple):
    """How many of Spark's known tasks are done."""

    done: int
    known: int


def tasks_of(session: SparkSession, master: str) -> Callable[[], Tasks]:
    """A function that returns how far the session is, for any thread. Spark Connect doesn't tell
    it."""
    if master.startswith(CONNECT_SCHEME):
        return lambda: Tasks(0, 0)
    stages: dict[int, Tasks] = {}
    tracker = session.sparkContext.statusTracker()

    def look() -> Tasks:
        with suppress(*SPARK_FAILURES):  # the session may be ending
            active = set(tracker.getActiveStageIds())
            for number in active:
                if stage := tracker.getStageInfo(number):
                    stages[number] = Tasks(stage.numCompletedTasks, stage.numTasks)
            for number in stages.keys() - active:
                stages[number] = Tasks(stages[number].known, stages[number].known)
        return Tasks(
            sum(step.done for step in stages.values()), sum(step.known for step in stages.values())
        )

    return look


def recorded_rows(
    past: Past,
    session: SparkSession,
    kind: RowKind,
    columns: Sequence[str],
    selections: Sequence[EntrySelection] | None = None,
) -> DataFrame:
    """The rows of a kind within the timeline. Columns: ``entry`` and ``columns``.

    ``selections``: if given, only these rows; at most one selection for each topic, and ``columns``
    must have the topic.
    """
    moments = past.timeline.moments
    first, last = moments[0].entry.entry, moments[-1].entry.entry
    if selections:
        first = min(selection.first_entry for selection in selections)
        last = max(selection.last_entry for selection in selections)
    files = [
        file
        for file in past.files
        if file.first_entry is None
        or file.last_entry is None
        or (file.first_entry <= last and file.last_entry >= first)
    ]
    if past.is_local:
        ddl = ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in SCHEMA)
        reader = session.read.options(**AS_NAMED).schema(ddl)
        all_rows = reader.parquet(*past.table.uris(files))
    else:
        needed = ["entry", "kind", "cluster_id", *columns]
        all_rows = _read_by_workers(past, session, files, kind, needed)
    wanted = (
        (F.col("kind") == kind.value)
        & (F.col("cluster_id") == past.cluster_id)
        & F.col("entry").between(first, last)
    )
    rows = all_rows.where(wanted).select("entry", *columns)
    if not selections:
        return rows
    table = pa.Table.from_pylist([selection._asdict() for selection in selections])
    return (
        rows.join(F.broadcast(session.createDataFrame(table)), "topic", "inner")
        .where("entry BETWEEN first_entry AND last_entry")
        .select("entry", *columns)
    )


def moments_of(past: Past, session: SparkSession) -> DataFrame:
    """Grain: entry. Columns: entry, order: long; moment: int, its number; next_whole: int, see
    `Timeline.next_whole`; weight?: long, null outside the period; complete: boolean."""
    timeline = past.timeline
    moments = timeline.moments
    return session.createDataFrame(
        pa.table(
            {
                "entry": pa.array([moment.entry.entry for moment in moments], pa.int64()),
                "order": pa.array(map(timeline.order, moments), pa.int64()),
                "moment": pa.array([moment.number for moment in moments], pa.int32()),
                "next_whole": pa.array(timeline.next_whole, pa.int32()),
                "weight": pa.array([moment.weight_ms for moment in moments], pa.int64()),
                "complete": pa.array([moment.entry.complete for moment in moments], pa.bool_()),
            }
        )
    )


def table_of(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """A table of rows whose values are in the order of the schema."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _read_by_workers(
    past: Past,
    session: SparkSession,
    history_files: Sequence[HistoryFile],
    kind: RowKind,
    columns: Sequence[str],
) -> DataFrame:
    place, wanted, names = past.table.place, kind.value, list(columns)
    unreadable = UNREADABLE_PREFIX
    options = store_options(place)
    schema = pa.schema([SCHEMA.field(name) for name in names])

    # Spark sends an inner function by value, so that workers need not have retentiond.
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset  # noqa: PLC0415 - this runs on a worker
        import pyarrow.fs  # noqa: PLC0415
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415

        try:
            for batch in batches:
                paths = batch.column("path").to_pylist()
                sizes = dict(zip(paths, batch.column("size_bytes").to_pylist(), strict=True))
                files = pyarrow.fs.PyFileSystem(DeltaStorageHandler(place, options, sizes))
                dataset = pyarrow.dataset.dataset(
                    paths, schema=schema, format="parquet", filesystem=files
                )
                of_kind = pyarrow.dataset.field("kind") == wanted
                yield from dataset.to_batches(columns=names, filter=of_kind)
        except Exception as error:  # noqa: BLE001 - a store may raise anything
            raise OSError(f"{unreadable}{' '.join(str(error).split())}") from None

    show_pandas()  # PySpark imports pandas here, although nothing uses it
    files = pa.table(
        {
            "path": [file.path for file in history_files],
            "size_bytes": [file.size_bytes for file in history_files],
        }
    )
    ddl = ", ".join(f"`{field.name}` {SPARK_TYPES[field.type]}" for field in schema)
    by_file = session.createDataFrame(files).repartition(max(1, len(history_files)))
    return by_file.mapInArrow(read, ddl)


@contextmanager
def workers_explained(place: str) -> Iterator[None]:
    """Raises `HistoryUnavailable` if a worker of Spark could not read the history. Use it while the
    session lives, because its errors lose their messages afterwards."""
    try:
        yield
    except SPARK_FAILURES as error:
        _, prefix, message = str(error).partition(UNREADABLE_PREFIX)
        if not prefix:
            raise
        raise HistoryUnavailable(
            f"a worker of Spark can't read the history in {place} "
            f"({shown(message.splitlines()[0])}); see that its environment has the store's "
            "credentials, or that the folder is there",
            kind="unreachable",
        ) from None
