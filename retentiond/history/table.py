"""The Delta table that holds the history: opened, read, appended to, and its files replaced.

Invariants: a commit of the table's log makes an entry visible, or an old file's successor, as a
whole; a process that dies between two commits leaves files that nobody refers to, and nothing else.
Each file is of one cluster and one day. Every commit names its cluster's last entry, so that of two
writers for one cluster the second fails.

All but `HistoryTable.replace` uses only those calls of deltalake that let Python's other threads
run meanwhile: an object store may take minutes to answer.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    QueryBuilder,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from retentiond.errors import HistoryUnavailable
from retentiond.history.damage import (
    LOG,
    copy_of_log,
    damage_by_size,
    damage_of_error,
    has_empty_commit,
    mend_log,
)
from retentiond.history.packing import FILE_SCHEMA, PACKED, ROW_GROUP, WRITER
from retentiond.history.place import errors_explained, is_remote, location, store_options
from retentiond.history.schema import SCHEMA

if TYPE_CHECKING:
    import pyarrow.dataset as pads
    import pyarrow.fs as pafs

TABLE_SETTINGS = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
}
"""They keep the log small and quick to read, however many entries there are."""

DAMAGED_COMMIT = "it was damaged, so what it had made visible is lost"
"""Why a commit of the table's log is left out."""

T = TypeVar("T")

AFTER_EVERY_DAY = "~"
"""Sorts behind every day."""


class HistoryFile(NamedTuple):
    """``path``: below the table's folder. ``cluster_id`` and the entries are None of a file that
    somebody else has written."""

    path: str
    day: str
    cluster_id: str | None
    first_entry: int | None
    last_entry: int | None
    rows: int | None
    size_bytes: int


