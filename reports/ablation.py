"""Ablation: the curve of every axis, their interaction, the Pareto front, and what to ship."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from reports import learning, retrieval
from reports.ground_truth import is_simulated
from reports.rendering import aligned
from reports.statistics import clustered_interval
from reports.summary import Tables, variant_of_lanes

_SEED = 20_261


def per_variant(tables: Tables) -> pl.DataFrame:
    """Per setting: `pass_rate`, `recall@5` of what is relevant, `preventable` (share of preventable
    failures whose lesson was in the packet), `tokens` (mean per packet), `experiences` and `skills`
    per lane."""
    relevance = retrieval.relevance(tables)
    lanes = variant_of_lanes(tables)

    def per_lane(table: str, key: str) -> pl.DataFrame:
        counted = tables[table].unique(["lane_id", key]).join(lanes, on="lane_id")
        return counted.group_by("variant_id").agg(pl.len().alias(table))

    number = lanes.group_by("variant_id").agg(lanes=pl.len())
    return (
        number.join(
            learning.learning_metrics(tables).select("variant_id", "pass_rate"),
            on="variant_id",
            how="left",
        )
        .join(
            retrieval.ranking_metrics(relevance, ks=(5,)).select("variant_id", "recall@5"),
            on="variant_id",
            how="left",
        )
        .join(
            retrieval.preventable_failures(tables, relevance).select(
                "variant_id", preventable="share"
            ),
            on="variant_id",
            how="left",
        )
        .join(
            retrieval.packet_facts(tables).select(
                "variant_id", tokens=pl.col("characters") / learning.CHARACTERS_PER_TOKEN
            ),
            on="variant_id",
            how="left",
        )
        .join(per_lane("policies", "policy_id"), on="variant_id", how="left")
        .join(per_lane("skills", "skill_id"), on="variant_id", how="left")
        .with_columns(
            experiences=pl.col("policies").fill_null(0) / pl.col("lanes"),
            skills=pl.col("skills").fill_null(0) / pl.col("lanes"),
        )
        .drop("lanes", "policies")
        .sort("variant_id")
    )


def headline(tables: Tables) -> str:
    """What a setting is chosen by: the pass rate where packets can change it, else recall."""
    return "pass_rate" if is_simulated(tables) else "recall@5"


def curves(
    tables: Tables, points: pl.DataFrame, metrics: pl.DataFrame, base: str
) -> dict[str, pl.DataFrame]:
    """Per axis: a row per value with the mean of every metric over the settings that have it, and
    the `difference` of the pass rate to `base` with its interval (`low`, `high`), paired by arm,
    family, task and seed."""
    effects = learning.pair_differences(tables, base)
    result = {}
    for axis in points.columns[1:]:
        placed = points.select("variant_id", value=axis).drop_nulls()
        means = (
            placed.join(metrics, on="variant_id")
            .group_by("value", maintain_order=True)
            .agg(pl.col(metrics.columns[1:]).mean(), settings=pl.len())
        )
        rows = []
        for value, own in placed.join(effects, on="variant_id").group_by(
            "value", maintain_order=True
        ):
            pairs = own.group_by("family", "task").agg(pl.col("difference").mean())
            interval = clustered_interval(pairs.sort("family", "task"), _SEED)
            rows.append(
                {
                    "value": value[0],
                    "difference": interval.estimate,
                    "low": interval.low,
                    "high": interval.high,
                }
            )
        schema = {"value": pl.String, **dict.fromkeys(("difference", "low", "high"), pl.Float64)}
        result[axis] = means.join(
            pl.DataFrame(rows, schema=schema), on="value", how="left", maintain_order="left"
        )
    return result


def interaction(
    points: pl.DataFrame, metrics: pl.DataFrame, axes: Sequence[str], metric: str
) -> pl.DataFrame:
    """The metric by the values of two axes: rows of the first, columns of the second."""
    first, second = axes
    joined = points.join(metrics.select("variant_id", metric), on="variant_id")
    return joined.pivot(
        on=second, index=first, values=metric, aggregate_function="mean", maintain_order=True
    )


def pareto(metrics: pl.DataFrame) -> pl.DataFrame:
    """The settings that no other beats in both recall (higher) and tokens (lower)."""
    known = metrics.drop_nulls(["recall@5", "tokens"]).sort(
        "tokens", "recall@5", descending=[False, True]
    )
    best_so_far = pl.col("recall@5").cum_max().shift(1)
    return known.filter(best_so_far.is_null() | (pl.col("recall@5") > best_so_far))


def recommended(
    tables: Tables, points: pl.DataFrame, metrics: pl.DataFrame, base: str
) -> dict[str, Any]:
    """The setting with the best headline, how it compares to `base`, and how sure that is.

    The best of many settings looks better than it is: `p_holm` counts them all.
    """
    metric = headline(tables)
    tried = metrics.join(points, on="variant_id", how="semi")
    if tried[metric].null_count() == tried.height:
        return {"metric": metric, "setting": None, "why": "nothing to measure it by"}
    best = tried.sort(
        metric, "tokens", "variant_id", descending=[True, False, False], nulls_last=True
    )
    row = best.row(0, named=True)
    differences = learning.paired_differences(tables, base).filter(
        pl.col("variant_id") == row["variant_id"]
    )
    reference = metrics.filter(pl.col("variant_id") == base)[metric].to_list()
    told: dict[str, Any] = {
        "metric": metric,
        "setting": row["variant_id"],
        "value": row[metric],
        "base": base,
        "base_value": reference[0] if reference else None,
        "settings_tried": tried.height,
        "ties": int((tried[metric] == row[metric]).sum()),
    }
    if differences.height:
        told |= differences.drop("variant_id").row(0, named=True)
        sure = told["p_holm"] < 0.05
        told["verdict"] = (
            "better than the base" if sure else "not to be told apart from the base by this run"
        )
    return told


def as_data(tables: Tables, points: pl.DataFrame, base: str) -> dict[str, Any]:
    """The whole ablation report for machines."""
    metrics = per_variant(tables)
    axes = points.columns[1:]
    metric = headline(tables)
    return {
        "base": base,
        "headline": metric,
        "recommended": recommended(tables, points, metrics, base),
        "curves": {
            axis: frame.to_dicts() for axis, frame in curves(tables, points, metrics, base).items()
        },
        "interaction": (
            interaction(points, metrics, axes[:2], metric).to_dicts() if len(axes) > 1 else None
        ),
        "pareto": pareto(metrics).to_dicts(),
        "settings": points.join(metrics, on="variant_id", how="left").to_dicts(),
    }


def as_text(data: dict[str, Any]) -> str:
    """The same for a terminal: what to ship first, then the curves."""
    told = data["recommended"]
    lines = [f"Recommended by {data['headline']}: {told['setting']}"]
    if told["setting"] is not None:
        lines.append(
            f"{_number(told['value'])} against {_number(told['base_value'])} of {data['base']}"
            f" ({told['settings_tried']} settings, {told['ties']} as good)"
        )
    if "verdict" in told:
        bounds = (
            f"[{_number(told['low'])}, {_number(told['high'])}]"
            if told["low"] is not None
            else "no interval"
        )
        lines.append(
            f"difference {_number(told['difference'])} {bounds}, p {_number(told['p'])}, "
            f"{_number(told['p_holm'])} by Holm over all settings: {told['verdict']}; "
            f"differences below {_number(told['visible'])} cannot be seen with these pairs"
        )
    blocks = ["\n".join(lines)]
    for axis, rows in data["curves"].items():
        blocks.append(f"{axis}\n{aligned(pl.DataFrame(rows, infer_schema_length=None))}")
    if data["interaction"]:
        blocks.append(
            f"{data['headline']} by the first two axes\n"
            + aligned(pl.DataFrame(data["interaction"], infer_schema_length=None))
        )
    front = pl.DataFrame(data["pareto"], infer_schema_length=None)
    if not front.is_empty():
        blocks.append(f"Pareto front, recall@5 against tokens\n{aligned(front)}")
    return "\n\n".join(blocks)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
