"""Canonical hashes: two tables are equal if their hashes are, whatever wrote them in what order."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, Protocol

import numpy as np
import polars as pl

from memos_flow.schemas import TABLES

#: Recorded wall times are facts of the world's clock; commit ids never leave the store.
_EXCLUDED: Final = frozenset({"started_at", "finished_at"})


class _Digest(Protocol):
    """What hashlib's objects do."""

    def update(self, data: bytes, /) -> None: ...


def table_hashes(tables: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, int | str]]:
    """`{table: {"rows", "hash"}}` of tables as a store reads them: committed rows, content once.

    The hash leaves out the lanes in which an approximate index chose what was compared.
    """
    packets = tables.get("packets")
    if packets is None or not packets["approximate"].any():
        exempt = pl.DataFrame(schema={"lane_id": pl.Int64})
    else:
        exempt = packets.filter("approximate").select("lane_id").unique()
    return {
        name: {
            "rows": frame.height,
            "hash": canonical_hash(_without(frame, exempt), TABLES[name].primary_key()),
        }
        for name, frame in tables.items()
    }


def _without(frame: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    if lanes.is_empty() or "lane_id" not in frame.columns:
        return frame
    return frame.join(lanes, on="lane_id", how="anti")


def canonical_hash(frame: pl.DataFrame, key: Sequence[str]) -> str:
    """SHA-256 over the rows sorted by `key`, column by column in the order of the frame.

    Independent of chunks, row order, dictionary codes and what stands behind a null; -0.0 equals
    0.0, every NaN equals every other, null differs from empty.
    """
    digest = sha256()
    ordered = frame.sort(key)
    for name in frame.columns:
        if name not in _EXCLUDED:
            digest.update(name.encode())
            _feed(digest, ordered[name].rechunk())
    return digest.hexdigest()


def _feed(digest: _Digest, series: pl.Series) -> None:
    """Type, length, validity, then the values; nested values by recursion."""
    dtype = series.dtype
    digest.update(f"{dtype.base_type().__name__}:{len(series)};".encode())
    digest.update(_bytes(series.is_not_null().to_numpy()))
    if isinstance(dtype, pl.Struct):
        for field in dtype.fields:
            digest.update(field.name.encode())
            _feed(digest, series.struct.field(field.name))
    elif isinstance(dtype, pl.List | pl.Array):
        lists = series.arr.to_list() if isinstance(dtype, pl.Array) else series
        lengths = lists.list.len().fill_null(0)
        digest.update(_bytes(lengths.to_numpy()))
        # An empty list explodes into one null, which is no item.
        _feed(digest, lists.filter(lengths > 0).explode())
    elif dtype == pl.String or isinstance(dtype, pl.Enum):
        text = series.cast(pl.String).fill_null("")
        digest.update(_bytes(text.str.len_bytes().to_numpy()))
        digest.update(text.str.join("").item().encode())
    elif dtype.is_float():
        values = series.fill_null(0.0).to_numpy()
        # In numpy: Polars takes the addition of zero for no change, and -0.0 would stay.
        digest.update(_bytes(np.where(np.isnan(values), np.nan, values + 0.0)))
    else:
        digest.update(_bytes(series.to_physical().fill_null(0).cast(pl.Int64).to_numpy()))


def _bytes(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()
