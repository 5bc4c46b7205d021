"""The history of one cluster over a time, as DataFrames.

Where Spark and the table's folder are on the same host, Spark reads the files of the table's
snapshot. Else its workers read them with pyarrow, so that neither Hadoop's jars nor their
credentials are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from retentiond.errors import HistoryUnavailable, UsageError
from retentiond.history.schema import SCHEMA, RowKind
from retentiond.history.table import (
    STORE,
    HistoryFile,
    HistoryTable,
    explained,
    is_remote,
    quoted,
    shown,
)
from retentiond.history.timeline import Moment, Timeline, read_entries, timeline
from retentiond.model import Reason
from retentiond.spark.packaging import show_pandas
from retentiond.spark.session import SPARK_FAILURES

SPARK_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", "UTC"): "timestamp",
}

DAY_MS = 86_400_000


class EntrySelection(NamedTuple):
    """Of the rows of a topic: those of these entries, both included."""

    topic: str
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class Past:
    """``other_clusters``: ids of those whose entries stand in the same table, and are left out.
    ``topic_ids``: grain topic, topic_id; columns: those, as strings, and first_entry: long.
    ``is_local``: Spark itself can read the files."""

    table: HistoryTable
    files: tuple[HistoryFile, ...]
    cluster_id: str
    other_clusters: tuple[str, ...]
    timeline: Timeline
    topic_ids: pa.Table
    is_local: bool

    @property
    def recorded_rows(self) -> int:
        """Of all kinds, in the files of that time; without those that somebody else has written."""
        return sum(each.rows or 0 for each in self.files)

    def commits_at(self, topic: str, first: Moment, last: Moment) -> EntrySelection:
        """What tells all commits on the topic that are in force from one moment to another: from
        the last entry before in which all of them stand."""
        before = self.timeline.moments[: first.number + 1]
        begin = next((each for each in reversed(before) if each.entry.is_whole), before[0])
        return EntrySelection(topic, begin.entry.entry, last.entry.entry)

    def rows(
        self,
        session: SparkSession,
        kind: RowKind,
        columns: Sequence[str],
        selections: Sequence[EntrySelection] | None = None,
    ) -> DataFrame:
        """The rows of a kind within the timeline. Columns: ``entry``, and those.
        ``selections``: where given, no others; at most one of each topic, and ``columns`` has the
        topic then."""
        moments = self.timeline.moments
        first, last = moments[0].entry.entry, moments[-1].entry.entry
        if selections:
            first = min(each.first_entry for each in selections)
            last = max(each.last_entry for each in selections)
        files = [
            each
            for each in self.files
            if each.first_entry is None
            or each.last_entry is None
            or (each.first_entry <= last and each.last_entry >= first)
        ]
        if self.is_local:
            ddl = ", ".join(f"`{each.name}` {SPARK_TYPES[each.type]}" for each in SCHEMA)
            every = session.read.schema(ddl).parquet(*self.table.uris(files))
        else:
            named = ["entry", "kind", "cluster_id", *columns]
            every = self._read_by_workers(session, files, kind, named)
        wanted = (
            (F.col("kind") == kind.value)
            & (F.col("cluster_id") == self.cluster_id)
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

    def _read_by_workers(
        self,
        session: SparkSession,
        chosen: Sequence[HistoryFile],
        kind: RowKind,
        columns: Sequence[str],
    ) -> DataFrame:
        place, wanted, named = self.table.place, kind.value, list(columns)
        unreadable = UNREADABLE
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


def history_at(place: str | Path) -> HistoryTable:
    """Raises `UsageError` where there is none, `HistoryUnavailable` where it can't be read."""
    try:
        return HistoryTable.open(place)
    except HistoryUnavailable as error:
        if error.kind == "missing":
            raise UsageError(f"{error}: {HOW_TO_BEGIN}") from error
        raise


