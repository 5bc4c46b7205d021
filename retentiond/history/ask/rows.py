"""What Spark reads of the past, and the session that a question is asked in.

Where Spark and the table's folder are on the same host, Spark reads the files of the table's
snapshot. Else its workers read them with pyarrow, so that neither Hadoop's jars nor their
credentials are needed.
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
from retentiond.history.place import STORE, is_remote, shown
from retentiond.history.schema import SCHEMA, RowKind
from retentiond.history.table import HistoryFile
from retentiond.spark.session import CONNECT_SCHEME, SPARK_FAILURES, SparkSessions
from retentiond.spark.tuning import LARGE_PLANS, show_pandas

QUESTION_TIMEOUT_S = 24 * 3600.0
"""A question takes as long as it takes; whoever asks is there to end it."""

JVM_END_S = 10.0
"""How long the JVM may take to remove what it has put on disk, which is more than a plan's."""

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

LARGE_JOBS = {
    SHUFFLE_PARTITIONS: "32",
    # A log's moments are in memory at once, up to so many; else each would be written to disk.
    "spark.sql.windowExec.buffer.in.memory.threshold": "50000",
    "spark.sql.files.maxPartitionBytes": "16m",
    # Rows that are together by topic are joined there, also by topic, partition and moment.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}

ROWS_PER_PARTITION = 4_000_000
"""Rows of all kinds. Spark sorts only the partitions' rows among them, and these fit into
memory."""

FEWEST_PARTITIONS = 4

SPARK_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", "UTC"): "timestamp",
}

UNREADABLE_PREFIX = "the history can't be read here: "
"""How a worker's error begins, in the midst of all that Spark says of it."""


def sessions_for(spark: Spark) -> SparkSessions:
    conf = {**LARGE_JOBS, **spark.conf}
    return SparkSessions(
        spark.master, conf, driver=LARGE_PLANS, exit_s=JVM_END_S, timeout_s=QUESTION_TIMEOUT_S
    )


def divide(session: SparkSession, spark: Spark, rows: int) -> None:
    """Into as many parts as so many rows of history are worth, unless the settings say: each part
    takes its time, also an empty one, and one that is too large goes by the disk."""
    if SHUFFLE_PARTITIONS not in spark.conf:
        session.conf.set(
            SHUFFLE_PARTITIONS, str(max(FEWEST_PARTITIONS, -(-rows // ROWS_PER_PARTITION)))
        )


class Tasks(NamedTuple):
    """How many of Spark's tasks are done by now, of how many that are known."""

    done: int
    known: int


def tasks_of(session: SparkSession, master: str) -> Callable[[], Tasks]:
    """Tells how far the session is, from any thread; Spark Connect's server does not."""
    if master.startswith(CONNECT_SCHEME):
        return lambda: Tasks(0, 0)
    stages: dict[int, Tasks] = {}
    tracker = session.sparkContext.statusTracker()

    def look() -> Tasks:
        with suppress(*SPARK_FAILURES):  # it may be ending
            active = set(tracker.getActiveStageIds())
            for number in active:
                if stage := tracker.getStageInfo(number):
                    stages[number] = Tasks(stage.numCompletedTasks, stage.numTasks)
            for number in stages.keys() - active:
                stages[number] = Tasks(stages[number].known, stages[number].known)
        return Tasks(
            sum(each.done for each in stages.values()), sum(each.known for each in stages.values())
        )

    return look


def recorded_rows(
    past: Past,
    session: SparkSession,
    kind: RowKind,
    columns: Sequence[str],
    selections: Sequence[EntrySelection] | None = None,
) -> DataFrame:
    """The rows of a kind within the timeline. Columns: ``entry``, and those.
    ``selections``: where given, no others; at most one of each topic, and ``columns`` has the
    topic then."""
    moments = past.timeline.moments
    first, last = moments[0].entry.entry, moments[-1].entry.entry
    if selections:
        first = min(each.first_entry for each in selections)
        last = max(each.last_entry for each in selections)
    files = [
        each
        for each in past.files
        if each.first_entry is None
        or each.last_entry is None
        or (each.first_entry <= last and each.last_entry >= first)
    ]
    if past.is_local:
        ddl = ", ".join(f"`{each.name}` {SPARK_TYPES[each.type]}" for each in SCHEMA)
        every = session.read.schema(ddl).parquet(*past.table.uris(files))
    else:
        named = ["entry", "kind", "cluster_id", *columns]
        every = _read_by_workers(past, session, files, kind, named)
    wanted = (
        (F.col("kind") == kind.value)
        & (F.col("cluster_id") == past.cluster_id)
        & F.col("entry").between(first, last)
    )
    rows = every.where(wanted).select("entry", *columns)
    if not selections:
        return rows
    table = pa.Table.from_pylist([each._asdict() for each in selections])
    return (
        rows.join(F.broadcast(session.createDataFrame(table)), "topic", "inner")
        .where("entry BETWEEN first_entry AND last_entry")
        .select("entry", *columns)
    )


def table_of(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Rows whose values stand in the order of the columns."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _read_by_workers(
    past: Past,
    session: SparkSession,
    chosen: Sequence[HistoryFile],
    kind: RowKind,
    columns: Sequence[str],
) -> DataFrame:
    place, wanted, named = past.table.place, kind.value, list(columns)
    unreadable = UNREADABLE_PREFIX
    options = dict(STORE) if is_remote(place) else None
    schema = pa.schema([SCHEMA.field(name) for name in named])

    # A function within a function travels as it is: workers need not have retentiond.
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset  # noqa: PLC0415 - it runs on a worker
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
                yield from dataset.to_batches(columns=named, filter=of_kind)
        except Exception as error:  # noqa: BLE001 - whatever a store raises
            raise OSError(f"{unreadable}{' '.join(str(error).split())}") from None

    show_pandas()  # which PySpark wants here, although nothing uses it
    files = pa.table(
        {
            "path": [each.path for each in chosen],
            "size_bytes": [each.size_bytes for each in chosen],
        }
    )
    ddl = ", ".join(f"`{each.name}` {SPARK_TYPES[each.type]}" for each in schema)
    by_file = session.createDataFrame(files).repartition(max(1, len(chosen)))
    return by_file.mapInArrow(read, ddl)


@contextmanager
def workers_explained(place: str) -> Iterator[None]:
    """Raises `HistoryUnavailable` where a worker of Spark could not read the history, as long as
    the session lives: its errors are without words afterwards."""
    try:
        yield
    except SPARK_FAILURES as error:
        _, found, said = str(error).partition(UNREADABLE_PREFIX)
        if not found:
            raise
        raise HistoryUnavailable(
            f"a worker of Spark can't read the history in {place} "
            f"({shown(said.splitlines()[0])}); see that its environment has the store's "
            "credentials, or that the folder is there",
            kind="unreachable",
        ) from None
