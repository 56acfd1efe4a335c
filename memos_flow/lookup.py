"""Look-ups that stay cheap among millions of texts: by sorted ids, in a growing matrix."""

import numpy as np
import polars as pl

#: Rows that came last are merged with the others when they are this share of them.
_MERGED_AT = 0.25


class Places:
    """Where each text id stands: a sorted array, searched; many lanes ask for few texts."""

    def __init__(self) -> None:
        self._ids = np.empty(0, dtype=np.int64)
        self._places = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._ids)

    def append(self, text_ids: pl.Series) -> None:
        """New ids, at the places that follow."""
        ids = np.concatenate([self._ids, text_ids.to_numpy()])
        places = np.concatenate([self._places, np.arange(len(self), len(ids))])
        order = np.argsort(ids, kind="stable")
        self._ids, self._places = ids[order], places[order]

    def of(self, text_ids: pl.Series) -> np.ndarray:
        """The place of each id; -1 for null and for what is not there."""
        if not len(self):
            return np.full(len(text_ids), -1)
        wanted = text_ids.fill_null(0).to_numpy()
        found = np.searchsorted(self._ids, wanted).clip(max=len(self) - 1)
        there = (self._ids[found] == wanted) & text_ids.is_not_null().to_numpy()
        return np.where(there, self._places[found], -1)


class Vectors:
    """Rows of a matrix that grows at its end; what came last is apart, so that growing is cheap."""

    def __init__(self) -> None:
        self._old = np.empty((0, 0), dtype=np.float32)
        self._new = self._old

    def __len__(self) -> int:
        return len(self._old) + len(self._new)

    def append(self, vectors: np.ndarray) -> None:
        """More rows, at the end."""
        self._new = np.concatenate([self._new, vectors]) if len(self._new) else vectors
        if len(self._new) > len(self._old) * _MERGED_AT:
            self._old = np.concatenate([self._old, self._new]) if len(self._old) else self._new
            self._new = self._new[:0]

    def of(self, places: np.ndarray) -> np.ndarray:
        """The rows at the places."""
        if not len(self._new):
            rows: np.ndarray = self._old[places]
            return rows
        old = places < len(self._old)
        gathered = np.empty((len(places), self._new.shape[1]), dtype=np.float32)
        gathered[old] = self._old[places[old]]
        gathered[~old] = self._new[places[~old] - len(self._old)]
        return gathered
