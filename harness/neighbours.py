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
#: What an experience is found by, and the columns that make it: its own text and, by the setting's
#: weight, the task it was learned in; or its lesson.
_RECALL, _LESSON = "recall", "lesson"
_ID: Final = ["lane_id", "policy_id"]


@dataclass
class _Index:
    table: Table
    #: Version of each experience that the index holds: what is newer is looked at besides.
    held: pl.DataFrame


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
        large = self._large_lanes(policies)
        if not large:
            return policies
        asked = queries.filter(pl.col("lane_id").is_in(large)).collect(engine="in-memory")
        found = [_none()]
        for lane, text_id, weight in asked.select("lane_id", "text_id", "weight").iter_rows():
            own = _of(policies, lane)
            index = self._index(own, lane, f"{_RECALL}_{weight}", weight)
            wanted = [] if text_id is None else [text_id]
            found.append(self._near(index, own, wanted))
        return _only(policies, large, pl.concat(found))

    def for_matching(self, policies: pl.LazyFrame, lessons: pl.LazyFrame) -> pl.LazyFrame:
        """Those near a lesson, those of the same check and field, and the newest."""
        large = self._large_lanes(policies)
        if not large:
            return policies
        told = lessons.filter(pl.col("lane_id").is_in(large)).collect(engine="in-memory")
        checks = ["lane_id", "check_kind", "field"]
        same = (
            policies.join(told.lazy().drop_nulls(checks), on=checks, how="semi")
            .select(_ID)
            .collect(engine="in-memory")
        )
        found = [_none(), same]
        for lane in told["lane_id"].unique().sort():
            own = _of(policies, lane)
            index = self._index(own, lane, _LESSON, None)
            wanted = told.filter(pl.col("lane_id") == lane)["lesson_text_id"].unique().sort()
            found.append(self._near(index, own, wanted.to_list()))
        return _only(policies, large, pl.concat(found))

    def approximate(self) -> pl.LazyFrame:
        """The lanes that have an index."""
        return pl.LazyFrame({"lane_id": self._large}, schema={"lane_id": pl.Int64})

    def _large_lanes(self, policies: pl.LazyFrame) -> list[int]:
        sizes = policies.group_by("lane_id").len().filter(pl.col("len") > self._exact_up_to)
        self._large = sizes.select("lane_id").sort("lane_id").collect()["lane_id"].to_list()
        return self._large

    def _near(self, index: _Index, own: pl.DataFrame, text_ids: list[int]) -> pl.DataFrame:
        newer = own.join(index.held, on=[*_ID, "updated_step"], how="anti").select(_ID)
        if not text_ids:
            return newer
        vectors = self._library.vectors(pl.Series(text_ids, dtype=pl.Int64))
        near = [_nearest(index.table, vector) for vector in vectors]
        ids = pl.Series(np.unique(np.concatenate(near)), dtype=pl.Int64)
        lane = pl.Series([own["lane_id"][0]] * len(ids), dtype=pl.Int64)
        found = pl.DataFrame({"lane_id": lane, "policy_id": ids})
        return pl.concat([newer, found.join(newer, on=_ID, how="anti")])

    def _index(self, own: pl.DataFrame, lane: int, name: str, weight: float | None) -> _Index:
        """The lane's index, built where there is none or too much came since."""
        known = self._indexes.get((lane, name))
        if known is not None:
            newer = own.height - own.join(known.held, on=[*_ID, "updated_step"], how="semi").height
            if newer <= _REBUILT_AT * own.height:
                return known
        path = self._folder / f"{lane}_{name}"
        shutil.rmtree(path, ignore_errors=True)
        dimensions = self._library.vectors(own["lesson_text_id"].head(1)).shape[1]
        schema = pa.schema(
            [("policy_id", pa.int64()), ("vector", pa.list_(pa.float32(), dimensions))]
        )
        table = lancedb.connect(str(path)).create_table(
            "vectors", data=self._vectors(own, weight, schema), schema=schema
        )
        partitions = max(1, own.height // _PARTITION_ROWS)
        table.create_index("vector", config=IvfFlat(distance_type="dot", num_partitions=partitions))
        built = _Index(table, own.select(*_ID, "updated_step"))
        self._indexes[lane, name] = built
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
            flat = pa.array(vectors.astype(np.float32).ravel())
            columns = [
                rows["policy_id"].to_arrow(),
                pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _nearest(table: Table, vector: np.ndarray) -> np.ndarray:
    query = table.search(vector, vector_column_name="vector")
    assert isinstance(query, LanceVectorQueryBuilder)
    found = query.distance_type("dot").nprobes(_PROBES).limit(_NEAREST)
    rows = found.select(["policy_id", "_distance"]).to_arrow()
    return np.asarray(rows["policy_id"])


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(_ID, pl.Int64))


def _of(policies: pl.LazyFrame, lane: int) -> pl.DataFrame:
    """What an index is made of, of one lane."""
    columns = [*_ID, "updated_step", "text_id", "context_text_id", "lesson_text_id"]
    return (
        policies.filter((pl.col("lane_id") == lane) & (pl.col("status") != "archived"))
        .select(columns)
        .sort("policy_id")
        .collect(engine="in-memory")
    )


def _only(policies: pl.LazyFrame, large: list[int], found: pl.DataFrame) -> pl.LazyFrame:
    """All of the small lanes, of the large ones what was found."""
    return pl.concat(
        [
            policies.filter(~pl.col("lane_id").is_in(large)),
            policies.join(found.lazy().unique(), on=_ID, how="semi"),
        ]
    )
