"""Lexical similarity: BM25 within a lane, for English words and pairs of Han characters.

An inverse document frequency is a lane's own: no lane changes another's scores.
"""

from collections.abc import Callable

import polars as pl

#: `text_id` of texts to their rows of `tokens`.
Tokens = Callable[[pl.LazyFrame], pl.LazyFrame]
#: A candidate of one lane at one step.
_ITEM = ["lane_id", "step", "channel", "item_id"]


def tokens(texts: pl.LazyFrame) -> pl.LazyFrame:
    """`text_id`, `token`, `count` of each text (`text_id`, `text`): lower-case words and numbers of
    any script, and every two neighbouring Han characters; one alone is a token of its own."""
    lowered = texts.with_columns(pl.col("text").str.normalize("NFKC").str.to_lowercase())
    words = lowered.select(
        "text_id", token=pl.col("text").str.extract_all(r"[\p{L}\p{M}\p{N}_--\p{Han}]+")
    ).explode("token")
    runs = (
        lowered.select("text_id", run=pl.col("text").str.extract_all(r"\p{Han}+"))
        .explode("run")
        .drop_nulls("run")
        .with_row_index("run_id")
    )
    signs = runs.with_columns(sign=pl.col("run").str.split("")).explode("sign")
    signs = signs.filter(pl.col("sign") != "").with_columns(
        following=pl.col("sign").shift(-1).over("run_id")
    )
    pairs = signs.filter(
        pl.col("following").is_not_null() | (pl.col("run").str.len_chars() == 1)
    ).select("text_id", token=pl.concat_str("sign", "following", ignore_nulls=True))
    return (
        pl.concat([words.drop_nulls("token"), pairs])
        .group_by("text_id", "token")
        .agg(count=pl.len().cast(pl.Int32))
        .sort("text_id", "token")
    )


def scored(candidates: pl.LazyFrame, known_tokens: Tokens) -> pl.LazyFrame:
    """Add `lexical_similarity`: BM25 of the query against the candidate's text, divided by the best
    of its channel; 0 where no token is shared.

    score = sum over the query's tokens of idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length /
    mean length)), idf = ln(1 + (N - n + 0.5) / (n + 0.5)), N and n counted over the lane's
    candidates with a token. Needs the columns `recall_bm25_k1` and `recall_bm25_b`.
    """
    wanted = pl.concat([candidates.select("text_id"), candidates.select(text_id="query_text_id")])
    known = known_tokens(wanted)
    documents = candidates.select(*_ITEM, "text_id").join(known, on="text_id", how="inner")
    lengths = documents.group_by(_ITEM).agg(length=pl.col("count").sum())
    means = lengths.group_by("lane_id", "step").agg(
        mean_length=pl.col("length").sum() / pl.len(), documents=pl.len()
    )
    frequencies = documents.group_by("lane_id", "step", "token").agg(holding=pl.len())
    queries = (
        candidates.select("lane_id", "step", "query_text_id")
        .unique()
        .join(known.rename({"text_id": "query_text_id"}).drop("count"), on="query_text_id")
        .select("lane_id", "step", "token")
    )
    rules = candidates.select("lane_id", "recall_bm25_k1", "recall_bm25_b").unique()
    k1, b, tf = pl.col("recall_bm25_k1"), pl.col("recall_bm25_b"), pl.col("count")
    idf = (1 + (pl.col("documents") - pl.col("holding") + 0.5) / (pl.col("holding") + 0.5)).log()
    saturated = tf * (k1 + 1) / (tf + k1 * (1 - b + b * pl.col("length") / pl.col("mean_length")))
    scores = (
        documents.join(queries, on=["lane_id", "step", "token"], how="inner")
        .join(frequencies, on=["lane_id", "step", "token"], how="left")
        .join(lengths, on=_ITEM, how="left")
        .join(means, on=["lane_id", "step"], how="left")
        .join(rules, on="lane_id", how="left")
        # Rounded to whole millionths: their sum does not depend on its order.
        .with_columns(part=(idf * saturated * 1_000_000).round().cast(pl.Int64))
        .group_by(_ITEM)
        .agg(bm25=pl.col("part").sum())
        .with_columns(best=pl.col("bm25").max().over("lane_id", "step", "channel"))
    )
    return (
        candidates.join(scores, on=_ITEM, how="left", maintain_order="left")
        .with_columns(
            lexical_similarity=pl.when(pl.col("best") > 0)
            .then(pl.col("bm25") / pl.col("best"))
            .fill_null(0.0)
            .round(6)
        )
        .drop("bm25", "best")
    )
