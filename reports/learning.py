"""Learning: do later tasks of a sequence go better, and better than without the memory?

A pair is one (arm, seed, lane's family, family, task) in two settings. Seeds are averaged within
(arm, family, task) before any test.
"""

from typing import Any

import polars as pl

from reports.statistics import clustered_interval, holm, mcnemar, sign_flip, smallest_visible
from reports.summary import Tables

_PAIR = ["arm_id", "seed", "lane_family", "family", "task"]
_SEED = 20_260
#: Packets are counted in characters; about four make a token.
CHARACTERS_PER_TOKEN = 4


def learning_curve(tables: Tables) -> pl.DataFrame:
    """`variant_id` and the pass rate at each `task_index`, one column per index, and `all`.

    Passed / planned: unscored trials count as not passed here and are told in the table of trials.
    """
    trials = _trials(tables)
    by_index = (
        trials.group_by("variant_id", "task_index")
        .agg(rate=pl.col("passed").mean())
        .sort("task_index")
        .with_columns(pl.col("task_index").cast(pl.String))
        .pivot(on="task_index", index="variant_id", values="rate")
    )
    overall = trials.group_by("variant_id").agg(pl.col("passed").mean().alias("all"))
    return by_index.join(overall, on="variant_id").sort("variant_id")


def learning_metrics(tables: Tables, baseline: str = "off") -> pl.DataFrame:
    """Per setting: `pass_rate`, its bounds `low` and `high` for unscored trials (all failed, all
    passed), `aulc`, `forward_transfer`, `normalised_gain`, `tokens_per_solved`, `cost_per_solved`.

    AULC: mean over task indices of the pass rate at that index (1 is perfect). Forward transfer:
    mean over the tasks after the first of the pass rate minus the baseline's at the same pair.
    Normalised gain: (rate - baseline) / (1 - baseline); undefined over a perfect baseline. Tokens
    (input and output of all trials, known ones) and cost (known ones) per passed trial; null where
    nothing was passed or nothing is known.
    """
    trials = _trials(tables)
    spent = tables["executions"].select(
        "execution_id",
        tokens=pl.col("tokens_input") + pl.col("tokens_output"),
        cost="cost_usd",
    )
    own = trials.join(spent, on="execution_id", how="left")
    indexed = (
        trials.group_by("variant_id", "task_index")
        .agg(rate=pl.col("passed").mean())
        .group_by("variant_id")
        .agg(aulc=pl.col("rate").mean())
    )
    solved = pl.col("passed").sum()
    totals = own.group_by("variant_id").agg(
        pass_rate=pl.col("passed").mean(),
        low=pl.col("passed").mean(),
        high=(pl.col("passed") | pl.col("unscored")).mean(),
        tokens_per_solved=_per_solved(pl.col("tokens"), solved),
        cost_per_solved=_per_solved(pl.col("cost"), solved),
    )
    later = _against(trials.filter(pl.col("task_index") > 0), baseline)
    transfer = later.group_by("variant_id").agg(
        forward_transfer=(pl.col("passed").cast(pl.Int8) - pl.col("without").cast(pl.Int8)).mean()
    )
    base = totals.filter(pl.col("variant_id") == baseline)["pass_rate"]
    reference = base[0] if len(base) else None
    gain = (
        pl.lit(None, pl.Float64)
        if reference is None or reference >= 1
        else (pl.col("pass_rate") - reference) / (1 - reference)
    )
    return (
        totals.join(indexed, on="variant_id")
        .join(transfer, on="variant_id", how="left")
        .with_columns(
            normalised_gain=pl.when(pl.col("variant_id") != baseline).then(gain),
        )
        .select(
            *("variant_id", "pass_rate", "low", "high", "aulc", "forward_transfer"),
            *("normalised_gain", "tokens_per_solved", "cost_per_solved"),
        )
        .sort("variant_id")
    )


def _per_solved(amount: pl.Expr, solved: pl.Expr) -> pl.Expr:
    known = amount.is_not_null().any() & (solved > 0)
    return pl.when(known).then(amount.sum() / solved)


def paired_differences(tables: Tables, baseline: str = "off") -> pl.DataFrame:
    """Each setting against `baseline` at the same arm, family, seed and task.

    `pairs` (seeds averaged), `helped` (failed without, passed with) and `harmed` trials,
    `difference` of pass rates with its interval over clusters (`low`, `high`, `clusters`), `p`
    (exact McNemar where each pair has one trial, else sign-flip permutation), `p_holm` over the
    settings, `visible`: the smallest difference that so many pairs would show. Empty without the
    baseline.
    """
    rows = [
        _compared(name[0], frame)
        for name, frame in _against(_trials(tables), baseline)
        .sort("variant_id", *_PAIR)
        .group_by("variant_id", maintain_order=True)
    ]
    adjusted = holm([row["p"] for row in rows])
    return pl.DataFrame(
        [{**row, "p_holm": value} for row, value in zip(rows, adjusted, strict=True)],
        schema=_DIFFERENCES,
    )


