"""A run's tables in Lance: one append per table, step and shard, the `commits` row last.

Nothing is atomic across Lance tables, so a step becomes visible by one row: every row carries the
`commit_id` of the attempt that wrote it, and readers keep only rows whose id is in `commits`.
"""

import fcntl
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import dataframely as dy
import lancedb
import polars as pl
import pyarrow as pa
from lancedb.table import Table
from polars import selectors as cs

from harness.errors import StoreError
from memos_flow.schemas import (
    CONTENT_TABLES,
    PARTS,
    SCHEMA_VERSION,
    SETUP_TABLES,
    TABLES,
    AlikeLanes,
    Commits,
)

_WRITTEN: Final[Mapping[str, type[dy.Schema]]] = MappingProxyType(
    {**TABLES, "alike_lanes": AlikeLanes}
)
_STORED: Final[Mapping[str, type[dy.Schema]]] = MappingProxyType({**_WRITTEN, "commits": Commits})
_PART_OF: Final = MappingProxyType({name: part for part in PARTS for name in PARTS[part]})
#: The same row may be committed by several shards, or again after a resume.
_REPEATED: Final = frozenset({*SETUP_TABLES, *CONTENT_TABLES})
_COMMIT_ID: Final = "commit_id"
#: A commit id is `shard * _SHARD_SPAN + a random number`: unique without asking other processes,
#: and the ids of a shard are one range.
_SHARD_SPAN: Final = 2**43
_MAX_SHARDS: Final = 2**20
#: Every append leaves a small file, and every version lists them all.
_COMMITS_BETWEEN_COMPACTIONS: Final = 100
#: A run leaves as many uncompacted: reading them costs less than writing every row again.
_COMMITS_LEFT: Final = 20
#: A reader needs a version for no longer than it takes to read one table.
_KEEP_VERSIONS: Final = timedelta(minutes=10)
#: Lance gives up on a conflict after retries of its own; these are around them.
_ATTEMPTS: Final = 8
_THREADS: Final = 8
#: Lock file held by every process while it writes: temporary files without a holder are left over.
_WRITERS: Final = ".writers.lock"
#: Lock file held by the one process that compacts.
_COMPACTION: Final = ".compaction.lock"

_Result = TypeVar("_Result")


