"""Very large memories: an approximate index in Lance finds what is near, exact search the rest.

A lane has an index from `EXACT_UP_TO` experiences on. What it learns later is looked at besides,
until it is a tenth of the lane and the index is built anew. Two builds may differ in a neighbour,
so the packets of such a lane are marked.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lancedb
import numpy as np
import polars as pl
import pyarrow as pa
from lancedb.index import IvfFlat
from lancedb.query import LanceVectorQueryBuilder
from lancedb.table import Table

from memos_flow.library import Library

EXACT_UP_TO: Final = 100_000
#: Of the near ones as many as this are looked at, per query.
_NEAREST: Final = 200
_PARTITION_ROWS: Final = 1_000
_PROBES: Final = 20
_ROWS_AT_ONCE: Final = 50_000
_REBUILT_AT: Final = 0.1
_ID: Final = ["lane_id", "policy_id"]
_SCHEMA: Final = {"lane_id": pl.Int64, "policy_id": pl.Int64}
_ASKED: Final = ["lane_id", "step", "text_id", "weight"]


@dataclass
class _Index:
    table: Table
    #: It holds what was last changed before this step; what is newer is looked at besides.
    before: int
    size: int


class Neighbours:
    """A shortlist by vectors for lanes with many experiences; see `memos_flow.shortlist`."""

    def __init__(self, library: Library, folder: Path, exact_up_to: int = EXACT_UP_TO) -> None:
        """`folder`: where the indexes may be written; nothing else reads them."""
        self._library = library
        self._folder = folder
        self._exact_up_to = exact_up_to
        self._indexes: dict[tuple[int, str], _Index] = {}
        self._large: list[int] = []

    def for_recall(self, policies: pl.LazyFrame, queries: pl.LazyFrame) -> pl.LazyFrame:
        """Those near a query, by the similarity that recall gives them, and the newest."""
        rows = policies.collect(engine="in-memory")
        if not self._large_lanes(rows):
            return policies
        asked = queries.filter(pl.col("lane_id").is_in(self._large)).collect(engine="in-memory")
        found = []
        for lane, step, text_id, weight in asked.select(_ASKED).iter_rows():
            index = self._index(rows, lane, step, f"recall_{weight}", weight)
            found.append(self._near(index, lane, [] if text_id is None else [text_id]))
            found.append(_newer(rows, lane, index))
        return self._only(rows, found)

    def for_matching(self, policies: pl.LazyFrame, lessons: pl.LazyFrame) -> pl.LazyFrame:
        """Those near a lesson, those of the same check and field, and the newest. Which lanes are
        large was found when this step recalled."""
        if not self._large:
            return policies
        rows = policies.collect(engine="in-memory")
        told = lessons.filter(pl.col("lane_id").is_in(self._large)).collect(engine="in-memory")
        checks = ["lane_id", "check_kind", "field"]
        found = [rows.join(told.drop_nulls(checks), on=checks, how="semi").select(_ID)]
        for (lane, step), drafts in told.group_by("lane_id", "step", maintain_order=True):
            index = self._index(rows, int(lane), int(step), "lesson", None)
            wanted = drafts["lesson_text_id"].unique().sort().to_list()
            found.append(self._near(index, int(lane), wanted))
            found.append(_newer(rows, int(lane), index))
        return self._only(rows, found)

    def approximate(self) -> pl.LazyFrame:
        """The lanes that have an index."""
        return pl.LazyFrame({"lane_id": self._large}, schema={"lane_id": pl.Int64})

    def _large_lanes(self, policies: pl.DataFrame) -> list[int]:
        if policies.height <= self._exact_up_to:
            self._large = []
        else:
            sizes = policies["lane_id"].value_counts()
            self._large = sizes.filter(pl.col("count") > self._exact_up_to)["lane_id"].to_list()
        return self._large

    def _near(self, index: _Index, lane: int, text_ids: list[int]) -> pl.DataFrame:
        ids = np.empty(0, np.int64)
        if text_ids:
            vectors = self._library.vectors(pl.Series(text_ids, dtype=pl.Int64))
            ids = np.unique(np.concatenate([_nearest(index.table, vector) for vector in vectors]))
        return pl.DataFrame({"lane_id": np.full(len(ids), lane), "policy_id": ids}, schema=_SCHEMA)

    def _only(self, policies: pl.DataFrame, found: list[pl.DataFrame]) -> pl.LazyFrame:
        """All of the small lanes, of the large ones what was found."""
        ids = pl.concat([pl.DataFrame(schema=_SCHEMA), *found]).unique()
        large = pl.col("lane_id").is_in(self._large)
        # Lanes count their experiences alike, so an id alone tells only most of the others apart.
        few = policies.filter(~large | pl.col("policy_id").is_in(ids["policy_id"].implode()))
        return pl.concat([few.filter(~large), few.join(ids, on=_ID, how="semi")]).lazy()

    def _index(
        self, policies: pl.DataFrame, lane: int, step: int, name: str, weight: float | None
    ) -> _Index:
        """The lane's index, built where there is none or too much came since."""
        known = self._indexes.get((lane, name))
        if known and _newer(policies, lane, known).height <= _REBUILT_AT * known.size:
            return known
        own = _indexed(policies, lane, step)
        path = self._folder / f"{lane}_{name}"
        shutil.rmtree(path, ignore_errors=True)
        dimensions = self._library.vectors(own["lesson_text_id"].head(1)).shape[1] + 1
        schema = pa.schema(
            [("policy_id", pa.int64()), ("vector", pa.list_(pa.float32(), dimensions))]
        )
        table = lancedb.connect(str(path)).create_table(
            "vectors", data=self._vectors(own, weight, schema), schema=schema
        )
        partitions = max(1, own.height // _PARTITION_ROWS)
        table.create_index("vector", config=IvfFlat(num_partitions=partitions))
        built = self._indexes[lane, name] = _Index(table, step, own.height)
        return built

    def _vectors(
        self, own: pl.DataFrame, weight: float | None, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """A similarity that is a weighted mean of two is that with the weighted mean."""
        for rows in own.iter_slices(_ROWS_AT_ONCE):
            if weight is None:
                vectors = self._library.vectors(rows["lesson_text_id"])
            else:
                texts = self._library.vectors(rows["text_id"])
                contexts = self._library.vectors(
                    rows.select(pl.coalesce("context_text_id", "text_id")).to_series()
                )
                vectors = (1 - weight) * texts + weight * contexts
            # One more component makes all of them as long: the nearest is the most similar.
            missing = np.sqrt(np.maximum(0, 1 - np.einsum("ij,ij->i", vectors, vectors)))
            padded = np.column_stack([vectors, missing]).astype(np.float32)
            columns = [
                rows["policy_id"].to_arrow(),
                pa.FixedSizeListArray.from_arrays(pa.array(padded.ravel()), padded.shape[1]),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _nearest(table: Table, vector: np.ndarray) -> np.ndarray:
    query = table.search(np.append(vector, np.float32(0)), vector_column_name="vector")
    assert isinstance(query, LanceVectorQueryBuilder)
    found = query.nprobes(_PROBES).limit(_NEAREST)
    rows = found.select(["policy_id", "_distance"]).to_arrow()
    return np.asarray(rows["policy_id"])


def _newer(policies: pl.DataFrame, lane: int, index: _Index) -> pl.DataFrame:
    """What the lane learned or changed since the index was built."""
    new = (pl.col("lane_id") == lane) & (pl.col("updated_step") >= index.before)
    return policies.filter(new).select(_ID)


def _indexed(policies: pl.DataFrame, lane: int, step: int) -> pl.DataFrame:
    """What an index of the lane holds."""
    old = (pl.col("lane_id") == lane) & (pl.col("updated_step") < step)
    return (
        policies.filter(old & (pl.col("status") != "archived"))
        .select("policy_id", "text_id", "context_text_id", "lesson_text_id")
        .sort("policy_id")
    )