class HistoryTable:
    """The table at a place, as of the last `refresh`. All of it raises `HistoryUnavailable`."""

    def __init__(self, table: DeltaTable, place: str) -> None:
        _refuse_another_schema(table, place)
        self._table = table
        self._checked_whole = False
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self.place = place
        self.damaged: dict[str, str] = {}
        """Why a file is left out, by its path; and commits of the log that were replaced. Known
        once a query has met one."""

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Opens the table to read it. ``path``: a folder, or an object store's URL."""
        place = location(path)
        with errors_explained(place):
            if is_remote(place):
                table = DeltaTable(place, storage_options=store_options(place))
                return cls(table, place)
            try:
                if not has_empty_commit(Path(place)):
                    return cls(DeltaTable(place), place)
            except TableNotFoundError:
                raise
            except (DeltaError, ValueError):
                if not (Path(place) / LOG).is_dir():
                    raise
            return cls._of_a_copy(place)

    @classmethod
    def _of_a_copy(cls, place: str) -> Self:
        """Opens a copy in which the log's damaged commits are replaced."""
        copy = tempfile.TemporaryDirectory(prefix="retentiond-history-")
        copy_of_log(Path(place), Path(copy.name))
        mended = mend_log(Path(copy.name), _create)
        found = cls(DeltaTable(copy.name), place)
        found._copy = copy  # it goes with the table
        found.damaged |= {f"{LOG}/{each.name}": DAMAGED_COMMIT for each in mended}
        return found

    @classmethod
    def open_or_create(cls, path: str | Path) -> Self:
        place = location(path)
        with errors_explained(place):
            if is_remote(place):
                return cls(_create(place), place)
            Path(place).mkdir(parents=True, exist_ok=True)
            mended: tuple[Path, ...] = ()
            if has_empty_commit(Path(place)):
                mended = mend_log(Path(place), _create)
            try:
                table = _create(place)
            except (DeltaError, ValueError):
                mended += mend_log(Path(place), _create)
                table = _create(place)
            found = cls(table, place)
            found.damaged |= {f"{LOG}/{each.name}": DAMAGED_COMMIT for each in mended}
            return found

    def refresh(self) -> None:
        with errors_explained(self.place):
            self._table.update_incremental()

    def last_entry(self, cluster_id: str) -> int:
        """0 where there is none."""
        with errors_explained(self.place):
            return self._table.transaction_version(cluster_id) or 0

    def clusters(self) -> frozenset[str]:
        """The ids of those that anything is kept of."""
        with errors_explained(self.place):
            found = {each.cluster_id for each in self._every_file()}
        return frozenset(each for each in found if each is not None)

    def files(
        self,
        cluster_id: str | None = None,
        *,
        since_day: str = "",
        until_day: str = AFTER_EVERY_DAY,
    ) -> tuple[HistoryFile, ...]:
        """Those of a cluster, or all of them, less those that are known as damaged; days as
        ``YYYY-MM-DD``, both included. By day, then by entry."""
        with errors_explained(self.place):
            every = (each for each in self._every_file() if each.path not in self.damaged)
            found = [each for each in every if since_day <= each.day <= until_day]
        found.sort(key=lambda each: (each.day, each.first_entry or 0, each.path))
        return tuple(each for each in found if cluster_id in (None, each.cluster_id))

    def damaged_files(self, cluster_id: str | None = None) -> tuple[HistoryFile, ...]:
        """The files that are left out."""
        with errors_explained(self.place):
            every = [each for each in self._every_file() if each.path in self.damaged]
        return tuple(each for each in every if cluster_id in (None, each.cluster_id))

    @property
    def damage(self) -> str | None:
        """What is left out, in a sentence; None where nothing is."""
        if not self.damaged:
            return None
        (path, why), more = next(iter(self.damaged.items())), len(self.damaged) - 1
        and_more = f", and so are {more} more files" if more else ""
        return (
            f"{self.place.rstrip('/')}/{path} of the history is left out: {why}{and_more}; the "
            "rest is used. Bring it back from a backup, or leave it as it is"
        )

    def _every_file(self) -> Iterator[HistoryFile]:
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
        """Whole paths, or an object store's URLs. Their last folder is ``day=2026-11-23``, and the
        column of that name stands nowhere else."""
        return [f"{self.place.rstrip('/')}/{each.path}" for each in files]

    def dataset(
        self, cluster_id: str, *, since_day: str = "", until_day: str = AFTER_EVERY_DAY
    ) -> pads.Dataset:
        """The rows of a cluster and those days, with the columns of `SCHEMA`; rows of other
        clusters may be among them, so filter. It stays readable for an hour after the files were
        replaced by others."""
        with errors_explained(self.place):
            return self._table.to_pyarrow_dataset(
                file_pruning_predicate=(
                    f"cluster_id = {quoted(cluster_id)} "
                    f"AND day >= {quoted(since_day)} AND day <= {quoted(until_day)}"
                    f"{self._but_damaged(' AND ')}"
                )
            )

    def query(self, sql: str) -> pa.Table:
        """The rows of a query in DataFusion's SQL, to which the table is ``history``. Damaged files
        are left out, and stand in `damaged` afterwards."""
        with errors_explained(self.place):
            return self._retried(lambda: self._queried(sql))

    def _queried(self, sql: str) -> pa.Table:
        if but := self._but_damaged(" WHERE "):
            sql = sql.replace("FROM history", f"FROM (SELECT * FROM history{but}) AS history")
        return self._stream(sql).read_all()

    def _stream(self, sql: str) -> pa.RecordBatchReader:
        found = QueryBuilder().register("history", self._table).execute(sql)
        return pa.RecordBatchReader.from_stream(found)

    def _but_damaged(self, word: str) -> str:
        """A condition that leaves damaged files out by their entries: the log tells which files to
        open."""
        return "".join(
            f"{word if not number else ' AND '}NOT (cluster_id = {quoted(each.cluster_id or '')}"
            f" AND entry >= {each.first_entry} AND entry <= {each.last_entry})"
            for number, each in enumerate(self.damaged_files())
        )

    def _retried(self, read: Callable[[], T]) -> T:
        """Reads, and reads again without a file that turns out to be damaged meanwhile."""
        while True:
            try:
                return read()
            except Exception:
                if not self.find_damage():
                    raise

    def find_damage(self) -> bool:
        """Whether a file that was not known to be is damaged: by sizes and footers, and if these
        are sound, by reading all. Files without known entries can't be left out."""
        with errors_explained(self.place):
            if found := self._looked_at(columns="kind"):
                return found
            if self._checked_whole:
                return False
            self._checked_whole = True
            return self._looked_at(columns="*")

    def _looked_at(self, columns: str) -> bool:
        """The fewest entries first: a file that was put together from the sound ones of a day spans
        the entries of the damaged ones, too."""
        known = len(self.damaged)
        spans: list[tuple[int, HistoryFile]] = []
        for each in self.files():
            if each.cluster_id is not None and each.first_entry is not None:
                spans.append(((each.last_entry or 0) - each.first_entry, each))
        for _, each in sorted(spans):
            why = self._damage_of(each, columns)
            if why is not None:
                self.damaged[each.path] = why
        return len(self.damaged) > known

    def _damage_of(self, file: HistoryFile, columns: str) -> str | None:
        """It is read as queries read it: another library may be more lenient."""
        if not is_remote(self.place):
            why = damage_by_size(Path(self.place, file.path), file.size_bytes)
            if why is not None:
                return why
        sql = (
            f"SELECT {columns} FROM history WHERE day = {quoted(file.day)}"
            f" AND cluster_id = {quoted(file.cluster_id or '')}"
            f" AND entry >= {file.first_entry} AND entry <= {file.last_entry}"
            f"{self._but_damaged(' AND ')}"
        )
        try:
            for _ in self._stream(sql):
                pass
        except (OSError, DeltaError, pa.ArrowException, ValueError) as error:
            return damage_of_error(error)
        return None

    def _store(self) -> pafs.FileSystem:
        import pyarrow.fs as pafs  # noqa: PLC0415 - 50 MB that a daemon has no use for
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415 - likewise

        handler = DeltaStorageHandler(self._table.table_uri, store_options(self.place), {})
        return pafs.PyFileSystem(handler)

    def append(self, cluster_id: str, entry: int, rows: pa.Table) -> None:
        """An entry of that number, as one commit. ``rows``: `SCHEMA`, of one day."""
        with errors_explained(self.place):
            write_deltalake(
                self._table,
                rows,
                mode="append",
                writer_properties=WRITER,
                commit_properties=_mark(cluster_id, entry),
            )

    def replace(
        self, cluster_id: str, old: Sequence[HistoryFile], row_groups: Iterable[pa.Table]
    ) -> None:
        """One commit: a file of the same day with those rows, in their order, in place of files.

        An object store's answers are waited for with Python's lock held: not for a process that
        does anything else.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415 - 50 MB that a daemon has no use for

        day, expected, written = old[0].day, sum(each.rows or 0 for each in old), 0
        path = f"day={day}/merged-{uuid.uuid4().hex}.parquet"
        with errors_explained(self.place):
            files = self._store()
            with (
                files.open_output_stream(path) as stream,
                pq.ParquetWriter(stream, FILE_SCHEMA, **PACKED) as writer,
            ):
                for each in row_groups:
                    writer.write_table(each, row_group_size=ROW_GROUP)
                    written += each.num_rows
            if written != expected:
                raise HistoryUnavailable(
                    f"the files of {day} in {self.place} hold {expected} rows, and {written} were "
                    "read; they stay as they are",
                    kind="merge",
                )
            now_ms = time.time_ns() // 1_000_000
            bounds = {
                "numRecords": written,
                "minValues": {"cluster_id": cluster_id, "entry": old[0].first_entry},
                "maxValues": {
                    "cluster_id": cluster_id,
                    "entry": max(each.last_entry or 0 for each in old),
                },
            }
            size = files.get_file_info(path).size
            new = AddAction(path, size, {"day": day}, now_ms, False, json.dumps(bounds))
            gone = [
                RemoveAction(each.path, False, now_ms, each.size_bytes, {"day": day})
                for each in old
            ]
            self._table.create_write_transaction(
                [new, *gone],
                "append",
                SCHEMA,
                ["day"],
                commit_properties=_mark(cluster_id, self.last_entry(cluster_id)),
            )
            self._table.update_incremental()

    def drop(self, days: Collection[str], cluster_id: str) -> None:
        """What is there of a cluster and of those days."""
        with errors_explained(self.place):
            files = [each for each in self._every_file() if each.day in days]
            predicate = f"day IN ({', '.join(map(quoted, sorted(days)))})"
            if all(each.cluster_id == cluster_id for each in files):
                self._table.delete(predicate)
                return
            predicate += f" AND cluster_id = {quoted(cluster_id)}"
            self._retried(lambda: self._table.delete(predicate + self._but_damaged(" AND ")))

    def vacuum(self, grace_h: int) -> None:
        """Removes the files that were replaced so many hours ago or earlier."""
        with errors_explained(self.place):
            self._table.vacuum(grace_h, dry_run=False, enforce_retention_duration=False)


def _refuse_another_schema(table: DeltaTable, place: str) -> None:
    """Its rows would say less, or something else, than this version reads in them."""
    if {each.name for each in table.schema().fields} != set(SCHEMA.names):
        raise HistoryUnavailable(
            f"the history in {place} was begun by another version of retentiond, whose columns are "
            "others; run that version, or move the history aside, and a new one begins",
            kind="another schema",
        )


def _create(place: str | Path) -> DeltaTable:
    """Makes the table if it is not there."""
    return DeltaTable.create(
        str(place),
        SCHEMA,
        mode="ignore",
        partition_by="day",
        configuration=TABLE_SETTINGS,
        storage_options=store_options(str(place)),
    )


def _mark(cluster_id: str, entry: int) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(cluster_id, entry)])


def quoted(text: str) -> str:
    """The text as a value in SQL."""
    return "'" + text.replace("'", "''") + "'"
