"""Texts, their vectors and what they say: caches of pure functions of a text.

A text is stored, embedded and classified once, however many lanes carry it. The caches change no
result: whoever asks first gets the answer that everybody gets.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from memos_flow.classify import understood
from memos_flow.lexical import tokens
from memos_flow.lexicon import Lexicon
from memos_flow.lookup import Places, Vectors
from memos_flow.schemas import Embeddings, Texts
from memos_flow.texts import texts_frame

#: Texts to vectors: unit rows whose components are multiples of 2**-11, so that a float32 dot
#: product is exact in any order of summation.
Embed = Callable[[Sequence[str]], np.ndarray]

#: Similarities are rounded before anything compares them (section 3).
SIMILARITY_DECIMALS = 6
_TEXT = {"text_id": pl.Int64, "text": pl.String}
#: Pairs of vectors gathered at once, to bound memory: 65,536 * 2 * 256 * 4 bytes = 134 MB.
_PAIRS_AT_ONCE = 65_536


class Library:
    """The content tables of a run, in memory.

    What it is given as a plan it collects at once: a plan that branches behind a look-up would look
    up once for every branch.
    """

    def __init__(self, embed: Embed, lexicon: Lexicon) -> None:
        self._embed = embed
        self._lexicon = lexicon
        self._texts: pl.DataFrame = Texts.create_empty()
        self._text_places = Places()
        self._vectors = Vectors()
        self._embedded = pl.Series("text_id", [], dtype=pl.Int64)
        self._vector_places = Places()
        self._features: pl.DataFrame | None = None
        self._clauses: pl.DataFrame | None = None
        self._tokens: pl.DataFrame | None = None
        self._stored_texts = 0
        self._stored_vectors = 0

    @property
    def texts(self) -> pl.LazyFrame:
        """`text_id`, `text` of every text known."""
        return self._texts.lazy()

    def add(self, texts: pl.DataFrame) -> None:
        """Add rows of `text_id`, `text`; known ids are left as they are."""
        distinct = texts.unique("text_id", maintain_order=True)
        new = distinct.filter(self._text_places.of(distinct["text_id"]) < 0)
        if not new.is_empty():
            self._texts = pl.concat([self._texts, new.select("text_id", "text")], rechunk=False)
            self._text_places.append(new["text_id"])

    def interned(self, frame: pl.LazyFrame, *columns: str) -> pl.LazyFrame:
        """Replace string columns `x` by `x_text_id`, adding their texts."""
        rows = _rows(frame)
        ids = [f"{column}_text_id" for column in columns]
        if rows.is_empty():
            return (
                rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in ids)
                .drop(columns)
                .lazy()
            )
        known = texts_frame(
            text for column in columns for text in rows[column].unique() if text is not None
        )
        self.add(known)
        for column, name in zip(columns, ids, strict=True):
            named = known.select(pl.col("text").alias(column), pl.col("text_id").alias(name))
            rows = rows.join(named, on=column, how="left", maintain_order="left").drop(column)
        return rows.lazy()

    def worded(self, frame: pl.LazyFrame, text_id: str, name: str) -> pl.LazyFrame:
        """Add the text behind `text_id` as column `name`."""
        rows = _rows(frame)
        return rows.with_columns(self._texts_of(rows[text_id]).alias(name)).lazy()

    def compared(self, frame: pl.LazyFrame, left: str, right: str, name: str) -> pl.LazyFrame:
        """Add the cosine of the texts behind two id columns, rounded; null where an id is null."""
        rows = _rows(frame)
        if rows.is_empty():
            return rows.with_columns(pl.lit(None, pl.Float64).alias(name)).lazy()
        pairs = _rows(rows.lazy().select(left, right).drop_nulls().unique())
        pairs = pairs.with_columns(self._cosines(pairs[left], pairs[right]).alias(name))
        return rows.join(pairs, on=[left, right], how="left", maintain_order="left").lazy()

    def centred(
        self, frame: pl.LazyFrame, group: Sequence[str], text_id: str, name: str
    ) -> pl.LazyFrame:
        """Add the cosine of each row's text with the mean vector of its group, rounded."""
        rows = _rows(frame)
        if rows.is_empty():
            return rows.with_columns(pl.lit(None, pl.Float64).alias(name)).lazy()
        # Groups of the same texts, in whatever lanes, have one mean: it is found once.
        groups = (
            rows.group_by(group)
            .agg(members=pl.col(text_id).sort())
            .with_columns(content=pl.col("members").cast(pl.List(pl.String)).list.join(" "))
            .sort("content")
            .with_columns(centre=pl.col("content").rle_id())
            .drop("content")
        )
        members = groups.unique("centre").sort("centre").drop(group).explode("members")
        cosines = self._cosines_with_mean(members["members"], members["centre"].to_numpy())
        found = members.select("centre", pl.col("members").alias(text_id), cosines.alias(name))
        return (
            rows.join(groups.select(*group, "centre"), on=group, how="left", maintain_order="left")
            .join(found.unique(), on=["centre", text_id], how="left", maintain_order="left")
            .drop("centre")
            .lazy()
        )

    def foresee(self, text_ids: pl.LazyFrame) -> None:
        """Classify texts that will be asked for, and their clauses, all at once: the cues of the
        lexicon are compiled for every batch, however small."""
        self.features(self.clauses(text_ids).select(text_id="clause_text_id"))

    def vectors(self, text_ids: pl.Series) -> np.ndarray:
        """The unit vector of each text, a row each."""
        self._embed_missing(text_ids)
        return self._vectors.of(self._vector_places.of(text_ids))

    def features(self, text_ids: pl.LazyFrame) -> pl.LazyFrame:
        """What `classify.classified` says of each text: one row per distinct `text_id`."""
        self._understand(text_ids)
        assert self._features is not None
        return self._features.lazy()

    def clauses(self, text_ids: pl.LazyFrame) -> pl.LazyFrame:
        """What `classify.clauses` finds in each text, its clause as `clause_text_id`."""
        self._understand(text_ids)
        assert self._clauses is not None
        return self._clauses.lazy()

    def tokens(self, text_ids: pl.LazyFrame) -> pl.LazyFrame:
        """What `lexical.tokens` finds in each text."""
        wanted = _rows(text_ids.select("text_id").drop_nulls().unique())
        known = self._tokens
        new = wanted if known is None else wanted.join(known, on="text_id", how="anti")
        if known is None or not new.is_empty():
            known = self._tokens = _appended(known, _rows(tokens(self._sorted(new["text_id"]))))
        return known.join(wanted, on="text_id", how="semi", maintain_order="left").lazy()

    def drain(self) -> dict[str, pl.DataFrame]:
        """`texts` and `embeddings` that came since the last call: what a commit appends."""
        texts = self._texts.slice(self._stored_texts)
        ids = self._embedded.slice(self._stored_vectors)
        empty = Embeddings.create_empty()
        vectors: pl.DataFrame = empty
        if not ids.is_empty():
            matrix = self._vectors.of(np.arange(self._stored_vectors, len(self._vectors)))
            vectors = pl.DataFrame(
                {"text_id": ids, "vector": pl.Series(matrix).arr.to_list()},
                schema=empty.schema,
            )
        self._stored_texts = self._texts.height
        self._stored_vectors = len(self._embedded)
        return {"texts": texts, "embeddings": vectors}

    def restore(self, texts: pl.DataFrame, embeddings: pl.DataFrame) -> None:
        """Take over the content tables of an earlier run: nothing of them is drained again."""
        self.add(texts)
        if not embeddings.is_empty():
            components = embeddings["vector"].explode().to_numpy().astype(np.float32, copy=False)
            self._append(embeddings["text_id"], components.reshape(embeddings.height, -1))
        self._stored_texts = self._texts.height
        self._stored_vectors = len(self._embedded)

    def _cosines(self, left: pl.Series, right: pl.Series) -> pl.Series:
        self._embed_missing(left)
        self._embed_missing(right)
        places = [self._vector_places.of(side) for side in (left, right)]
        cosines = np.empty(len(left), dtype=np.float64)
        for part in _parts(len(left)):
            pair = [self._vectors.of(side[part]) for side in places]
            cosines[part] = np.einsum("ij,ij->i", *pair)
        return pl.Series(cosines).round(SIMILARITY_DECIMALS)

    def _cosines_with_mean(self, text_ids: pl.Series, groups: np.ndarray) -> pl.Series:
        """Of each vector with the mean of its group. Groups are numbered from 0, in order."""
        self._embed_missing(text_ids)
        places = self._vector_places.of(text_ids)
        means = np.zeros((groups[-1] + 1, self._vectors.of(places[:1]).shape[1]))
        for part in _parts(len(places)):
            own = groups[part]
            vectors = self._vectors.of(places[part]).astype(np.float64)
            # Sums of such components are exact: it does not matter where a part begins.
            starts = np.flatnonzero(np.diff(own, prepend=-1))
            means[own[0] : own[-1] + 1] += np.add.reduceat(vectors, starts, axis=0)
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        means /= np.where(lengths == 0, 1, lengths)
        cosines = np.empty(len(places), dtype=np.float64)
        for part in _parts(len(places)):
            vectors = self._vectors.of(places[part]).astype(np.float64)
            cosines[part] = np.einsum("ij,ij->i", vectors, means[groups[part]])
        return pl.Series(cosines).round(SIMILARITY_DECIMALS)

    def _texts_of(self, text_ids: pl.Series) -> pl.Series:
        places = self._text_places.of(text_ids)
        return self._texts["text"].gather(pl.Series(pa.array(places, mask=places < 0)))

    def _sorted(self, text_ids: pl.Series) -> pl.LazyFrame:
        """`text_id`, `text` of known texts, in order of id."""
        ids = text_ids.unique().sort()
        found = pl.DataFrame({"text_id": ids, "text": self._texts_of(ids)}, schema=_TEXT)
        return found.drop_nulls("text").lazy()

    def _embed_missing(self, text_ids: pl.Series) -> None:
        missing = text_ids.filter(self._vector_places.of(text_ids) < 0).unique().sort()
        if not missing.is_empty():
            self._append(missing, self._embed(self._texts_of(missing).to_list()))

    def _append(self, text_ids: pl.Series, vectors: np.ndarray) -> None:
        self._vector_places.append(text_ids)
        self._embedded = pl.concat([self._embedded, text_ids.rename("text_id")], rechunk=False)
        self._vectors.append(vectors)

    def _understand(self, text_ids: pl.LazyFrame) -> None:
        """Classify the texts that were not asked for before."""
        wanted = text_ids.select("text_id").drop_nulls().unique()
        if self._features is not None:
            wanted = wanted.join(self._features.lazy(), on="text_id", how="anti")
        new = _rows(self._sorted(_rows(wanted)["text_id"]))
        if new.is_empty() and self._features is not None:
            return
        features, parts = understood(new, self._lexicon)
        said = parts.select(text_id="clause_text_id", text="clause").unique("text_id")
        self.add(said.sort("text_id"))
        self._features = _appended(self._features, features)
        self._clauses = _appended(self._clauses, parts.drop("clause"))


def _parts(count: int) -> Iterator[slice]:
    """Rows whose vectors are gathered at once."""
    for start in range(0, count, _PAIRS_AT_ONCE):
        yield slice(start, start + _PAIRS_AT_ONCE)


def _rows(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")


def _appended(known: pl.DataFrame | None, new: pl.DataFrame) -> pl.DataFrame:
    return new if known is None else pl.concat([known, new], rechunk=False)
