"""Baselines: would a simpler ranking of the same experiences have found what matters? (section 6.2)

Every ranker chooses among the experiences that the lane held at that moment. The headline is the
share of preventable failures whose lesson is among the first `k`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from memos_flow.lexical import scored, tokens
from memos_flow.texts import content_id
from reports.ground_truth import concerning, failing, held
from reports.retrieval import injected_ranks
from reports.statistics import clustered_interval
from reports.summary import Tables, variant_of_lanes

K = 5
_QUERY = ["lane_id", "step"]
_SEED = 20_262
#: BM25 as everywhere.
_K1, _B = 1.2, 0.75


def ranked(tables: Tables) -> pl.DataFrame:
    """`ranker`, `lane_id`, `step`, `policy_id`, `place` of the first `K` of each ranker.

    `memory`: what stood in the packet, in its order. `source instruction`: by cosine between this
    task's query and the query of the task that the experience was first learned in. `most recent`.
    `bm25`: over the texts that recall searches. `random`: seeded.
    """
    pool = _pool(tables)
    rankers = {
        "source instruction": _by(pool, "source_similarity"),
        "most recent": _by(pool, "recent"),
        "bm25": _by(_worded(pool, tables), "lexical_similarity"),
        "random": _by(pool, "chance"),
    }
    own = injected_ranks(tables).select(*_QUERY, "policy_id", place="rank")
    parts = [own.filter(pl.col("place") <= K).with_columns(ranker=pl.lit("memory"))]
    parts += [frame.with_columns(ranker=pl.lit(name)) for name, frame in rankers.items()]
    columns = ["ranker", *_QUERY, "policy_id", "place"]
    return pl.concat([part.select(columns) for part in parts])


def _by(pool: pl.DataFrame, column: str) -> pl.DataFrame:
    return (
        pool.sort(*_QUERY, column, "policy_id", descending=[False, False, True, True])
        .with_columns(place=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over(_QUERY))
        .filter(pl.col("place") <= K)
        .select(*_QUERY, "policy_id", "place")
    )


def _pool(tables: Tables) -> pl.DataFrame:
    """Every experience that was a candidate, with what the rankers order by."""
    trials = tables["trials"].select(*_QUERY, "family", "task")
    queries = tables["tasks"].select("family", "task", "query_text_id")
    asked = trials.join(queries, on=["family", "task"], how="left")
    first = (
        tables["policies"]
        .sort("updated_step")
        .unique(["lane_id", "policy_id"], keep="first")
        .select("lane_id", "policy_id", source_step=pl.col("source_episode_ids").list.first())
    )
    learned_in = asked.select(
        "lane_id", source_step="step", source_text_id="query_text_id", source_family="family"
    )
    items = tables["packet_items"].filter(pl.col("channel") == "experience")
    pool = (
        items.select(*_QUERY, "updated_step", "text_id", policy_id="item_id")
        .join(asked, on=_QUERY)
        .join(first, on=["lane_id", "policy_id"])
        .join(learned_in, on=["lane_id", "source_step"], how="left")
        .sort(*_QUERY, "policy_id")
    )
    chances = [
        content_id("random", _SEED, *row) for row in pool.select(*_QUERY, "policy_id").iter_rows()
    ]
    return pool.with_columns(
        source_similarity=_cosines(pool, tables),
        recent=pl.col("updated_step"),
        chance=pl.Series(chances, dtype=pl.Int64),
    )


def _cosines(pool: pl.DataFrame, tables: Tables) -> pl.Series:
    """Cosine of `query_text_id` and `source_text_id`; 0 where one has no vector."""
    embeddings = tables["embeddings"]
    if embeddings.is_empty() or pool.is_empty():
        return pl.Series(np.zeros(pool.height))
    matrix = np.array(embeddings["vector"].to_list(), dtype=np.float32)
    matrix = np.vstack([matrix, np.zeros(matrix.shape[1], dtype=np.float32)])
    rows = embeddings.select("text_id").with_row_index("row")

    def places(column: str) -> Any:
        found = pool.select(text_id=column).join(
            rows, on="text_id", how="left", maintain_order="left"
        )
        return found["row"].fill_null(len(matrix) - 1).to_numpy()

    left, right = places("query_text_id"), places("source_text_id")
    cosines = np.einsum("ij,ij->i", matrix[left], matrix[right])
    return pl.Series(cosines.astype(np.float64)).round(6)


def _worded(pool: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Add `lexical_similarity`, as the memory itself measures it."""
    candidates = pool.with_columns(
        channel=pl.lit("experience"),
        item_id="policy_id",
        recall_bm25_k1=pl.lit(_K1),
        recall_bm25_b=pl.lit(_B),
    )

    def known(ids: pl.LazyFrame) -> pl.LazyFrame:
        return tokens(tables["texts"].lazy().join(ids, on="text_id", how="semi"))

    return scored(candidates.lazy(), known).collect(engine="in-memory")