_DIFFERENCES = {
    "variant_id": pl.String,
    "pairs": pl.Int64,
    "helped": pl.Int64,
    "harmed": pl.Int64,
    "difference": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "clusters": pl.Int64,
    "p": pl.Float64,
    "p_holm": pl.Float64,
    "visible": pl.Float64,
}


def pair_differences(tables: Tables, baseline: str) -> pl.DataFrame:
    """`variant_id`, `family`, `task`, `difference` of every other setting to `baseline`: one row
    per arm and task, averaged over seeds."""
    change = pl.col("passed").cast(pl.Int8) - pl.col("without").cast(pl.Int8)
    return (
        _against(_trials(tables), baseline)
        .group_by("variant_id", "arm_id", "family", "task")
        .agg(difference=change.mean())
        .sort("variant_id", "arm_id", "family", "task")
    )


def _against(trials: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """Trials of the other settings with `without`: whether the baseline's passed."""
    without = trials.filter(pl.col("variant_id") == baseline).select(*_PAIR, without="passed")
    return trials.filter(pl.col("variant_id") != baseline).join(
        without, on=_PAIR, how="inner", nulls_equal=True
    )


def _compared(name: object, trials: pl.DataFrame) -> dict[str, Any]:
    change = pl.col("passed").cast(pl.Int8) - pl.col("without").cast(pl.Int8)
    pairs = (
        trials.group_by("arm_id", "family", "task")
        .agg(difference=change.mean(), trials=pl.len())
        .sort("arm_id", "family", "task")
    )
    helped = int((trials["passed"] & ~trials["without"]).sum())
    harmed = int((~trials["passed"] & trials["without"]).sum())
    interval = clustered_interval(pairs, _SEED)
    single = bool((pairs["trials"] == 1).all())
    p = mcnemar(helped, harmed)[0] if single else sign_flip(pairs["difference"].to_list(), _SEED)
    return {
        "variant_id": str(name),
        "pairs": pairs.height,
        "helped": helped,
        "harmed": harmed,
        "difference": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "clusters": interval.clusters,
        "p": p,
        "visible": smallest_visible(trials.height, helped + harmed),
    }


def _trials(tables: Tables) -> pl.DataFrame:
    lanes = tables["lanes"].select("lane_id", "variant_id", "arm_id", "seed", lane_family="family")
    return (
        tables["trials"]
        .join(lanes, on="lane_id")
        .with_columns(pl.col("passed").fill_null(False), unscored=pl.col("passed").is_null())
    )


def skill_usage(tables: Tables) -> pl.DataFrame:
    """Per setting, used is not the same as useful: `skills`, `injected` (trials whose packet held
    one), `pass_with` and `pass_without` one among the scored trials of lanes that have a skill,
    `utility` (their difference), null where a side is empty."""
    lanes = tables["lanes"].select("lane_id", "variant_id")
    held = (
        tables["packet_items"]
        .filter((pl.col("channel") == "skill") & (pl.col("fate") == "injected"))
        .select("lane_id", "step")
        .unique()
        .with_columns(used=pl.lit(True))
    )
    first = (
        tables["skills"]
        .group_by("lane_id")
        .agg(first=pl.col("created_step").min(), skills=pl.col("skill_id").n_unique())
    )
    trials = (
        tables["trials"]
        .filter(pl.col("passed").is_not_null())
        .join(first, on="lane_id", how="inner")
        .filter(pl.col("step") > pl.col("first"))
        .join(held, on=["lane_id", "step"], how="left")
        .with_columns(pl.col("used").fill_null(False))
        .join(lanes, on="lane_id")
    )
    counts = first.join(lanes, on="lane_id").group_by("variant_id").agg(pl.col("skills").sum())
    return (
        trials.group_by("variant_id")
        .agg(
            injected=pl.col("used").sum(),
            pass_with=pl.col("passed").filter("used").mean(),
            pass_without=pl.col("passed").filter(~pl.col("used")).mean(),
        )
        .with_columns(utility=pl.col("pass_with") - pl.col("pass_without"))
        .join(counts, on="variant_id", how="left")
        .select("variant_id", "skills", "injected", "pass_with", "pass_without", "utility")
        .sort("variant_id")
    )
