"""The Delta table of the history: how it is opened, read, appended to, and how files are replaced.

Invariants:

- A commit of the table's log makes an entry, or a merged file, visible as a whole. A process that
  dies between two commits leaves only files that no commit refers to.
- A file has rows of one cluster and one day.
- A commit names its cluster's last entry. So if two processes write for one cluster, the second
  fails.

All methods but `HistoryTable.replace` use only calls of deltalake that release Python's lock,
because an object store may take minutes to answer.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    QueryBuilder,
    Schema,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from retentiond.clock import now_ms
from retentiond.errors import HistoryUnavailable
from retentiond.formatting import HOUR_MS
from retentiond.history.place import (
    damage_by_size,
    damage_of_error,
    errors_explained,
    is_remote,
    location,
    panics_raised,
    store_options,
    uri_for_spark,
)
from retentiond.history.schema import FILE_SCHEMA, PACKED, ROW_GROUP, SCHEMA, WRITER

if TYPE_CHECKING:
    import pyarrow.fs as pafs

TABLE_SETTINGS = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
}
"""Settings that keep the log small and quick to read, however many entries there are."""

T = TypeVar("T")

AFTER_EVERY_DAY = "~"  # sorts after every day


class HistoryFile(NamedTuple):
    """A file of the table. ``path``: below the table's folder. ``cluster_id`` and the entries are
    None for a file that retentiond has not written."""

    path: str
    day: str
    cluster_id: str | None
    first_entry: int | None
    last_entry: int | None
    rows: int | None
    size_bytes: int


class HistoryTable:
    """The table at a place, as of the last `refresh`. All methods raise `HistoryUnavailable`."""

    def __init__(self, table: DeltaTable, place: str) -> None:
        self._table = table
        known = {field.name for field in table.schema().fields}
        if known - set(SCHEMA.names) or not all(field.nullable for field in self._missing):
            raise HistoryUnavailable(
                f"the history in {place} was begun by a version of retentiond with other columns; "
                "run that version, or move the history away to begin a new one",
                kind="another schema",
            )
        self._checked_whole = False
        self.place = place
        self.damaged: dict[str, str] = {}
        """Why files are left out, by their paths. A damaged file is known once a query has met
        it."""

    @property
    def _missing(self) -> list[pa.Field]:
        """The columns that a table of an earlier version lacks: null in all of its rows."""
        known = {field.name for field in self._table.schema().fields}
        return [field for field in SCHEMA if field.name not in known]

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """``path``: a folder, or an object store's URL."""
        place = location(path)
        with errors_explained(place):
            return cls(DeltaTable(place, storage_options=store_options(place)), place)

    @classmethod
    def open_or_create(cls, path: str | Path) -> Self:
        """For a process that writes: a table of an earlier version gets the columns of this one."""
        place = location(path)
        with errors_explained(place):
            if not is_remote(place):
                Path(place).mkdir(parents=True, exist_ok=True)
            table = DeltaTable.create(
                place,
                SCHEMA,
                mode="ignore",
                partition_by="day",
                configuration=TABLE_SETTINGS,
                storage_options=store_options(place),
            )
            opened = cls(table, place)
            if missing := opened._missing:
                with suppress(CommitFailedError):  # another daemon adds them at the same time
                    table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
                opened.refresh()
            return opened

    def refresh(self) -> None:
        with errors_explained(self.place):
            self._table.update_incremental()

    def last_entry(self, cluster_id: str) -> int:
        """The number of the cluster's last entry; 0 if it has none."""
        with errors_explained(self.place):
            return self._table.transaction_version(cluster_id) or 0

    def clusters(self) -> frozenset[str]:
        with errors_explained(self.place):
            clusters = {file.cluster_id for file in self._all_files()}
        return frozenset(cluster for cluster in clusters if cluster is not None)

    def files(
        self,
        cluster_id: str | None = None,
        *,
        since_day: str = "",
        until_day: str = AFTER_EVERY_DAY,
    ) -> tuple[HistoryFile, ...]:
        """The files of a cluster, or of all clusters, sorted by day and entry, without those that
        are known to be damaged. Days are ``YYYY-MM-DD``, both included."""
        with errors_explained(self.place):
            sound = (file for file in self._all_files() if file.path not in self.damaged)
            files = [file for file in sound if since_day <= file.day <= until_day]
        files.sort(key=lambda file: (file.day, file.first_entry or 0, file.path))
        return tuple(file for file in files if cluster_id in (None, file.cluster_id))

    def damaged_files(self, cluster_id: str | None = None) -> tuple[HistoryFile, ...]:
        with errors_explained(self.place):
            damaged = [file for file in self._all_files() if file.path in self.damaged]
        return tuple(file for file in damaged if cluster_id in (None, file.cluster_id))

    @property
    def damage(self) -> str | None:
        """A sentence about what is left out, or None."""
        if not self.damaged:
            return None
        (path, why), more = next(iter(self.damaged.items())), len(self.damaged) - 1
        and_more = f", and so are {more} more files" if more else ""
        return (
            f"{self.place.rstrip('/')}/{path} of the history is left out: {why}{and_more}; the "
            "rest is used. Bring it back from a backup, or leave it as it is"
        )

    def _all_files(self) -> Iterator[HistoryFile]:
        actions = pa.table(self._table.get_add_actions(flatten=True))
        names = (
            "path",
            "partition.day",
            "min.cluster_id",
            "min.entry",
            "max.entry",
            "num_records",
            "size_bytes",
        )
        columns = [
            actions[name].to_pylist() if name in actions.column_names else [None] * len(actions)
            for name in names
        ]
        return map(HistoryFile, *columns)

    def uris(self, files: Iterable[HistoryFile]) -> list[str]:
        """The files as Spark takes them: without the column ``day``, which is in their path."""
        return [uri_for_spark(f"{self.place.rstrip('/')}/{file.path}") for file in files]

    def query(self, sql: str) -> pa.Table:
        """The rows of a query in DataFusion's SQL, where the table's name is ``history``. Damaged
        files are left out, and are in `damaged` afterwards."""
        with errors_explained(self.place):
            return self._retried(lambda: self._queried(sql))

    def _queried(self, sql: str) -> pa.Table:
        condition = self._without_damaged(" WHERE ")
        missing = "".join(f', NULL AS "{field.name}"' for field in self._missing)
        if condition or missing:
            sound = f"(SELECT *{missing} FROM history{condition}) AS history"
            sql = sql.replace("FROM history", f"FROM {sound}")
        with panics_raised():
            return self._stream(sql).read_all()

    def _stream(self, sql: str) -> pa.RecordBatchReader:
        result = QueryBuilder().register("history", self._table).execute(sql)
        return pa.RecordBatchReader.from_stream(result)

    def _without_damaged(self, first_word: str) -> str:
        """A condition that leaves out the entries of damaged files, so that these are not opened.
        Empty if no file is damaged."""
        return "".join(
            f"{first_word if not number else ' AND '}"
            f"NOT (cluster_id = {quoted(file.cluster_id or '')}"
            f" AND entry >= {file.first_entry} AND entry <= {file.last_entry})"
            for number, file in enumerate(self.damaged_files())
        )

    def _retried(self, read: Callable[[], T]) -> T:
        """Reads, and if a file turns out to be damaged, reads again without it."""
        while True:
            try:
                return read()
            except Exception:
                if not self.find_damage():
                    raise

    def check_sizes(self) -> None:
        """Looks for files of a folder that are missing or have another size."""
        with errors_explained(self.place):
            for file in self.files():
                if why := self._damage_by_size(file):
                    self.damaged[file.path] = why

    def _damage_by_size(self, file: HistoryFile) -> str | None:
        """Why a file of a folder is damaged, by its size. An object store is not asked for it."""
        if is_remote(self.place):
            return None
        return damage_by_size(Path(self.place, file.path), file.size_bytes)

    def find_damage(self) -> bool:
        """Looks for damaged files, by sizes and footers, and if these are sound, by reading all
        data. Returns whether it has found a new one. Files without known entries can't be left
        out."""
        with errors_explained(self.place):
            if has_found := self._check_files(columns="kind"):
                return has_found
            if self._checked_whole:
                return False
            self._checked_whole = True
            return self._check_files(columns="*")

    def _check_files(self, columns: str) -> bool:
        """Reads these columns of all files, and returns whether a new one is damaged. Files with
        the fewest entries come first: a file that was merged from the sound ones of a day spans
        the entries of the damaged ones, too."""
        known = len(self.damaged)
        spans: list[tuple[int, HistoryFile]] = []
        for file in self.files():
            if file.cluster_id is not None and file.first_entry is not None:
                spans.append(((file.last_entry or 0) - file.first_entry, file))
        for _, file in sorted(spans):
            if why := self._damage_of(file, columns):
                self.damaged[file.path] = why
        return len(self.damaged) > known

    def _damage_of(self, file: HistoryFile, columns: str) -> str | None:
        """Why the file is damaged, or None. It is read as queries read it, because another library
        may be more lenient."""
        if why := self._damage_by_size(file):
            return why
        sql = (
            f"SELECT {columns} FROM history WHERE day = {quoted(file.day)}"
            f" AND cluster_id = {quoted(file.cluster_id or '')}"
            f" AND entry >= {file.first_entry} AND entry <= {file.last_entry}"
            f"{self._without_damaged(' AND ')}"
        )
        try:
            with panics_raised():
                for _ in self._stream(sql):
                    pass
        except (OSError, DeltaError, pa.ArrowException, ValueError) as error:
            return damage_of_error(error)
        return None

    def _store(self) -> pafs.FileSystem:
        import pyarrow.fs as pafs  # noqa: PLC0415 - 50 MB that a daemon doesn't need
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 - likewise

        handler = DeltaStorageHandler(self._table.table_uri, store_options(self.place), {})
        return pafs.PyFileSystem(handler)

    def append(self, cluster_id: str, entry: int, rows: pa.Table) -> None:
        """Appends an entry with this number in one commit. ``rows``: `SCHEMA`, of one day."""
        with errors_explained(self.place):
            write_deltalake(
                self._table,
                rows,
                mode="append",
                writer_properties=WRITER,
                commit_properties=_naming_entry(cluster_id, entry),
            )

    def replace(
        self, cluster_id: str, old: Sequence[HistoryFile], row_groups: Iterable[pa.Table]
    ) -> None:
        """Replaces the ``old`` files of a day by one file with these rows, in their order, in one
        commit.

        It holds Python's lock while an object store answers, so it is only for a process that does
        nothing else.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415 - 50 MB that a daemon doesn't need

        day, expected, written = old[0].day, sum(file.rows or 0 for file in old), 0
        path = f"day={day}/merged-{uuid.uuid4().hex}.parquet"
        with errors_explained(self.place):
            files = self._store()
            with _removed_on_error(files, path):
                with (
                    files.open_output_stream(path) as stream,
                    pq.ParquetWriter(stream, FILE_SCHEMA, **PACKED) as writer,
                ):
                    for rows in row_groups:
                        writer.write_table(rows, row_group_size=ROW_GROUP)
                        written += rows.num_rows
                if written != expected:
                    raise HistoryUnavailable(
                        f"the files of {day} in {self.place} hold {expected} rows, and {written} "
                        "were read; they stay as they are",
                        kind="merge",
                    )
            written_at_ms = now_ms()
            bounds = {
                "numRecords": written,
                "minValues": {"cluster_id": cluster_id, "entry": old[0].first_entry},
                "maxValues": {
                    "cluster_id": cluster_id,
                    "entry": max(file.last_entry or 0 for file in old),
                },
            }
            size = files.get_file_info(path).size
            addition = AddAction(path, size, {"day": day}, written_at_ms, False, json.dumps(bounds))
            removals = [
                RemoveAction(file.path, False, written_at_ms, file.size_bytes, {"day": day})
                for file in old
            ]
            self._table.create_write_transaction(
                [addition, *removals],
                "append",
                SCHEMA,
                ["day"],
                commit_properties=_naming_entry(cluster_id, self.last_entry(cluster_id)),
            )
            self._table.update_incremental()

    def drop(self, days: Collection[str], cluster_id: str) -> None:
        with errors_explained(self.place):
            files = [file for file in self._all_files() if file.day in days]
            predicate = f"day IN ({', '.join(map(quoted, sorted(days)))})"
            if all(file.cluster_id == cluster_id for file in files):
                self._table.delete(predicate)
                for file in files:
                    self.damaged.pop(file.path, None)
                return
            predicate += f" AND cluster_id = {quoted(cluster_id)}"
            self._retried(lambda: self._table.delete(predicate + self._without_damaged(" AND ")))

    def vacuum(self, grace_h: int) -> None:
        """Removes files that were replaced at least ``grace_h`` hours ago. In a folder it also
        removes the unfinished files of a killed process (``….parquet#1``), once nobody has written
        to them for so long; deltalake doesn't list them."""
        with errors_explained(self.place):
            self._table.vacuum(grace_h, dry_run=False, enforce_retention_duration=False)
            if is_remote(self.place):
                return
            for unfinished in Path(self.place).glob("day=*/*.parquet#*"):
                with suppress(FileNotFoundError):  # another process looks after the table, too
                    if unfinished.stat().st_mtime * 1000 < now_ms() - grace_h * HOUR_MS:
                        unfinished.unlink()


@contextmanager
def _removed_on_error(files: pafs.FileSystem, path: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        with suppress(OSError):
            files.delete_file(path)
        raise


def _naming_entry(cluster_id: str, entry: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(cluster_id, entry)])


def quoted(text: str) -> str:
    """The text as a value in SQL."""
    return "'" + text.replace("'", "''") + "'"