def preventable_recall(tables: Tables) -> pl.DataFrame:
    """Per setting and ranker: `preventable` failures, `found` among the first 5, `recall@5`, its
    difference to `memory` (`behind`, with `low` and `high` over families), and the same-family
    precision at 5 of all trials that had a candidate, as a secondary figure."""
    lanes = variant_of_lanes(tables)
    first = ranked(tables)
    wrong = (
        tables["trials"]
        .select(*_QUERY, "family", "task", "execution_id")
        .join(failing(tables), on="execution_id")
        .drop("execution_id")
    )
    preventable = (
        wrong.join(concerning(tables), on=[*_QUERY, "about"], how="semi")
        .join(held(tables), on=["lane_id", "about"])
        .filter(pl.col("learned") < pl.col("step"))
    )
    cases = preventable.select(*_QUERY, "family", "task", "about").unique()
    hits = (
        first.join(preventable, on=[*_QUERY, "policy_id"])
        .select("ranker", *_QUERY, "about", hit=pl.lit(1))
        .unique()
    )
    rankers = first.select("ranker").unique()
    judged = (
        cases.join(rankers, how="cross")
        .join(hits, on=["ranker", *_QUERY, "about"], how="left")
        .with_columns(pl.col("hit").fill_null(0))
        .join(lanes, on="lane_id")
        .sort("variant_id", "ranker", *_QUERY, "about")
    )
    rows = [
        _row(variant, ranker, judged)
        for variant, ranker in judged.select("variant_id", "ranker")
        .unique()
        .sort("variant_id", "ranker")
        .iter_rows()
    ]
    frame = pl.DataFrame(rows, schema=_SCHEMA)
    return frame.join(
        _same_family(tables, first, lanes), on=["variant_id", "ranker"], how="left"
    ).sort("variant_id", "recall@5", "ranker", descending=[False, True, False])


_SCHEMA: Mapping[str, Any] = {
    "variant_id": pl.String,
    "ranker": pl.String,
    "preventable": pl.Int64,
    "found": pl.Int64,
    "recall@5": pl.Float64,
    "behind": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "families": pl.Int64,
}


def _row(variant: str, ranker: str, judged: pl.DataFrame) -> dict[str, Any]:
    own = judged.filter((pl.col("variant_id") == variant) & (pl.col("ranker") == ranker))
    memory = judged.filter((pl.col("variant_id") == variant) & (pl.col("ranker") == "memory"))
    pairs = memory.join(own, on=[*_QUERY, "about"], suffix="_own").select(
        "family", "task", difference=pl.col("hit") - pl.col("hit_own")
    )
    interval = clustered_interval(pairs.sort("family", "task"), _SEED)
    return {
        "variant_id": variant,
        "ranker": ranker,
        "preventable": own.height,
        "found": int(own["hit"].sum()),
        "recall@5": own["hit"].mean(),
        "behind": interval.estimate if ranker != "memory" else None,
        "low": interval.low if ranker != "memory" else None,
        "high": interval.high if ranker != "memory" else None,
        "families": own["family"].n_unique(),
    }


def _same_family(tables: Tables, first: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    """Mean share of the first 5 that were learned in the family at hand."""
    family = tables["trials"].select(*_QUERY, "family")
    source = (
        tables["policies"]
        .sort("updated_step")
        .unique(["lane_id", "policy_id"], keep="first")
        .select("lane_id", "policy_id", source_step=pl.col("source_episode_ids").list.first())
        .join(
            family.rename({"step": "source_step", "family": "source_family"}),
            on=["lane_id", "source_step"],
        )
    )
    return (
        first.join(family, on=_QUERY)
        .join(source, on=["lane_id", "policy_id"])
        .join(lanes, on="lane_id")
        .group_by("variant_id", "ranker", *_QUERY)
        .agg(share=(pl.col("family") == pl.col("source_family")).mean())
        .group_by("variant_id", "ranker")
        .agg(pl.col("share").mean().alias("same_family_precision@5"))
    )