class Store:
    """The tables of a run under one URI, a local folder or an object store (`s3://...`).

    Several processes may append to one store at the same time, each with a shard of its own, once
    one process has called `create`; a reader may read meanwhile. Credentials of an object store
    come from the environment.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._folder = None if "://" in uri else Path(uri)
        self._handles: dict[str, Table] = {}
        self._commits_since_compaction = 0

    @classmethod
    def open(cls, uri: str) -> "Store":
        """The store at `uri`; its folder and tables appear with `create` or the first commit.

        Raises `StoreError` if the store was written with another schema version.
        """
        store = cls(uri)
        store._check_schema_version()
        return store

    def is_new(self) -> bool:
        """Whether nothing was ever written here, not even by a killed attempt."""
        if self._folder is not None and not self._folder.exists():
            return True
        return not self._connection.list_tables().tables

    def create(self) -> None:
        """Creates the tables that are not there, so that several processes may append to them.

        LanceDB looks for a table, then creates it. A process that creates it in between loses
        what it has appended: the other one replaces the table.
        """
        self._each(_STORED, self._table_to_append)

    def commit(
        self, tables: Mapping[str, pl.DataFrame], *, shard: int, step: int, lanes: int
    ) -> None:
        """Appends the rows of one step of one shard, all of them or (for readers) none.

        Raises `StoreError`, before anything is written, if a frame is not exactly of its schema's
        columns and types, or if the step is already committed.
        """
        commit_id = _shard_range(shard)[0] + secrets.randbelow(_SHARD_SPAN)
        rows = {
            name: frame
            for name, frame in tables.items()
            if self._check_columns(name, frame) and not frame.is_empty()
        }
        if step in self.committed_steps(shard):
            raise StoreError(
                f"{self.uri}: step {step} of shard {shard} is already committed. "
                "Is the same run going on in another process?"
            )
        with self._lock(_WRITERS, fcntl.LOCK_SH):
            self._each(
                rows, lambda name: self._append(name, self._to_arrow(name, rows[name], commit_id))
            )
            self._append("commits", _commits_row(commit_id, shard, step, lanes))
        self._commits_since_compaction += 1
        if self._commits_since_compaction >= _COMMITS_BETWEEN_COMPACTIONS:
            self.compact()

    def commits(self, shard: int | None = None) -> pl.DataFrame:
        """The commits so far, of one shard or of all, columns as in `Commits`."""
        table = self._table("commits")
        if table is None:
            return Commits.create_empty()
        table.checkout_latest()
        frame = _from_arrow(table.to_arrow()).cast(_dtypes(Commits))
        # Should two processes have run one shard, the first commit of a step is the step.
        frame = frame.unique(["shard", "step"], keep="first", maintain_order=True)
        return frame if shard is None else frame.filter(pl.col("shard") == shard)

    def committed_steps(self, shard: int) -> list[int]:
        """The steps of the shard that are there as a whole, in order; -1 is the set-up."""
        return sorted(self.commits(shard)["step"].to_list())

    def read(self, name: str, commits: pl.DataFrame | None = None) -> pl.DataFrame:
        """The committed rows of a table, columns and types of its schema: of every lane, also where
        those of lanes alike are stored once.

        `commits` (rows of `commits()`) restricts the rows to those commits: to one shard, or to
        one state of the store for several tables. Set-up and content tables come without
        repetitions. A table that nothing was written to is empty.
        """
        schema = _STORED[name]
        # Before the table's own version is fixed: rows of a commit precede the commit.
        committed = (self.commits() if commits is None else commits)[_COMMIT_ID]
        rows = self._rows(name, committed)
        if name in _PART_OF:
            alike = self._rows("alike_lanes", committed).filter(pl.col("part") == _PART_OF[name])
            rows = _of_every_lane(rows, alike)
        frame = rows.select(schema.column_names())
        if name not in _REPEATED:
            return frame
        # In the order written: reports show settings in the order in which they were named.
        return frame.unique(schema.primary_key(), keep="first", maintain_order=True)

    def sweep(self, shard: int) -> int:
        """Removes what killed attempts of the shard have left; returns the number of rows.

        To be called by the process that runs the shard, before its first commit. In a local
        store it also removes the temporary files of writers that are gone.
        """
        committed = self.commits(shard)[_COMMIT_ID]
        removed = sum(
            self._each(_WRITTEN, lambda name: self._delete_others(name, shard, committed))
        )
        if self._folder is not None and self._folder.exists():
            with self._lock(_WRITERS, fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
                for leftover in self._folder.glob("*.lance/**/.tmp*") if alone else ():
                    leftover.unlink()
        return removed

    def settle(self) -> None:
        """Compacts, at the end of a run, what many commits (of whatever shards) have scattered."""
        table = self._table("commits")
        if table is not None:
            table.checkout_latest()
            statistics: Any = table.stats()
            if statistics["fragment_stats"]["num_fragments"] > _COMMITS_LEFT:
                self.compact()

    def compact(self) -> None:
        """Merges the small files that appends leave; changes no row."""
        with (
            self._lock(_WRITERS, fcntl.LOCK_SH),
            self._lock(_COMPACTION, fcntl.LOCK_EX | fcntl.LOCK_NB) as alone,
        ):
            if alone:
                self._each(_STORED, self._optimize)
        self._commits_since_compaction = 0

    def _rows(self, name: str, committed: pl.Series) -> pl.DataFrame:
        """The rows of these commits as they are stored, with their commit."""
        dtypes = pl.Schema({**_dtypes(_STORED[name]), _COMMIT_ID: pl.Int64()})
        table = self._table(name)
        if table is None or committed.is_empty():
            return dtypes.to_frame()
        table.checkout_latest()
        between = f"{_COMMIT_ID} >= {committed.min()!s} AND {_COMMIT_ID} <= {committed.max()!s}"
        stored = _from_arrow(table.search().where(between).to_arrow())
        rows = stored.filter(pl.col(_COMMIT_ID).is_in(committed.implode()))
        return rows.select(dtypes.names()).cast(dtypes)

    @cached_property
    def _connection(self) -> lancedb.DBConnection:
        try:
            return lancedb.connect(self.uri)
        except (RuntimeError, ValueError) as error:
            code = re.search(r"<Code>(\w+)</Code>", str(error))
            raise StoreError(
                f"{self.uri}: cannot be opened ({code[1] if code else 'no answer'}). Credentials "
                "and endpoint come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, "
                "AWS_REGION, AWS_ENDPOINT_URL, and AWS_ALLOW_HTTP=true for an endpoint without TLS"
            ) from error

    def _check_schema_version(self) -> None:
        versions = set(self.commits()["schema_version"].to_list()) - {SCHEMA_VERSION}
        if versions:
            found = versions.pop()
            age = "older" if found < SCHEMA_VERSION else "newer"
            raise StoreError(
                f"{self.uri}: schema version {found} is {age} than this program's "
                f"{SCHEMA_VERSION}. Read it with the version of memos-flow that wrote it, or run "
                "again into a new folder."
            )

    def _check_columns(self, name: str, frame: pl.DataFrame) -> bool:
        """Lance fills a missing column with nulls and casts a wrong one, both without a word."""
        if name not in _WRITTEN:
            expected_names = [*_WRITTEN]
            raise StoreError(
                f"{self.uri}: no table is named {name!r}, expected one of {expected_names}"
            )
        expected, found = _dtypes(_WRITTEN[name]), frame.schema
        if dict(found) == dict(expected):
            return True
        wrong = (name for name in [*expected, *found] if found.get(name) != expected.get(name))
        column = next(wrong)
        raise StoreError(
            f"{self.uri}: table {name}, column {column}: found {found.get(column, 'no column')}, "
            f"expected {expected.get(column, 'no such column')}"
        )

    def _to_arrow(self, name: str, frame: pl.DataFrame, commit_id: int) -> pa.Table:
        return _to_arrow(
            frame.select(*_WRITTEN[name].column_names(), pl.lit(commit_id).alias(_COMMIT_ID))
        )

    def _table(self, name: str) -> Table | None:
        """The table, if something was ever written to it."""
        if name not in self._handles:
            if self._folder is not None and not self._folder.exists():
                return None
            try:
                self._handles[name] = self._connection.open_table(name)
            except ValueError as error:
                if "was not found" not in str(error):
                    raise
                return None
            self._check_stored(name, self._handles[name])
        return self._handles[name]

    def _check_stored(self, name: str, table: Table) -> None:
        """A store may be written to before its first commit tells a schema version."""
        expected = {field.name: field.type for field in _stored_schema(name)}
        stored = {field.name: field.type for field in table.schema}
        for column in [*expected, *stored]:
            if stored.get(column) != expected.get(column):
                raise StoreError(
                    f"{self.uri}: table {name}, column {column}: stored as "
                    f"{stored.get(column, 'no column')}, this program expects "
                    f"{expected.get(column, 'no such column')}. Run again into a new folder."
                )

    def _table_to_append(self, name: str) -> Table:
        table = self._table(name)
        if table is None:
            table = self._connection.create_table(name, schema=_stored_schema(name), exist_ok=True)
            self._handles[name] = table
        return table

    def _append(self, name: str, rows: pa.Table) -> None:
        table = self._table_to_append(name)
        _retrying(lambda: table.add(rows))

    def _delete_others(self, name: str, shard: int, committed: pl.Series) -> int:
        """Deletes the rows of the shard that belong to none of the commits."""
        table = self._table(name)
        if table is None:
            return 0
        table.checkout_latest()
        first, end = _shard_range(shard)
        of_shard = f"{_COMMIT_ID} >= {first} AND {_COMMIT_ID} < {end}"
        ids = _from_arrow(table.search().where(of_shard).select([_COMMIT_ID]).to_arrow())
        dead = ids.filter(~pl.col(_COMMIT_ID).is_in(committed.implode()))
        if not dead.is_empty():
            listed = ", ".join(map(str, dead[_COMMIT_ID].unique().sort()))
            _retrying(lambda: table.delete(f"{_COMMIT_ID} IN ({listed})"))
        return dead.height

    def _optimize(self, name: str) -> None:
        table = self._table(name)
        if table is not None:
            table.checkout_latest()
            # Two compactions at once conflict: the other one does the work.
            with _unless_conflict():
                table.optimize(cleanup_older_than=_KEEP_VERSIONS)

    def _each(self, names: Iterable[str], work: Callable[[str], _Result]) -> list[_Result]:
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(work, names))

    @contextmanager
    def _lock(self, name: str, kind: int) -> Iterator[bool]:
        """Holds a lock file of a local store; yields whether it was to be had.

        The kernel drops the lock of a killed process.
        """
        if self._folder is None:
            yield True
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / name).open("w") as file:
            try:
                fcntl.flock(file, kind)
            except BlockingIOError:
                yield False
            else:
                yield True


def _of_every_lane(rows: pl.DataFrame, alike: pl.DataFrame) -> pl.DataFrame:
    """The rows with those of the lanes that others stood for in their commit."""
    if alike.is_empty():
        return rows
    others = (
        alike.select("lane_id", "like", _COMMIT_ID)
        .join(rows.rename({"lane_id": "like"}), on=["like", _COMMIT_ID], how="inner")
        .select(rows.columns)
    )
    return pl.concat([rows, others])


def _shard_range(shard: int) -> tuple[int, int]:
    """The first commit id of the shard, and the first after it."""
    if not 0 <= shard < _MAX_SHARDS:
        raise StoreError(f"shard {shard}: expected a number from 0 to {_MAX_SHARDS - 1}")
    return shard * _SHARD_SPAN, (shard + 1) * _SHARD_SPAN


def _commits_row(commit_id: int, shard: int, step: int, lanes: int) -> pa.Table:
    row = {
        "commit_id": commit_id,
        "shard": shard,
        "step": step,
        "lanes": lanes,
        "schema_version": SCHEMA_VERSION,
    }
    return _to_arrow(pl.DataFrame([row], schema=_dtypes(Commits)))


@cache
def _stored_schema(name: str) -> pa.Schema:
    empty = _STORED[name].create_empty()
    return _to_arrow(empty.with_columns(pl.lit(0, pl.Int64).alias(_COMMIT_ID))).schema


def _to_arrow(frame: pl.DataFrame) -> pa.Table:
    """Enums are stored as text, so that any reader of Lance understands and can filter them."""
    as_text = frame.with_columns(cs.enum().cast(pl.String))
    return as_text.to_arrow(compat_level=pl.CompatLevel.oldest())


def _from_arrow(table: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(table))


@cache
def _dtypes(schema: type[dy.Schema]) -> pl.Schema:
    return schema.create_empty().schema


#: What Lance raises for a commit that lost to another, among other things.
_CONFLICTS: Final = (RuntimeError, ValueError, OSError)


def _is_conflict(error: Exception) -> bool:
    return "conflict" in str(error).lower()


@contextmanager
def _unless_conflict() -> Iterator[None]:
    try:
        yield
    except _CONFLICTS as error:
        if not _is_conflict(error):
            raise


def _retrying(write: Callable[[], object]) -> None:
    """Repeats a write that lost to those of other processes."""
    for attempt in range(_ATTEMPTS):
        try:
            write()
        except _CONFLICTS as error:
            if not _is_conflict(error) or attempt == _ATTEMPTS - 1:
                raise
            time.sleep(secrets.SystemRandom().uniform(0, 0.01 * 2**attempt))
        else:
            return
