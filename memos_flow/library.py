"""Texts, their vectors and what they say: caches of pure functions of a text.

A text is stored, embedded and classified once, however many lanes carry it. The caches change no
result: whoever asks first gets the answer that everybody gets.
"""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from memos_flow.classify import classified, clauses
from memos_flow.lexical import tokens
from memos_flow.lexicon import Lexicon
from memos_flow.schemas import Embeddings, Texts
from memos_flow.texts import texts_frame

#: Texts to vectors: unit rows whose components are multiples of 2**-11, so that a float32 dot
#: product is exact in any order of summation.
Embed = Callable[[Sequence[str]], np.ndarray]

#: Similarities are rounded before anything compares them (section 3).
SIMILARITY_DECIMALS = 6
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
        self._vectors: np.ndarray | None = None
        self._rows = pl.DataFrame(schema={"text_id": pl.Int64, "row": pl.UInt32})
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
        new = texts.unique("text_id", maintain_order=True).join(
            self._texts, on="text_id", how="anti", maintain_order="left"
        )
        if not new.is_empty():
            self._texts = pl.concat([self._texts, new.select("text_id", "text")], rechunk=False)

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
        if rows.is_empty():
            return rows.with_columns(pl.lit(None, pl.String).alias(name)).lazy()
        texts = self._texts.select(pl.col("text_id").alias(text_id), pl.col("text").alias(name))
        return rows.join(texts, on=text_id, how="left", maintain_order="left").lazy()

    def compared(self, frame: pl.LazyFrame, left: str, right: str, name: str) -> pl.LazyFrame:
        """Add the cosine of the texts behind two id columns, rounded; null where an id is null."""
        rows = _rows(frame)
        if rows.is_empty():
            return rows.with_columns(pl.lit(None, pl.Float64).alias(name)).lazy()
        pairs = rows.select(left, right).drop_nulls().unique()
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
        groups = rows.group_by(group).agg(
            content=pl.col(text_id).sort().cast(pl.String).str.join(" "), members=pl.col(text_id)
        )
        contents = groups.unique("content", maintain_order=False).sort("content")
        members = (
            contents.select("content", pl.col("members").list.sort().alias(text_id))
            .explode(text_id)
            .with_columns(group=pl.col("content").rle_id())
        )
        cosines = self._cosines_with_mean(members[text_id], members["group"].to_numpy())
        found = members.select("content", text_id, cosines.alias(name)).unique()
        return (
            rows.join(groups.select(*group, "content"), on=group, how="left", maintain_order="left")
            .join(found, on=["content", text_id], how="left", maintain_order="left")
            .drop("content")
            .lazy()
        )

    def foresee(self, text_ids: pl.LazyFrame) -> None:
        """Classify texts that will be asked for, and their clauses, all at once: the cues of the
        lexicon are compiled for every batch, however small."""
        self.features(self.clauses(text_ids).select(text_id="clause_text_id"))

    def vectors(self, text_ids: pl.Series) -> np.ndarray:
        """The unit vector of each text, a row each."""
        self._embed_missing(text_ids)
        assert self._vectors is not None
        rows: np.ndarray = self._vectors[self._row_numbers(text_ids)]
        return rows

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
            texts = self._texts.join(new, on="text_id", how="semi").sort("text_id")
            known = self._tokens = _appended(known, _rows(tokens(texts.lazy())))
        return known.join(wanted, on="text_id", how="semi", maintain_order="left").lazy()

    def drain(self) -> dict[str, pl.DataFrame]:
        """`texts` and `embeddings` that came since the last call: what a commit appends."""
        texts = self._texts.slice(self._stored_texts)
        rows = self._rows.slice(self._stored_vectors)
        empty = Embeddings.create_empty()
        vectors: pl.DataFrame = empty
        if self._vectors is not None and not rows.is_empty():
            matrix = self._vectors[self._stored_vectors :]
            vectors = pl.DataFrame(
                {"text_id": rows["text_id"], "vector": pl.Series(matrix).arr.to_list()},
                schema=empty.schema,
            )
        self._stored_texts = self._texts.height
        self._stored_vectors = self._rows.height
        return {"texts": texts, "embeddings": vectors}

    def restore(self, texts: pl.DataFrame, embeddings: pl.DataFrame) -> None:
        """Take over the content tables of an earlier run: nothing of them is drained again."""
        self.add(texts)
        if not embeddings.is_empty():
            components = embeddings["vector"].explode().to_numpy().astype(np.float32, copy=False)
            self._append(embeddings["text_id"], components.reshape(embeddings.height, -1))
        self._stored_texts = self._texts.height
        self._stored_vectors = self._rows.height

    def _cosines(self, left: pl.Series, right: pl.Series) -> pl.Series:
        self._embed_missing(pl.concat([left, right]))
        if self._vectors is None:
            return pl.Series(dtype=pl.Float64)
        left_rows, right_rows = self._row_numbers(left), self._row_numbers(right)
        cosines = np.empty(len(left_rows), dtype=np.float64)
        for start in range(0, len(left_rows), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            cosines[part] = np.einsum(
                "ij,ij->i", self._vectors[left_rows[part]], self._vectors[right_rows[part]]
            )
        return pl.Series(cosines).round(SIMILARITY_DECIMALS)

    def _cosines_with_mean(self, text_ids: pl.Series, groups: np.ndarray) -> pl.Series:
        """Of each vector with the mean of its group; the rows of a group are neighbours."""
        self._embed_missing(text_ids)
        if self._vectors is None or text_ids.is_empty():
            return pl.Series([None] * len(text_ids), dtype=pl.Float64)
        vectors = self._vectors[self._row_numbers(text_ids)].astype(np.float64)
        means = np.add.reduceat(vectors, np.flatnonzero(np.diff(groups, prepend=-1)), axis=0)
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        centres = (means / np.where(lengths == 0, 1, lengths))[groups]
        return pl.Series(np.einsum("ij,ij->i", vectors, centres)).round(SIMILARITY_DECIMALS)

    def _row_numbers(self, text_ids: pl.Series) -> np.ndarray:
        frame = text_ids.rename("text_id").to_frame()
        return frame.join(self._rows, on="text_id", how="left", maintain_order="left")[
            "row"
        ].to_numpy()

    def _embed_missing(self, text_ids: pl.Series) -> None:
        wanted = text_ids.unique().rename("text_id").to_frame().sort("text_id")
        missing = wanted.join(self._rows, on="text_id", how="anti", maintain_order="left").join(
            self._texts, on="text_id", how="left", maintain_order="left"
        )
        if not missing.is_empty():
            self._append(missing["text_id"], self._embed(missing["text"].to_list()))

    def _append(self, text_ids: pl.Series, vectors: np.ndarray) -> None:
        first = self._rows.height
        rows = pl.DataFrame(
            {"text_id": text_ids, "row": pl.arange(first, first + len(text_ids), eager=True)},
            schema=self._rows.schema,
        )
        self._rows = pl.concat([self._rows, rows], rechunk=False)
        known = self._vectors
        self._vectors = vectors if known is None else np.concatenate([known, vectors])

    def _understand(self, text_ids: pl.LazyFrame) -> None:
        """Classify the texts that were not asked for before."""
        wanted = text_ids.select("text_id").drop_nulls().unique()
        if self._features is not None:
            wanted = wanted.join(self._features.lazy(), on="text_id", how="anti")
        texts = wanted.join(self.texts, on="text_id", how="inner").sort("text_id")
        new = _rows(texts)
        if new.is_empty() and self._features is not None:
            return
        parts = _rows(clauses(new.lazy(), self._lexicon))
        features = classified(new.lazy(), parts.lazy(), self._lexicon)
        self._features = _appended(self._features, _rows(features))
        self._clauses = _appended(self._clauses, _rows(self.interned(parts.lazy(), "clause")))


def _rows(frame: pl.LazyFrame) -> pl.DataFrame:
    return frame.collect(engine="in-memory")


def _appended(known: pl.DataFrame | None, new: pl.DataFrame) -> pl.DataFrame:
    return new if known is None else pl.concat([known, new], rechunk=False)
