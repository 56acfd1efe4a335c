"""Retrieval: did the packet contain what was learned before, and what matters now? (section 6.2)

Relevant is an earlier experience about a fault that breaks this task (simulated trials, by the
fault matrix), or with the check kind and the non-null field of a check that fails now (recorded
ones). Trials for which nothing relevant was in the memory are no query and are
counted apart; a relevant experience that was not recalled stays in every denominator.
"""

from collections.abc import Sequence

import polars as pl

from reports.ground_truth import concerning, failing, held
from reports.summary import Tables, injected_experiences, variant_of_lanes

_QUERY = ["lane_id", "step"]


def relevance(tables: Tables) -> pl.DataFrame:
    """`variant_id`, `lane_id`, `step`, `policy_id`, `about`, `rank`: each relevant experience of
    each trial, and what makes it relevant.

    `rank` is its place among the injected experiences of the packet, null where it was not in it.
    """
    lanes = variant_of_lanes(tables)
    return (
        concerning(tables)
        .join(held(tables), on=["lane_id", "about"], how="inner")
        .filter(pl.col("learned") < pl.col("step"))
        .join(injected_ranks(tables), on=[*_QUERY, "policy_id"], how="left")
        .join(lanes, on="lane_id", how="left")
        .select("variant_id", *_QUERY, "policy_id", "about", "rank")
        .sort(*_QUERY, "policy_id", "about")
    )


def injected_ranks(tables: Tables) -> pl.DataFrame:
    """`lane_id`, `step`, `policy_id`, `rank` (1 is first) of the experiences in the packet."""
    return injected_experiences(tables).select(*_QUERY, rank="place", policy_id="item_id")


def ranking_metrics(relevance: pl.DataFrame, ks: Sequence[int] = (1, 3, 5)) -> pl.DataFrame:
    """Per variant: `queries`, `mrr`, `ndcg`, and for each k `hit`, `recall` and `precision` at k.

    Over the queries with something relevant: hit@k = 1 if one of the first k is relevant;
    recall@k = relevant among the first k / relevant; precision@k = relevant among the first k /
    min(k, relevant); MRR = mean of 1/rank of the first relevant one, 0 where none was recalled;
    nDCG = sum over the relevant ones in the packet of 1/log2(rank + 1), divided by what it would be
    with all relevant ones first. Null where there was no query.
    """
    found = [(pl.col("rank").fill_null(2**31 - 1) <= k).sum().alias(f"found_{k}") for k in ks]
    per_query = (
        relevance.unique([*_QUERY, "policy_id"])
        .group_by("variant_id", *_QUERY)
        .agg(
            *found,
            relevant=pl.len(),
            first=pl.col("rank").min(),
            gained=(1 / (pl.col("rank") + 1).log(2)).fill_null(0.0).sum(),
            ideal=(1 / (pl.int_range(1, pl.len() + 1) + 1).log(2)).sum(),
        )
    )
    metrics = [
        expression
        for k in ks
        for expression in (
            (pl.col(f"found_{k}") > 0).mean().alias(f"hit@{k}"),
            (pl.col(f"found_{k}") / pl.col("relevant")).mean().alias(f"recall@{k}"),
            (pl.col(f"found_{k}") / pl.min_horizontal("relevant", pl.lit(k)))
            .mean()
            .alias(f"precision@{k}"),
        )
    ]
    return (
        per_query.group_by("variant_id")
        .agg(
            *metrics,
            queries=pl.len(),
            mrr=(1 / pl.col("first")).fill_null(0.0).mean(),
            ndcg=(pl.col("gained") / pl.col("ideal")).mean(),
        )
        .sort("variant_id")
    )


def preventable_failures(tables: Tables, relevance: pl.DataFrame) -> pl.DataFrame:
    """Per variant: `failing` (what went wrong, per trial), `preventable`, `in_packet`, `share`.

    Preventable: the lane already held an earlier lesson about it. Share: of the preventable ones,
    those whose lesson was in the packet; null where none was preventable.
    """
    wrong = (
        tables["trials"]
        .join(failing(tables), on="execution_id", how="inner")
        .join(variant_of_lanes(tables), on="lane_id", how="left")
        .select("variant_id", *_QUERY, "about")
    )
    covered = (
        relevance.join(wrong, on=[*_QUERY, "about"], how="semi")
        .group_by("variant_id", *_QUERY, "about")
        .agg(carried=pl.col("rank").is_not_null().any())
        .group_by("variant_id")
        .agg(preventable=pl.len(), in_packet=pl.col("carried").sum())
    )
    return (
        wrong.group_by("variant_id")
        .agg(failing=pl.len())
        .join(covered, on="variant_id", how="left")
        .with_columns(pl.col("preventable", "in_packet").fill_null(0))
        .with_columns(
            share=pl.when(pl.col("preventable") > 0).then(
                pl.col("in_packet") / pl.col("preventable")
            )
        )
        .sort("variant_id")
    )


def containment(tables: Tables) -> pl.DataFrame:
    """The containment matrix in long form: `variant_id`, `step`, `learned_at`, `lanes`, `holding`.

    Of the `lanes` that had a task at `step`, how many had in their packet an experience first
    learned at step `learned_at`. Keyed by step numbers, so a missing task shifts nothing.
    """
    lanes = variant_of_lanes(tables)
    planned = (
        tables["trials"]
        .join(lanes, on="lane_id")
        .group_by("variant_id", "step")
        .agg(lanes=pl.len())
    )
    holding = (
        injected_experiences(tables)
        .join(lanes, on="lane_id")
        .group_by("variant_id", "step", learned_at="created_step")
        .agg(holding=pl.col("lane_id").n_unique())
    )
    return (
        planned.join(planned.select("variant_id", learned_at="step"), on="variant_id")
        .filter(pl.col("learned_at") < pl.col("step"))
        .join(holding, on=["variant_id", "step", "learned_at"], how="left")
        .with_columns(pl.col("holding").fill_null(0))
        .sort("variant_id", "step", "learned_at")
    )


def packet_facts(tables: Tables) -> pl.DataFrame:
    """Per variant: `packets`, `empty`, mean `characters` and `items` of all packets."""
    lanes = variant_of_lanes(tables)
    return (
        tables["packets"]
        .join(lanes, on="lane_id")
        .group_by("variant_id")
        .agg(
            packets=pl.len(),
            empty=(pl.col("items") == 0).sum(),
            characters=pl.col("characters").mean(),
            items=pl.col("items").mean(),
        )
        .sort("variant_id")
    )