def open_past(  # noqa: PLR0917
    table: HistoryTable,
    master: str,
    since_ms: int,
    until_ms: int,
    lookback_ms: int = 0,
    options: str = "--since",
) -> Past:
    """What the history says of that period, of the cluster with the newest entry; and what
    ``lookback_ms`` before it says. ``master``: where Spark works. ``options``: those that say which
    period it is.

    Raises `UsageError` where there is nothing, `HistoryUnavailable` where it can't be read.
    """
    days = [_day(since_ms - lookback_ms - DAY_MS), _day(until_ms)]
    files = table.files(since_day=days[0], until_day=days[1])
    cycles = _cycles(table, *days)
    within = cycles.filter(pc.less_equal(cycles["at"], pa.scalar(_time(until_ms))))
    if not within.num_rows:
        raise UsageError(
            f"the history in {table.place} has no entry of that time: {HOW_TO_BEGIN}, or choose "
            f"another {options}"
        )
    newest = within.sort_by([("at", "descending")])["cluster_id"][0].as_py()
    own = read_entries(within.filter(pc.equal(within["cluster_id"], newest)))
    others = sorted(set(within["cluster_id"].to_pylist()) - {newest})
    found = timeline(own, since_ms, until_ms, lookback_ms)
    if not found.period:
        raise UsageError(
            f"the history in {table.place} has no entry of that time; its newest is of "
            f"{_time(own[-1].at_ms):%Y-%m-%d %H:%M} UTC: choose another {options}"
        )
    first, last = found.moments[0].entry.entry, found.moments[-1].entry.entry
    topic_ids = _queried(
        table,
        "SELECT topic, topic_id, min(entry) AS first_entry FROM history "
        f"WHERE {_of(RowKind.PARTITION, *days)} AND cluster_id = {quoted(newest)} "
        f"AND entry BETWEEN {first} AND {last} GROUP BY topic, topic_id",
    )
    return Past(
        table,
        tuple(each for each in files if each.cluster_id in (None, newest)),
        newest,
        tuple(others),
        found,
        topic_ids,
        is_local=master.startswith("local") and not is_remote(table.place),
    )


def never_deletable(past: Past) -> frozenset[str]:
    """Topics of which every row says `Reason.NOT_DELETABLE`, or that the topic was not read."""
    entries = [each.entry for each in past.timeline.moments]
    days = [_day(bound(each.at_ms for each in entries)) for bound in (min, max)]
    held, unread = quoted(Reason.NOT_DELETABLE.value), quoted(Reason.OFFSET_UNREADABLE.value)
    found = _queried(
        past.table,
        "SELECT topic FROM history "
        f"WHERE {_of(RowKind.PARTITION, *days)} AND cluster_id = {quoted(past.cluster_id)} "
        f"AND entry BETWEEN {entries[0].entry} AND {entries[-1].entry} GROUP BY topic "
        f"HAVING bool_or(coalesce(reason, '') = {held}) "
        f"AND bool_and(coalesce(reason, '') IN ({held}, {unread}))",
    )
    return frozenset(found["topic"].to_pylist())


UNREADABLE = "the history can't be read here: "
"""How a worker's error begins, in the midst of all that Spark says of it."""


@contextmanager
def workers_explained(place: str) -> Iterator[None]:
    """Raises `HistoryUnavailable` where a worker of Spark could not read the history, as long as
    the session lives: its errors are without words afterwards."""
    try:
        yield
    except SPARK_FAILURES as error:
        _, found, said = str(error).partition(UNREADABLE)
        if not found:
            raise
        raise HistoryUnavailable(
            f"a worker of Spark can't read the history in {place} "
            f"({shown(said.splitlines()[0])}); see that its environment has the store's "
            "credentials, or that the folder is there",
            kind="unreachable",
        ) from None


def _cycles(table: HistoryTable, since_day: str, until_day: str) -> pa.Table:
    columns = ["entry", "at", "cluster_id", "complete", "dry_run"]
    columns += ["observed_ms", "read_ms", "is_whole"]
    where = _of(RowKind.CYCLE, since_day, until_day)
    return _queried(table, f"SELECT {', '.join(columns)} FROM history WHERE {where}")


def _of(kind: RowKind, since_day: str, until_day: str) -> str:
    days = f"{quoted(since_day)} AND {quoted(until_day)}"
    return f"kind = {quoted(kind.value)} AND day BETWEEN {days}"


def _queried(table: HistoryTable, sql: str) -> pa.Table:
    """What is small, in a tenth of the time that Spark takes for it."""
    found = table.query(sql)
    with explained(table.place):
        rows = found.read_all()
        types = {"at": pa.timestamp("us", "UTC"), **TEXTS}
        return rows.cast(
            pa.schema([(each.name, types.get(each.name, each.type)) for each in rows.schema])
        )


TEXTS = dict.fromkeys(("cluster_id", "topic", "topic_id"), pa.string())

HOW_TO_BEGIN = "the daemon (retentiond run) writes it while history.enabled is true"


def _day(epoch_ms: int) -> str:
    return _time(epoch_ms).strftime("%Y-%m-%d")


def _time(epoch_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=max(0, epoch_ms))
